// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The switch ports and their cables: the device at the other end, link up or down. */
#include "switch.h"

DEFINE_MUTEX(sib_lock);
DEFINE_SRCU(port_srcu);
struct sib_dev *sib_port[SIB_SWPORTS + 1];

int fabric_plug(struct sib_dev *d)
{
	int i, ret = -ENOSPC;

	mutex_lock(&sib_lock);
	for (i = 1; i <= SIB_HCAPORTS; i++)
		if (!sib_port[i]) {
			d->swport = i;
			WRITE_ONCE(sib_port[i], d);
			ret = 0;
			break;
		}
	mutex_unlock(&sib_lock);
	return ret;
}

/* After this returns, no packet in flight can reach the device or come from it. */
void fabric_unplug(struct sib_dev *d)
{
	mutex_lock(&sib_lock);
	if (sib_port[d->swport] == d) {
		d->ready = false;
		fabric_link(d, false);
		WRITE_ONCE(sib_port[d->swport], NULL);
	}
	mutex_unlock(&sib_lock);
	synchronize_srcu(&port_srcu);
}

static void port_changed(void)
{
	sw->psc = true;
	trap_raise();
}

/*
 * The link of a switch port is up if both ends allow it: the HCA's administrator and
 * the subnet manager, which may have disabled the switch port. sib_lock held.
 */
void sw_relink(int port)
{
	struct sib_dev *d = sib_port[port];
	bool disabled = pi_phys(&sw->pi[port]) == PHYS_DISABLED;
	bool up = d && d->wanted && !disabled;

	if (!d || up == d->attached)
		return;
	d->attached = up;
	pi_link(&d->pi, up);
	if (!disabled)
		pi_link(&sw->pi[port], up);
	if (!up) {
		sib_count(&d->cnt, CNT_LINK_DOWNED);
		sib_count(&sw->cnt[port], CNT_LINK_DOWNED);
		if (d->ready)
			sib_event(d, IB_EVENT_PORT_ERR);
	}
	port_changed();
}

/* sib_lock held */
void fabric_link(struct sib_dev *d, bool wanted)
{
	d->wanted = wanted;
	sw_relink(d->swport);
}

void fabric_isl_link(int i, bool up)
{
	mutex_lock(&sib_lock);
	pi_link(&sw->pi[SIB_HCAPORTS + 1 + i], up);
	port_changed();
	mutex_unlock(&sib_lock);
}
