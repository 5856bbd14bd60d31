// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Driver operations that rdmavt requires per QP. A workqueue does all sending:
 * post_send may be called in atomic context, and the SMA takes a mutex.
 */
#include "softib.h"

struct workqueue_struct *sib_wq;

#define CONN	(BIT(IB_QPT_UC) | BIT(IB_QPT_RC))
#define ANY	(BIT(IB_QPT_UD) | BIT(IB_QPT_SMI) | BIT(IB_QPT_GSI) | CONN)
#define OP(type, qpts, fl) { .length = sizeof(struct type), .qpt_support = (qpts), .flags = (fl) }
const struct rvt_operation_params sib_post_parms[RVT_OPERATION_MAX] = {
	[IB_WR_SEND]		= OP(ib_send_wr, ANY, 0),
	[IB_WR_SEND_WITH_IMM]	= OP(ib_send_wr, ANY, 0),
	[IB_WR_SEND_WITH_INV]	= OP(ib_send_wr, BIT(IB_QPT_RC), 0),
	[IB_WR_RDMA_WRITE]	= OP(ib_rdma_wr, CONN, 0),
	[IB_WR_RDMA_WRITE_WITH_IMM] = OP(ib_rdma_wr, CONN, 0),
	[IB_WR_RDMA_READ]	= OP(ib_rdma_wr, BIT(IB_QPT_RC), RVT_OPERATION_ATOMIC),
	[IB_WR_ATOMIC_CMP_AND_SWP] = OP(ib_atomic_wr, BIT(IB_QPT_RC),
					RVT_OPERATION_ATOMIC | RVT_OPERATION_ATOMIC_SGE),
	[IB_WR_ATOMIC_FETCH_AND_ADD] = OP(ib_atomic_wr, BIT(IB_QPT_RC),
					  RVT_OPERATION_ATOMIC | RVT_OPERATION_ATOMIC_SGE),
	[IB_WR_REG_MR]		= OP(ib_reg_wr, CONN, RVT_OPERATION_LOCAL),
	[IB_WR_LOCAL_INV]	= OP(ib_send_wr, CONN, RVT_OPERATION_LOCAL),
};

const enum ib_wc_opcode sib_wc_opcode[] = {
	[IB_WR_SEND]			= IB_WC_SEND,
	[IB_WR_SEND_WITH_IMM]		= IB_WC_SEND,
	[IB_WR_SEND_WITH_INV]		= IB_WC_SEND,
	[IB_WR_RDMA_WRITE]		= IB_WC_RDMA_WRITE,
	[IB_WR_RDMA_WRITE_WITH_IMM]	= IB_WC_RDMA_WRITE,
	[IB_WR_RDMA_READ]		= IB_WC_RDMA_READ,
	[IB_WR_ATOMIC_CMP_AND_SWP]	= IB_WC_COMP_SWAP,
	[IB_WR_ATOMIC_FETCH_AND_ADD]	= IB_WC_FETCH_ADD,
	[IB_WR_LOCAL_INV]		= IB_WC_LOCAL_INV,
	[IB_WR_REG_MR]			= IB_WC_REG_MR,
};

static void qp_work(struct work_struct *w)
{
	struct sib_qp *v = container_of(to_delayed_work(w), struct sib_qp, work);
	struct sib_dev *d = to_sib(v->qp->ibqp.device);

	if (v->qp->ibqp.qp_type == IB_QPT_RC || v->qp->ibqp.qp_type == IB_QPT_UC)
		rc_send(d, v);
	else
		ud_send(d, v);
}

/* Process the send queue now, regardless of the retry timer. Any context. */
void sib_kick(struct rvt_qp *qp)
{
	struct sib_qp *v = qp->priv;

	mod_delayed_work(sib_wq, &v->work, 0);
}

static bool qp_schedule(struct rvt_qp *qp)
{
	sib_kick(qp);
	return true;
}

static void *qp_alloc(struct rvt_dev_info *rdi, struct rvt_qp *qp)
{
	struct sib_qp *v = kzalloc(sizeof(*v), GFP_KERNEL);

	if (!v)
		return ERR_PTR(-ENOMEM);
	v->qp = qp;
	INIT_DELAYED_WORK(&v->work, qp_work);
	return v;
}

static void qp_free(struct rvt_dev_info *rdi, struct rvt_qp *qp)
{
	struct sib_dev *d = rdi_to_sib(rdi);
	struct sib_qp *v = qp->priv;

	if (qp->ibqp.qp_num > 1) {
		spin_lock(&d->qpn_lock);
		idr_remove(&d->qpns, qp->ibqp.qp_num);
		spin_unlock(&d->qpn_lock);
	}
	kfree(v->req);
	kfree(v);
}

/*
 * rdmavt's own allocator never gives QP0 and QP1 back, so a device whose clients
 * are removed and added again (a move to another netns) would lose its MAD QPs.
 */
static int qp_number(struct rvt_dev_info *rdi, struct rvt_qpn_table *qpt,
		     enum ib_qp_type type, u32 port)
{
	struct sib_dev *d = rdi_to_sib(rdi);
	int r;

	if (type == IB_QPT_SMI || type == IB_QPT_GSI)
		return type == IB_QPT_GSI;
	idr_preload(GFP_KERNEL);
	spin_lock(&d->qpn_lock);
	r = idr_alloc_cyclic(&d->qpns, d, 16, 0xffff, GFP_NOWAIT);
	spin_unlock(&d->qpn_lock);
	idr_preload_end();
	return r;
}

/* The state is RESET by now, and rc_response() kicks no QP in that state: it stays stopped. */
static void qp_stop(struct rvt_qp *qp)
{
	struct sib_qp *v = qp->priv;

	cancel_delayed_work_sync(&v->work);
}

static void qp_reset(struct rvt_qp *qp)
{
	rc_reset(qp->priv);
}

static int qp_setup_wqe(struct rvt_qp *qp, struct rvt_swqe *wqe, bool *call)
{
	return qp->allowed_ops == IB_OPCODE_UD && wqe->length > SIB_MTU ? -EINVAL : 0;
}

static void new_ah(struct ib_device *ib, struct rdma_ah_attr *a, struct rvt_ah *ah)
{
	ah->vl = 0;
	ah->log_pmtu = ilog2(SIB_MTU);	/* 0 would break the length checks of UD */
}

static int qp_pmtu(struct rvt_dev_info *rdi, struct rvt_qp *qp, struct ib_qp_attr *a)
{
	return a->path_mtu;
}

static u32 qp_mtu(struct rvt_dev_info *rdi, struct rvt_qp *qp, u32 pmtu)
{
	return ib_mtu_enum_to_int(pmtu);
}

static int mtu_to_path(u32 mtu)
{
	return ib_mtu_int_to_enum(mtu);
}

static void qp_nop(struct rvt_qp *qp)
{
}

static void qp_restart_rc(struct rvt_qp *qp, u32 psn, int wait)
{
}

void sib_qp_driver(struct rvt_driver_provided *f)
{
	f->qp_priv_alloc = qp_alloc;
	f->qp_priv_free = qp_free;
	f->alloc_qpn = qp_number;
	f->do_send = sib_kick;
	f->schedule_send = qp_schedule;
	f->schedule_send_no_lock = qp_schedule;
	f->stop_send_queue = qp_stop;
	f->notify_qp_reset = qp_reset;
	f->setup_wqe = qp_setup_wqe;
	f->notify_new_ah = new_ah;
	f->get_pmtu_from_attr = qp_pmtu;
	f->mtu_from_qp = qp_mtu;
	f->mtu_to_path_mtu = mtu_to_path;
	/* rdmavt requires these; they have nothing to do */
	f->quiesce_qp = qp_nop;
	f->flush_qp_waiters = qp_nop;
	f->notify_error_qp = qp_nop;
	f->notify_restart_rc = qp_restart_rc;
}
