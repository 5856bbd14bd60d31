// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* One HCA: registration with rdmavt, device and port queries. */
#include "softib.h"

static DEFINE_IDA(units);

void sib_event(struct sib_dev *d, enum ib_event_type t)
{
	struct ib_event ev = { .device = &d->rdi.ibdev, .event = t, .element.port_num = 1 };

	ib_dispatch_event(&ev);
}

/* ------------------------------------------------------------------ queries */

static int query_port_state(struct rvt_dev_info *rdi, u32 port, struct ib_port_attr *a)
{
	struct sib_dev *d = rdi_to_sib(rdi);

	a->lid = sib_lid(d);
	a->lmc = d->pi.mkeyprot_resv_lmc & 7;
	a->state = pi_state(&d->pi);
	a->phys_state = d->pi.portphysstate_linkdown >> 4;
	a->gid_tbl_len = SIB_NGUIDS;
	a->active_width = IB_WIDTH_4X;
	a->active_speed = IB_SPEED_HDR;
	a->max_vl_num = 1;
	a->max_mtu = IB_MTU_4096;
	a->active_mtu = IB_MTU_4096;
	a->bad_pkey_cntr = d->rvp.pkey_violations;
	a->qkey_viol_cntr = d->rvp.qkey_violations;
	return 0;
}

static int get_guid(struct rvt_dev_info *rdi, struct rvt_ibport *rvp, int i, __be64 *g)
{
	if (i >= SIB_NGUIDS)
		return -EINVAL;
	*g = rdi_to_sib(rdi)->guids[i];
	return 0;
}

static int shut_down_port(struct rvt_dev_info *rdi, u32 port)
{
	return 0;
}

/*
 * rdmavt calls this in the middle of unregistering: all users are gone, and it is about
 * to free the table in which packets look up their QP.
 */
static unsigned int free_all_qps(struct rvt_dev_info *rdi)
{
	fabric_unplug(rdi_to_sib(rdi));
	return 0;
}

static void cap_mask_chg(struct rvt_dev_info *rdi, u32 port)
{
}

/* rdmavt logs through this device, so it may not be NULL even without PCI */
static struct pci_dev no_pci = { .dev = { .init_name = "softib" } };

static struct pci_dev *get_pci_dev(struct rvt_dev_info *rdi)
{
	struct pci_dev *p = rdi_to_sib(rdi)->pdev;

	return p ? p : &no_pci;
}

static int modify_device(struct ib_device *ib, int mask, struct ib_device_modify *m)
{
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ib->node_desc, m->node_desc, IB_DEVICE_NODE_DESC_MAX);
	return 0;
}

/* Without this op a device cannot be moved to another netns. umap.c does the rest. */
static void disassociate_ucontext(struct ib_ucontext *uc)
{
}

static const struct ib_device_ops hca_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_HFI1,	/* picks hfi1verbs in user space: rdmavt's own ABI */
	.modify_device = modify_device,
	.process_mad = sib_process_mad,
	.disassociate_ucontext = disassociate_ucontext,
};

/* ------------------------------------------------------------- registration */

static void hca_limits(struct sib_dev *d)
{
	struct rvt_driver_params *p = &d->rdi.dparms;
	struct ib_device_attr *a = &p->props;
	bool vf = d->pdev && d->pdev->is_virtfn;

	p->max_rdma_atomic = 16;
	p->lkey_table_size = 12;
	p->qp_table_size = 256;
	p->qpn_start = 16;
	p->qpn_res_start = 0x10000;
	p->qpn_res_end = 0x10000;
	p->qpn_inc = 1;
	p->psn_mask = 0xffffff;
	p->psn_shift = 8;
	p->psn_modify_mask = 0xffffff;
	p->nports = 1;
	p->npkeys = SIB_NPKEYS;
	p->node = first_online_node;		/* NUMA_NO_NODE oopses in rvt_create_cq */
	p->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	p->max_mad_size = IB_MGMT_MAD_SIZE;
	p->sge_copy_mode = RVT_SGE_COPY_MEMCPY;

	a->device_cap_flags = IB_DEVICE_BAD_PKEY_CNTR | IB_DEVICE_SYS_IMAGE_GUID |
		IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_PORT_ACTIVE_EVENT | IB_DEVICE_SRQ_RESIZE |
		IB_DEVICE_MEM_MGT_EXTENSIONS;
	if (vf)
		a->kernel_cap_flags |= IBK_VIRTUAL_FUNCTION;
	a->page_size_cap = PAGE_SIZE;
	a->vendor_id = 0x2c9;
	a->vendor_part_id = identity_part(vf);
	a->fw_ver = 20ULL << 32 | 31 << 16 | 1014;	/* SIB_FW_VERSION */
	a->sys_image_guid = d->image_guid;
	a->max_mr_size = ~0ULL;
	a->max_pd = 0xffff;
	a->max_ah = 0xffff;
	a->max_qp = 16384;
	a->max_qp_wr = 16384;
	a->max_send_sge = a->max_recv_sge = a->max_sge_rd = 32;
	a->max_cq = 0xffff;
	a->max_cqe = 0x3fffff;
	a->max_mr = 4096;
	a->max_qp_rd_atom = 16;
	a->max_qp_init_rd_atom = 255;
	a->max_srq = 1024;
	a->max_srq_wr = 0x1ffff;
	a->max_srq_sge = 32;
	a->atomic_cap = IB_ATOMIC_GLOB;
	a->max_pkeys = SIB_NPKEYS;
	a->max_mcast_grp = 16384;
	a->max_mcast_qp_attach = 64;
	a->max_total_mcast_qp_attach = 64 * 16384;
	a->max_fast_reg_page_list_len = 256;
}

static void hca_driver(struct rvt_dev_info *rdi)
{
	struct rvt_driver_provided *f = &rdi->driver_f;

	sib_qp_driver(f);
	f->get_pci_dev = get_pci_dev;
	f->query_port_state = query_port_state;
	f->shut_down_port = shut_down_port;
	f->cap_mask_chg = cap_mask_chg;
	f->get_guid_be = get_guid;
	f->free_all_qps = free_all_qps;
	rdi->post_parms = sib_post_parms;
	rdi->wc_opcode = sib_wc_opcode;
}

static int hca_register(struct sib_dev *d)
{
	struct ib_mad_agent *agent;
	int ret = rvt_register_device(&d->rdi);

	if (ret)
		return ret;
	sib_umap_install(&d->rdi.ibdev);
	/*
	 * rdmavt keeps a MAD agent (for traps) as long as the device exists. It would
	 * dangle when the MAD client is removed and added (netns move): drop it now.
	 */
	agent = d->rvp.send_agent;
	d->rvp.send_agent = NULL;
	if (agent)
		ib_unregister_mad_agent(agent);
	return 0;
}

struct sib_dev *sib_create(struct pci_dev *pdev, const struct sib_guids *g, bool up)
{
	struct rvt_dev_info *rdi = rvt_alloc_device(sizeof(struct sib_dev), 1);
	struct ib_device *ib;
	struct sib_dev *d;
	int ret;

	if (!rdi)
		return ERR_PTR(-ENOMEM);
	d = rdi_to_sib(rdi);
	ib = &rdi->ibdev;
	d->pdev = pdev;
	d->guids[0] = cpu_to_be64(g->port);
	d->image_guid = cpu_to_be64(g->image);
	d->pkeys[0] = 0xffff;
	idr_init(&d->qpns);
	spin_lock_init(&d->qpn_lock);
	pi_init(&d->pi, 1);
	spin_lock_init(&d->rvp.lock);
	d->rvp.gid_prefix = d->pi.gid_prefix;
	d->rvp.port_cap_flags = be32_to_cpu(d->pi.cap_mask);
	d->rvp.mcast_tree = RB_ROOT;

	ret = ida_alloc(&units, GFP_KERNEL);	/* the lowest free, as mlx5_%d is numbered */
	if (ret < 0)
		goto free;
	d->unit = ret;
	ib->node_guid = cpu_to_be64(g->node);
	ib->phys_port_cnt = 1;
	ib->dev.parent = pdev ? &pdev->dev : NULL;
	dev_set_name(&ib->dev, sib_devname, d->unit);
	strscpy(ib->name, dev_name(&ib->dev), IB_DEVICE_NAME_MAX);
	snprintf(ib->node_desc, sizeof(ib->node_desc), "node%d %s", sib_nodeid, ib->name);

	hca_driver(rdi);
	hca_limits(d);
	rvt_init_port(rdi, &d->rvp, 0, d->pkeys);
	ib_set_device_ops(ib, &hca_ops);
	ib_set_device_ops(ib, &sib_sysfs_ops);
	ib_set_device_ops(ib, &sib_stats_ops);
	ib_set_device_ops(ib, &sib_vf_ops);

	ret = fabric_plug(d);
	if (ret)
		goto unit;
	ret = hca_register(d);
	if (ret)
		goto unplug;
	mutex_lock(&sib_lock);
	d->ready = true;
	fabric_link(d, up);
	mutex_unlock(&sib_lock);
	pr_info("softib: %s node_guid %016llx port_guid %016llx switch port %d %s\n",
		dev_name(&ib->dev), g->node, g->port, d->swport, up ? "up" : "down");
	return d;
unplug:
	fabric_unplug(d);
unit:
	ida_free(&units, d->unit);
free:
	pr_err("softib: cannot create HCA: %d\n", ret);
	idr_destroy(&d->qpns);
	rvt_dealloc_device(rdi);
	return ERR_PTR(ret);
}

/* The link stays up until all users are gone, so that they can still leave multicast groups. */
void sib_destroy(struct sib_dev *d)
{
	rvt_unregister_device(&d->rdi);
	fabric_unplug(d);
	ida_free(&units, d->unit);
	idr_destroy(&d->qpns);
	rvt_dealloc_device(&d->rdi);
}
