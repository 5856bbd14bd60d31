// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The subnet management agent of an HCA port: attributes a subnet manager reads and writes. */
#include "softib.h"

void smp_bad(struct ib_smp *s, int status)
{
	s->status |= cpu_to_be16(status << 2);
}

/* Reads or writes a table that is stored in wire format. */
void smp_block(struct ib_smp *s, void *table, bool set)
{
	if (set)
		memcpy(table, s->data, sizeof(s->data));
	else
		memcpy(s->data, table, sizeof(s->data));
}

void smp_pkeys(struct ib_smp *s, u16 *table, bool set)
{
	u32 blk = be32_to_cpu(s->attr_mod) & 0xffff, i;
	__be16 *p = (__be16 *)s->data;

	if (blk >= SIB_NPKEYS / 32) {
		smp_bad(s, SMP_BAD_VALUE);
		return;
	}
	table += blk * 32;
	for (i = 0; i < 32; i++) {
		if (set)
			table[i] = be16_to_cpu(p[i]);
		p[i] = cpu_to_be16(table[i]);
	}
}

static void node_info(struct sib_dev *d, struct ib_smp *s)
{
	struct ib_node_info *ni = (void *)s->data;

	memset(s->data, 0, sizeof(s->data));
	ni->base_version = 1;
	ni->class_version = 1;
	ni->node_type = RDMA_NODE_IB_CA;
	ni->num_ports = 1;
	ni->sys_guid = d->image_guid;
	ni->node_guid = d->rdi.ibdev.node_guid;
	ni->port_guid = d->guids[0];
	ni->partition_cap = cpu_to_be16(SIB_NPKEYS);
	ni->device_id = cpu_to_be16(d->rdi.dparms.props.vendor_part_id);
	ni->local_port_num = 1;
	ni->vendor_id[1] = 0x02;
	ni->vendor_id[2] = 0xc9;
}

static void guid_info(struct sib_dev *d, struct ib_smp *s, bool set)
{
	__be64 *g = (__be64 *)s->data;
	int i;

	for (i = 0; i < SIB_NGUIDS; i++) {
		if (set && i)			/* the first is burnt in */
			d->guids[i] = g[i];
		g[i] = d->guids[i];
	}
	if (set)
		sib_event(d, IB_EVENT_GID_CHANGE);
}

static void port_info(struct sib_dev *d, struct ib_smp *s, bool set)
{
	struct ib_port_info *n = (void *)s->data, old = d->pi;
	u8 rereg = set ? n->clientrereg_resv_subnetto & 0x80 : 0;

	if (be32_to_cpu(s->attr_mod) > 1) {
		smp_bad(s, SMP_BAD_VALUE);
		return;
	}
	if (set) {
		pi_set(&d->pi, n, true);
		d->rvp.sm_lid = be16_to_cpu(d->pi.sm_lid);
		d->rvp.sm_sl = d->pi.neighbormtu_mastersmsl & 0xf;
		d->rvp.gid_prefix = d->pi.gid_prefix;
		d->rvp.subnet_timeout = d->pi.clientrereg_resv_subnetto & 0x1f;
	}
	d->pi.cap_mask = cpu_to_be32(d->rvp.port_cap_flags);
	d->pi.pkey_violations = cpu_to_be16(d->rvp.pkey_violations);
	d->pi.qkey_violations = cpu_to_be16(d->rvp.qkey_violations);
	memset(s->data, 0, sizeof(s->data));
	*n = d->pi;
	n->clientrereg_resv_subnetto |= rereg;

	if (old.gid_prefix != d->pi.gid_prefix)
		sib_event(d, IB_EVENT_GID_CHANGE);
	if (old.lid != d->pi.lid)
		sib_event(d, IB_EVENT_LID_CHANGE);
	if (old.sm_lid != d->pi.sm_lid)
		sib_event(d, IB_EVENT_SM_CHANGE);
	if (pi_state(&old) != IB_PORT_ACTIVE && pi_state(&d->pi) == IB_PORT_ACTIVE)
		sib_event(d, IB_EVENT_PORT_ACTIVE);
	if (pi_state(&old) == IB_PORT_ACTIVE && pi_state(&d->pi) != IB_PORT_ACTIVE)
		sib_event(d, IB_EVENT_PORT_ERR);
	if (rereg)
		sib_event(d, IB_EVENT_CLIENT_REREGISTER);
}

/* Turns a Get or Set for this port into its response. sib_lock held. */
static int sma(struct sib_dev *d, struct ib_smp *s)
{
	bool set = s->method == IB_MGMT_METHOD_SET;

	switch (s->attr_id) {
	case IB_SMP_ATTR_NODE_DESC:
		memcpy(s->data, d->rdi.ibdev.node_desc, sizeof(s->data));
		break;
	case IB_SMP_ATTR_NODE_INFO:
		node_info(d, s);
		break;
	case IB_SMP_ATTR_GUID_INFO:
		guid_info(d, s, set);
		break;
	case IB_SMP_ATTR_PORT_INFO:
		port_info(d, s, set);
		break;
	case IB_SMP_ATTR_PKEY_TABLE:
		smp_pkeys(s, d->pkeys, set);
		if (set)
			sib_event(d, IB_EVENT_PKEY_CHANGE);
		break;
	case IB_SMP_ATTR_SL_TO_VL_TABLE:		/* one VL */
	case SMP_ATTR_MLNX_EXT_PORT_INFO:		/* no speed beyond the standard ones */
		memset(s->data, 0, sizeof(s->data));
		break;
	case IB_SMP_ATTR_VL_ARB_TABLE:
		smp_block(s, d->vlarb[(be32_to_cpu(s->attr_mod) >> 16) % 5], set);
		break;
	case IB_SMP_ATTR_SM_INFO:
		if (d->rvp.port_cap_flags & IB_PORT_SM)
			return IB_MAD_RESULT_SUCCESS;	/* the subnet manager on this port responds */
		fallthrough;
	default:
		smp_bad(s, SMP_BAD_ATTR);
	}
	s->method = IB_MGMT_METHOD_GET_RESP;
	if (s->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		s->status |= IB_SMP_DIRECTION;
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

int sib_process_mad(struct ib_device *ib, int flags, u32 port, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in,
		    struct ib_mad *out, size_t *osz, u16 *opk)
{
	u8 class = in->mad_hdr.mgmt_class, method = in->mad_hdr.method;
	struct sib_dev *d = to_sib(ib);
	int ret = IB_MAD_RESULT_SUCCESS;

	/* responses, traps and other classes are for registered agents, e.g. the subnet manager */
	if (method != IB_MGMT_METHOD_GET && method != IB_MGMT_METHOD_SET)
		return ret;
	if (class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE || class == IB_MGMT_CLASS_SUBN_LID_ROUTED) {
		*out = *in;
		mutex_lock(&sib_lock);
		ret = sma(d, (struct ib_smp *)out);
		mutex_unlock(&sib_lock);
	} else if (class == IB_MGMT_CLASS_PERF_MGMT) {
		*out = *in;
		pma_answer(out, &d->cnt - 1, 1, 1);	/* the one port is number 1 */
		ret = IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
	}
	return ret;
}
