// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Port counters. Packets count with the size they would have on a real link,
 * including headers and checksum, as the specification requires.
 */
#include "softib.h"

#define LRH	8
#define GRH	40
#define BTH	12
#define DETH	8
#define IMM	4
#define ICRC	4

u32 sib_wire_bytes(const struct sib_pkt *p)
{
	u32 n = LRH + BTH + ICRC + (p->has_grh ? GRH : 0) + (p->has_imm ? IMM : 0);

	n += p->kind == SIB_UD ? DETH + p->len : rc_wire_bytes(p);
	return ALIGN(n, 4);
}

static void count(struct sib_counters *c, const struct sib_pkt *p, enum sib_count data,
		  enum sib_count pkts, enum sib_count ucast, enum sib_count mcast)
{
	bool multi = p->dqpn && sib_is_mlid(p->dlid);

	atomic64_add(sib_wire_bytes(p) / 4, &c->n[data]);
	sib_count(c, pkts);
	sib_count(c, multi ? mcast : ucast);
}

void sib_count_xmit(struct sib_counters *c, const struct sib_pkt *p)
{
	count(c, p, CNT_XMIT_DATA, CNT_XMIT_PKTS, CNT_XMIT_UCAST, CNT_XMIT_MCAST);
}

void sib_count_rcv(struct sib_counters *c, const struct sib_pkt *p)
{
	count(c, p, CNT_RCV_DATA, CNT_RCV_PKTS, CNT_RCV_UCAST, CNT_RCV_MCAST);
}
