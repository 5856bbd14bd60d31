// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Trap 128, "link state of a port of this switch changed": sent to the subnet manager
 * at once and repeated until it is acknowledged (TrapRepress), so that a new port
 * does not wait for the next sweep.
 */
#include "switch.h"

#define TRAP_LINK_STATE	128
#define TRAP_INTERVAL	(HZ / 2)
#define TRAP_TRIES	20

/* Notice, limited to what a generic notice of a switch needs */
struct notice {
	u8 generic_type;		/* bit 7: generic; 1: urgent */
	u8 producer[3];			/* 2: a switch */
	__be16 number;
	__be16 issuer_lid;
	__be16 toggle_count;
	__be16 lid;			/* details of trap 128: the switch's LID */
	u8 rest[52];
} __packed;

static void trap_work(struct work_struct *w);
static DECLARE_DELAYED_WORK(work, trap_work);
static u32 tid;				/* transaction ID of the latest change; sib_lock */
static int tries;			/* remaining for it; sib_lock */

static struct sib_pkt *trap_packet(void)
{
	struct sib_pkt *p = sib_pkt_alloc(sizeof(struct ib_smp));
	struct ib_smp *s;
	struct notice *n;

	BUILD_BUG_ON(sizeof(*n) != IB_SMP_DATA_SIZE);
	if (!p)
		return NULL;
	p->kind = SIB_UD;
	p->slid = sw_lid();
	p->dlid = be16_to_cpu(sw->pi[0].sm_lid);
	s = (struct ib_smp *)p->data;
	s->base_version = IB_MGMT_BASE_VERSION;
	s->mgmt_class = IB_MGMT_CLASS_SUBN_LID_ROUTED;
	s->class_version = 1;
	s->method = IB_MGMT_METHOD_TRAP;
	s->attr_id = IB_SMP_ATTR_NOTICE;
	s->tid = cpu_to_be64(tid);
	n = (struct notice *)s->data;
	n->generic_type = 0x80 | 1;
	n->producer[2] = 2;
	n->number = cpu_to_be16(TRAP_LINK_STATE);
	n->issuer_lid = n->lid = sw->pi[0].lid;
	return p;
}

static void trap_work(struct work_struct *w)
{
	struct sib_pkt *p = NULL;

	mutex_lock(&sib_lock);
	if (tries > 0) {
		tries--;
		queue_delayed_work(sib_wq, &work, TRAP_INTERVAL);
		if (sw_lid() && sw->pi[0].sm_lid)	/* else no subnet manager yet: it will sweep */
			p = trap_packet();
	}
	mutex_unlock(&sib_lock);
	if (p)
		sw_originate(p);
	kfree(p);
}

/* A port state changed. sib_lock held. */
void trap_raise(void)
{
	tid++;
	tries = TRAP_TRIES;
	mod_delayed_work(sib_wq, &work, 0);
}

/* The subnet manager acknowledged this trap; a later change is still repeated. */
void trap_repress(const struct ib_smp *s)
{
	mutex_lock(&sib_lock);
	if ((u32)be64_to_cpu(s->tid) == tid)
		tries = 0;
	mutex_unlock(&sib_lock);
}

void trap_stop(void)
{
	mutex_lock(&sib_lock);
	tries = 0;
	mutex_unlock(&sib_lock);
	cancel_delayed_work_sync(&work);
}
