// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The performance management agent of HCAs and of the switch. perfquery and the
 * kernel's files in .../ports/1/counters query it.
 */
#include <rdma/ib_pma.h>
#include "softib.h"

static void pma_bad(struct ib_mad *mad, int status)
{
	mad->mad_hdr.status |= cpu_to_be16(status << 2);
}

static void class_port_info(struct ib_pma_mad *pma)
{
	struct ib_class_port_info *info = (void *)pma->data;

	memset(pma->data, 0, sizeof(pma->data));
	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = 1;
	info->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH;
	ib_set_cpi_resp_time(info, 18);
}

static u64 get(const struct sib_counters *c, enum sib_count i, u64 most)
{
	return min_t(u64, atomic64_read(&c->n[i]), most);	/* narrow counters saturate */
}

/* Set(PortCounters) writes the selected counters; tools write 0 to reset them. */
static void port_counters(struct ib_pma_mad *pma, struct sib_counters *c, bool set)
{
	static const struct { u16 select; enum sib_count i; } clears[] = {
		{ 0x0004, CNT_LINK_DOWNED }, { 0x0020, CNT_RELAY_ERRORS },
		{ 0x0040, CNT_XMIT_DISCARDS }, { 0x0080, CNT_XMIT_CONSTRAINT },
		{ 0x0100, CNT_RCV_CONSTRAINT }, { 0x1000, CNT_XMIT_DATA },
		{ 0x2000, CNT_RCV_DATA }, { 0x4000, CNT_XMIT_PKTS }, { 0x8000, CNT_RCV_PKTS },
	};
	struct ib_pma_portcounters *p = (void *)pma->data;
	u16 select = be16_to_cpu(p->counter_select);
	u8 port = p->port_select;
	int i;

	for (i = 0; set && i < ARRAY_SIZE(clears); i++)
		if (select & clears[i].select)
			atomic64_set(&c->n[clears[i].i], 0);
	memset(p, 0, sizeof(*p));
	p->port_select = port;
	p->link_downed_counter = get(c, CNT_LINK_DOWNED, U8_MAX);
	p->port_rcv_switch_relay_errors = cpu_to_be16(get(c, CNT_RELAY_ERRORS, U16_MAX));
	p->port_xmit_discards = cpu_to_be16(get(c, CNT_XMIT_DISCARDS, U16_MAX));
	p->port_xmit_constraint_errors = get(c, CNT_XMIT_CONSTRAINT, U8_MAX);
	p->port_rcv_constraint_errors = get(c, CNT_RCV_CONSTRAINT, U8_MAX);
	p->port_xmit_data = cpu_to_be32(get(c, CNT_XMIT_DATA, U32_MAX));
	p->port_rcv_data = cpu_to_be32(get(c, CNT_RCV_DATA, U32_MAX));
	p->port_xmit_packets = cpu_to_be32(get(c, CNT_XMIT_PKTS, U32_MAX));
	p->port_rcv_packets = cpu_to_be32(get(c, CNT_RCV_PKTS, U32_MAX));
}

static void port_counters_ext(struct ib_pma_mad *pma, struct sib_counters *c, bool set)
{
	struct ib_pma_portcounters_ext *p = (void *)pma->data;
	u16 select = be16_to_cpu(p->counter_select);
	__be64 *field = &p->port_xmit_data;
	int i;

	for (i = CNT_XMIT_DATA; i <= CNT_RCV_MCAST; i++) {
		if (set && (select & BIT(i)))
			atomic64_set(&c->n[i], be64_to_cpu(field[i]));
		field[i] = cpu_to_be64(atomic64_read(&c->n[i]));
	}
}

/* Turns a Get or Set into its response. Valid ports are ports[first] .. ports[last]. */
void pma_answer(struct ib_mad *mad, struct sib_counters *ports, int first, int last)
{
	struct ib_pma_mad *pma = (struct ib_pma_mad *)mad;
	bool set = mad->mad_hdr.method == IB_MGMT_METHOD_SET;
	u8 port = pma->data[1];
	bool here = port >= first && port <= last;

	mad->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	switch (mad->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		class_port_info(pma);
		break;
	case IB_PMA_PORT_COUNTERS:
		if (here)
			port_counters(pma, &ports[port], set);
		else
			pma_bad(mad, SMP_BAD_VALUE);
		break;
	case IB_PMA_PORT_COUNTERS_EXT:
		if (here)
			port_counters_ext(pma, &ports[port], set);
		else
			pma_bad(mad, SMP_BAD_VALUE);
		break;
	default:
		pma_bad(mad, SMP_BAD_ATTR);
	}
}
