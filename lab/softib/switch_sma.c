// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The switch's subnet management agent: attributes a subnet manager reads and writes. */
#include "switch.h"

#define SW_INFO_PSC	4		/* SwitchInfo.PortStateChange */

static void node_info(struct ib_smp *s, int inport)
{
	struct ib_node_info *ni = (void *)s->data;

	memset(s->data, 0, sizeof(s->data));
	ni->base_version = 1;
	ni->class_version = 1;
	ni->node_type = RDMA_NODE_IB_SWITCH;
	ni->num_ports = SIB_SWPORTS;
	ni->sys_guid = ni->node_guid = ni->port_guid = cpu_to_be64(sw->guid);
	ni->partition_cap = cpu_to_be16(SIB_NPKEYS);
	ni->device_id = cpu_to_be16(0xcb20);
	ni->local_port_num = inport;
	ni->vendor_id[1] = 0x02;
	ni->vendor_id[2] = 0xc9;
}

/*
 * A subnet manager clears PortStateChange at the end of its sweep and so misses a port
 * that changed after it was read. A trap would report it, but opensm ignores frequent
 * traps (ten within seconds). So the bit stays set until the manager has read the
 * current state of every port.
 */
static bool port_state_changed(void)
{
	int i;

	for (i = 1; i <= SIB_SWPORTS; i++)
		if (sw->reported[i] != pi_state(&sw->pi[i]))
			return true;
	return sw->psc;
}

static void switch_info(struct ib_smp *s, bool set)
{
	__be16 *w = (__be16 *)s->data;

	if (set) {
		sw->lft_top = be16_to_cpu(w[3]);
		sw->life = s->data[11] & ~SW_INFO_PSC;
		if (s->data[11] & SW_INFO_PSC)	/* writing 1 clears it */
			sw->psc = false;
	}
	memset(s->data, 0, sizeof(s->data));
	w[0] = cpu_to_be16(LFT_LEN);
	w[2] = cpu_to_be16(MFT_LEN);
	w[3] = cpu_to_be16(sw->lft_top);
	s->data[11] = sw->life | (port_state_changed() ? SW_INFO_PSC : 0);
	w[7] = cpu_to_be16(SIB_NPKEYS);		/* PartitionEnforcementCap */
	s->data[16] = 0xc0;			/* partition checks, in and out */
}

/* A subnet manager may also disable and enable a port (ibportstate). */
static void port_info(struct ib_smp *s, int inport, bool set)
{
	u32 port = be32_to_cpu(s->attr_mod) & 0xff;
	struct ib_port_info *n = (void *)s->data, *pi;
	u8 phys;

	if (port > SIB_SWPORTS) {
		smp_bad(s, SMP_BAD_VALUE);
		return;
	}
	pi = &sw->pi[port];
	if (set) {
		phys = pi_phys(n);
		pi_set(pi, n, port == 0);
		if (port && phys == PHYS_DISABLED) {
			pi_link(pi, false);
			pi->portphysstate_linkdown = PHYS_DISABLED << 4 | 2;
			sw_relink(port);
		} else if (port && phys == PHYS_POLLING && pi_phys(pi) == PHYS_DISABLED) {
			pi->portphysstate_linkdown = PHYS_POLLING << 4 | 2;
			sw_relink(port);
		}
	}
	memset(s->data, 0, sizeof(s->data));
	*n = *pi;
	n->local_port_num = inport;
	sw->reported[port] = pi_state(n);
}

/* One block: 32 multicast LIDs by 16 ports. */
static void mft(struct ib_smp *s, u32 mod, bool set)
{
	u32 shift = (mod >> 28) * 16, blk = mod & 0x1ff, i;
	__be16 *w = (__be16 *)s->data;

	if (blk >= MFT_LEN / 32 || shift > 48) {
		smp_bad(s, SMP_BAD_VALUE);
		return;
	}
	for (i = 0; i < 32; i++) {
		u64 *e = &sw->mft[blk * 32 + i];

		if (set)
			*e = (*e & ~(0xffffULL << shift)) | (u64)be16_to_cpu(w[i]) << shift;
		w[i] = cpu_to_be16(*e >> shift);
	}
}

/* Turns a Get or Set for the switch into its response. */
void sw_sma(struct ib_smp *s, int inport)
{
	bool set = s->method == IB_MGMT_METHOD_SET;
	u32 mod = be32_to_cpu(s->attr_mod), port;

	mutex_lock(&sib_lock);
	switch (s->attr_id) {
	case IB_SMP_ATTR_NODE_DESC:
		memset(s->data, 0, sizeof(s->data));
		snprintf(s->data, sizeof(s->data), "softib switch %d", sib_nodeid);
		break;
	case IB_SMP_ATTR_NODE_INFO:
		node_info(s, inport);
		break;
	case IB_SMP_ATTR_SWITCH_INFO:
		switch_info(s, set);
		break;
	case IB_SMP_ATTR_PORT_INFO:
		port_info(s, inport, set);
		break;
	case IB_SMP_ATTR_PKEY_TABLE:
		port = mod >> 16;
		if (port > SIB_SWPORTS)
			smp_bad(s, SMP_BAD_VALUE);
		else
			smp_pkeys(s, sw->pkeys[port], set);
		break;
	case IB_SMP_ATTR_GUID_INFO:
		memset(s->data, 0, sizeof(s->data));
		*(__be64 *)s->data = cpu_to_be64(sw->guid);
		break;
	case IB_SMP_ATTR_SL_TO_VL_TABLE:
	case SMP_ATTR_MLNX_EXT_PORT_INFO:	/* no speed beyond the standard ones */
		memset(s->data, 0, sizeof(s->data));
		break;
	case IB_SMP_ATTR_VL_ARB_TABLE:
		smp_block(s, sw->vlarb[(mod & 0xffff) % (SIB_SWPORTS + 1)][(mod >> 16) % 5], set);
		break;
	case IB_SMP_ATTR_LINEAR_FORWARD_TABLE:
		if (mod >= LFT_LEN / 64)
			smp_bad(s, SMP_BAD_VALUE);
		else
			smp_block(s, sw->lft + mod * 64, set);
		break;
	case IB_SMP_ATTR_MCAST_FORWARD_TABLE:
		mft(s, mod, set);
		break;
	default:
		smp_bad(s, SMP_BAD_ATTR);
	}
	s->method = IB_MGMT_METHOD_GET_RESP;
	mutex_unlock(&sib_lock);
}
