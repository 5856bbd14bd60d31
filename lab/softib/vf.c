// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ip link set <PF interface> vf N ...: GUIDs, link state, statistics. */
#include "softib.h"

static int fail_guid;
module_param(fail_guid, int, 0644);
MODULE_PARM_DESC(fail_guid, "number of next GUID changes that fail with EIO");

static bool vf_valid(struct sib_dev *d, int vf)
{
	return d->pdev && !d->pdev->is_virtfn && vf >= 0 && vf < SIB_MAXVF &&
	       vf < pci_num_vf(d->pdev);
}

/*
 * Without a port GUID the link stays down: the VF is not configured. With virt=1 every
 * VF stays down, as under a subnet manager without virtualization support.
 */
bool sib_vf_wants_link(const struct sib_vf *v)
{
	return !sib_virt && sib_guid_set(v->port_guid) &&
	       v->link_state != IFLA_VF_LINK_STATE_DISABLE;
}

/* The HCA on a VF, if its driver is bound. sib_lock held. */
static struct sib_dev *vf_to_sib(struct sib_dev *pf, int vf)
{
	int i;

	for (i = 1; i <= SIB_HCAPORTS; i++) {
		struct pci_dev *p = sib_port[i] ? sib_port[i]->pdev : NULL;

		if (p && p->is_virtfn && pci_physfn(p) == pf->pdev && pci_iov_vf_id(p) == vf)
			return sib_port[i];
	}
	return NULL;
}

/* As with mlx5, the GUID takes effect when the VF is probed the next time. */
static int set_vf_guid(struct ib_device *ib, int vf, u32 port, u64 guid, int type)
{
	struct sib_dev *d = to_sib(ib);

	if (!vf_valid(d, vf))
		return -EINVAL;
	if (fail_guid > 0) {
		fail_guid--;
		return -EIO;
	}
	if (type == IFLA_VF_IB_NODE_GUID)
		d->vf[vf].node_guid = guid;
	else if (type == IFLA_VF_IB_PORT_GUID)
		d->vf[vf].port_guid = guid;
	else
		return -EINVAL;
	return 0;
}

static int get_vf_guid(struct ib_device *ib, int vf, u32 port,
		       struct ifla_vf_guid *node, struct ifla_vf_guid *prt)
{
	struct sib_dev *d = to_sib(ib);

	if (!vf_valid(d, vf))
		return -EINVAL;
	node->guid = d->vf[vf].node_guid;
	prt->guid = d->vf[vf].port_guid;
	return 0;
}

static int get_vf_config(struct ib_device *ib, int vf, u32 port, struct ifla_vf_info *info)
{
	struct sib_dev *d = to_sib(ib);

	if (!vf_valid(d, vf))
		return -EINVAL;
	memset(info, 0, sizeof(*info));
	info->vf = vf;
	info->linkstate = d->vf[vf].link_state;
	return 0;
}

static int set_vf_link_state(struct ib_device *ib, int vf, u32 port, int state)
{
	struct sib_dev *d = to_sib(ib), *v;

	if (!vf_valid(d, vf))
		return -EINVAL;
	mutex_lock(&sib_lock);
	d->vf[vf].link_state = state;
	v = vf_to_sib(d, vf);
	if (v && v->ready)		/* the GUID it was probed with, not a later one */
		fabric_link(v, sib_guid_set(be64_to_cpu(v->guids[0])) &&
			       sib_vf_wants_link(&d->vf[vf]));
	mutex_unlock(&sib_lock);
	return 0;
}

static int get_vf_stats(struct ib_device *ib, int vf, u32 port, struct ifla_vf_stats *st)
{
	struct sib_dev *d = to_sib(ib), *v;

	if (!vf_valid(d, vf))
		return -EINVAL;
	memset(st, 0, sizeof(*st));
	mutex_lock(&sib_lock);
	v = vf_to_sib(d, vf);
	if (v) {
		st->rx_packets = atomic64_read(&v->cnt.n[CNT_RCV_PKTS]);
		st->tx_packets = atomic64_read(&v->cnt.n[CNT_XMIT_PKTS]);
		st->rx_bytes = atomic64_read(&v->cnt.n[CNT_RCV_DATA]) * 4;
		st->tx_bytes = atomic64_read(&v->cnt.n[CNT_XMIT_DATA]) * 4;
		st->multicast = atomic64_read(&v->cnt.n[CNT_RCV_MCAST]);
	}
	mutex_unlock(&sib_lock);
	return 0;
}

const struct ib_device_ops sib_vf_ops = {
	.set_vf_guid = set_vf_guid,
	.get_vf_guid = get_vf_guid,
	.get_vf_config = get_vf_config,
	.get_vf_stats = get_vf_stats,
	.set_vf_link_state = set_vf_link_state,
};
