/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Internal declarations of the switch of this kernel. */
#ifndef SOFTIB_SWITCH_H
#define SOFTIB_SWITCH_H

#include <linux/srcu.h>
#include "softib.h"

#define MFT_LEN		1024
#define LFT_LEN		0xc000

/* PortInfo: whether a switch port checks partitions, inbound and outbound */
#define PI_ENFORCE_IN	0x08
#define PI_ENFORCE_OUT	0x04

struct sib_switch {
	u64 guid;
	struct ib_port_info pi[SIB_SWPORTS + 1];
	struct sib_counters cnt[SIB_SWPORTS + 1];
	u16 pkeys[SIB_SWPORTS + 1][SIB_NPKEYS];
	u8 vlarb[SIB_SWPORTS + 1][5][64];
	u8 lft[LFT_LEN];		/* LID -> port */
	u64 mft[MFT_LEN];		/* multicast LID -> bit per port */
	u16 lft_top;
	u8 life;
	bool psc;			/* PortStateChange: triggers a sweep, also without a trap */
	u8 reported[SIB_SWPORTS + 1];	/* port states last reported to the subnet manager */
};
extern struct sib_switch *sw;

/* cable.c */
extern struct srcu_struct port_srcu;	/* readers of sib_port: packets in flight */
void sw_relink(int port);

/* switch.c */
void sw_originate(struct sib_pkt *p);
static inline u16 sw_lid(void)
{
	return be16_to_cpu(sw->pi[0].lid);
}

/* switch_sma.c */
void sw_sma(struct ib_smp *s, int inport);

/* trap.c */
void trap_raise(void);
void trap_repress(const struct ib_smp *s);
void trap_stop(void);

#endif
