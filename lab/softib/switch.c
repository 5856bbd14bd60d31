// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Forwarding by the tables that a subnet manager wrote, and the partition check at
 * every port where the manager enabled it.
 *
 * HCAs check partitions too (ud.c, rc_rsp.c). That check protects the HCA; this one
 * also holds against an HCA whose own table was tampered with.
 */
#include <linux/vmalloc.h>
#include "switch.h"

struct sib_switch *sw;

/*
 * A subnet manager writes the keys of the HCA into the switch port it is attached to.
 * Inbound packets must carry a key of the HCA, a full one only if it is a full member;
 * outbound packets must match as at the HCA itself. SMPs have no partitions.
 */
static bool sw_key_in(u16 entry, u16 key)
{
	return (entry & 0x7fff) && !((entry ^ key) & 0x7fff) && (entry & 0x8000 || !(key & 0x8000));
}

static bool sw_admits(int port, const struct sib_pkt *p, u8 bit)
{
	bool in = bit == PI_ENFORCE_IN;
	int i;

	if (!p->dqpn || !(sw->pi[port].operationalvl_pei_peo_fpi_fpo & bit))
		return true;
	for (i = 0; i < SIB_NPKEYS; i++) {
		u16 entry = sw->pkeys[port][i];

		if (in ? sw_key_in(entry, p->pkey) : sib_pkey_ok(entry, p->pkey))
			return true;
	}
	sib_count(&sw->cnt[port], in ? CNT_RCV_CONSTRAINT : CNT_XMIT_CONSTRAINT);
	dbg("switch port %d: P_Key %04x dropped %s\n", port, p->pkey, in ? "in" : "out");
	return false;
}

/* Only management packets pass a port that is not active. */
static bool sw_passes(int port, const struct sib_pkt *p)
{
	return !p->dqpn || pi_state(&sw->pi[port]) >= IB_PORT_ARMED;
}

static void sw_out(int port, struct sib_pkt *p)
{
	struct sib_dev *d;

	if (port < 1 || port > SIB_SWPORTS)
		return;
	if (!sw_passes(port, p)) {
		sib_count(&sw->cnt[port], CNT_XMIT_DISCARDS);
		return;
	}
	if (!sw_admits(port, p, PI_ENFORCE_OUT))
		return;
	if (port > SIB_HCAPORTS) {
		sib_count_xmit(&sw->cnt[port], p);
		isl_send(port - SIB_HCAPORTS - 1, p);
		return;
	}
	d = READ_ONCE(sib_port[port]);
	if (!d || !d->attached || !d->ready) {
		sib_count(&sw->cnt[port], CNT_XMIT_DISCARDS);
		return;
	}
	sib_count_xmit(&sw->cnt[port], p);
	sib_count_rcv(&d->cnt, p);
	sib_rx(d, p);
}

/*
 * Directed route: on the way out each switch records the ingress port and increments
 * hop_ptr; the last hop responds; the recorded ports are the way back.
 */
static void sw_directed(int in, struct sib_pkt *p, struct ib_smp *s)
{
	u8 h = s->hop_ptr, c = s->hop_cnt;
	int out = -1;

	if (c >= IB_SMP_MAX_PATH_HOPS)
		return;
	if (ib_get_smp_direction(s)) {
		if (h >= 2 && h <= c) {
			s->hop_ptr = h - 1;
			out = s->return_path[h - 1];
		}
	} else if (h && h < c) {
		s->return_path[h] = in;
		s->hop_ptr = h + 1;
		out = s->initial_path[h + 1];
	} else if (h == c) {
		s->return_path[h] = in;
		sw_sma(s, in);
		s->status |= IB_SMP_DIRECTION;
		out = in;
	}
	dbg("SMP attr %x method %x hop %d/%d in %d out %d\n", be16_to_cpu(s->attr_id),
	    s->method, h, c, in, out);
	sw_out(out, p);
}

/* 0 (and anything beyond the ports): no route */
static int sw_route(u16 lid)
{
	return lid < LFT_LEN ? sw->lft[lid] : 0;
}

static void sw_answer(int in, struct sib_pkt *p)
{
	swap(p->slid, p->dlid);
	swap(p->sqpn, p->dqpn);
	sw_out(in, p);
}

static void sw_smp(int in, struct sib_pkt *p)
{
	struct ib_smp *s = (struct ib_smp *)p->data;

	if (p->len < sizeof(*s))
		return;
	if (s->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE) {
		sw_directed(in, p, s);
	} else if (p->dlid != sw_lid()) {
		sw_out(sw_route(p->dlid), p);
	} else if (s->method == IB_MGMT_METHOD_TRAP_REPRESS) {
		trap_repress(s);
	} else if (s->method == IB_MGMT_METHOD_GET || s->method == IB_MGMT_METHOD_SET) {
		sw_sma(s, in);
		sw_answer(in, p);
	}
}

/* A non-SMP packet for the switch itself: only the performance agent accepts those. */
static void sw_gmp(int in, struct sib_pkt *p)
{
	struct ib_mad *m = (struct ib_mad *)p->data;

	if (p->dqpn != 1 || p->len < sizeof(*m) ||
	    m->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    (m->mad_hdr.method != IB_MGMT_METHOD_GET && m->mad_hdr.method != IB_MGMT_METHOD_SET))
		return;
	pma_answer(m, sw->cnt, 0, SIB_SWPORTS);
	sw_answer(in, p);
}

static void sw_multicast(int in, struct sib_pkt *p)
{
	u16 group = p->dlid - 0xc000;
	u64 m = group < MFT_LEN ? sw->mft[group] : 0;
	int i;

	for (i = 1; i <= SIB_SWPORTS; i++)
		if ((m & BIT_ULL(i)) && i != in)
			sw_out(i, p);
}

/* A packet arrives at a switch port. port_srcu held for reading. */
static void sw_rx(int in, struct sib_pkt *p)
{
	int out;

	if (!sw_passes(in, p))
		return;
	sib_count_rcv(&sw->cnt[in], p);
	if (!sw_admits(in, p, PI_ENFORCE_IN))
		return;
	if (!p->dqpn) {
		sw_smp(in, p);
	} else if (sib_is_mlid(p->dlid)) {
		sw_multicast(in, p);
	} else if (p->dlid == sw_lid()) {
		sw_gmp(in, p);
	} else {
		out = sw_route(p->dlid);
		if (out < 1 || out > SIB_SWPORTS || out == in)
			sib_count(&sw->cnt[in], CNT_RELAY_ERRORS);
		else
			sw_out(out, p);
	}
}

/* Sends a packet of the switch itself. */
void sw_originate(struct sib_pkt *p)
{
	int idx = srcu_read_lock(&port_srcu);

	sw_out(sw_route(p->dlid), p);
	srcu_read_unlock(&port_srcu, idx);
}

/* A packet arrives from another switch. */
void fabric_rx(int in, struct sib_pkt *p)
{
	int idx = srcu_read_lock(&port_srcu);

	sw_rx(in, p);
	srcu_read_unlock(&port_srcu, idx);
}

/* An HCA of this kernel sends. May call back into the receiver, so hold no QP lock. */
void fabric_xmit(struct sib_dev *d, struct sib_pkt *p)
{
	int idx = srcu_read_lock(&port_srcu);

	if (sib_lid(d) && p->dlid == sib_lid(d)) {
		sib_rx(d, p);			/* loopback inside the HCA, not counted */
	} else if (d->attached && (!p->dqpn || pi_state(&d->pi) == IB_PORT_ACTIVE)) {
		if (p->dqpn && sib_is_mlid(p->dlid))
			sib_rx(d, p);		/* the other members on this HCA */
		sib_count_xmit(&d->cnt, p);
		sw_rx(d->swport, p);
	} else {
		sib_count(&d->cnt, CNT_XMIT_DISCARDS);
	}
	srcu_read_unlock(&port_srcu, idx);
}

/* --------------------------------------------------------- init and exit */

int fabric_init(void)
{
	int i;

	BUILD_BUG_ON(SIB_SWPORTS > 63);		/* a bit per port in mft */
	sw = vzalloc(sizeof(*sw));
	if (!sw)
		return -ENOMEM;
	sw->guid = 0x0c42a103ffff0000ULL + sib_nodeid;
	memset(sw->lft, 0xff, sizeof(sw->lft));
	for (i = 0; i <= SIB_SWPORTS; i++) {
		pi_init(&sw->pi[i], i);
		sw->pkeys[i][0] = 0xffff;
		sw->reported[i] = IB_PORT_DOWN;
	}
	/* port 0 is the switch itself: always up */
	pi_link(&sw->pi[0], true);
	sw->pi[0].linkspeed_portstate = 7 << 4 | IB_PORT_ACTIVE;
	return 0;
}

void fabric_exit(void)
{
	trap_stop();
	vfree(sw);
}
