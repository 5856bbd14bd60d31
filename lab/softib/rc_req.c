// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The requesting side of a connection: the send queue of an RC or UC QP. See rc.h. */
#include "rc.h"

#define RC_MIN_WAIT	(HZ / 4)	/* an emulated machine does not respond in microseconds */

void rc_reset(struct sib_qp *v)
{
	v->state = RC_IDLE;
	v->tries = v->rnr_tries = 0;
	v->last_status = 0;
	v->rwqe_held = false;
}

static unsigned long rc_wait(struct rvt_qp *qp)
{
	return max_t(unsigned long, qp->timeout_jiffies, RC_MIN_WAIT);
}

/* Builds the packet for the next bytes of the work request in v->req. */
static void rc_build(struct sib_dev *d, struct sib_qp *v, struct rvt_swqe *wqe)
{
	struct rvt_qp *qp = v->qp;
	struct sib_pkt *p = v->req;
	struct rc_hdr *m = (void *)p->data;
	u32 op = wqe->wr.opcode;

	memset(p, 0, sizeof(*p) + sizeof(*m));
	p->magic = SIB_MAGIC;
	p->kind = qp->ibqp.qp_type == IB_QPT_UC ? SIB_UC : SIB_RC_REQ;
	p->slid = sib_lid(d);
	p->dlid = rdma_ah_get_dlid(&qp->remote_ah_attr);
	p->sl = rdma_ah_get_sl(&qp->remote_ah_attr);
	p->pkey = d->pkeys[qp->s_pkey_index % SIB_NPKEYS];
	p->sqpn = qp->ibqp.qp_num;
	p->dqpn = qp->remote_qpn;
	p->solicited = !!(wqe->wr.send_flags & IB_SEND_SOLICITED);

	v->n = min_t(u32, wqe->length - v->off, qp->pmtu);
	v->psn = (wqe->psn + v->off / qp->pmtu) & 0xffffff;
	v->op = m->op = op;
	m->psn = v->psn;
	m->len = v->n;
	m->total = wqe->length;
	m->first = v->off == 0;
	m->last = v->off + v->n == wqe->length;
	if (is_atomic(op)) {
		m->raddr = wqe->atomic_wr.remote_addr;
		m->rkey = wqe->atomic_wr.rkey;
		m->a = wqe->atomic_wr.compare_add;
		m->b = wqe->atomic_wr.swap;
	} else if (op == IB_WR_SEND_WITH_INV) {
		m->rkey = wqe->wr.ex.invalidate_rkey;
	} else if (!is_send(op)) {
		m->raddr = wqe->rdma_wr.remote_addr + v->off;
		m->rkey = wqe->rdma_wr.rkey;
	}
	if (op == IB_WR_SEND_WITH_IMM || op == IB_WR_RDMA_WRITE_WITH_IMM) {
		p->has_imm = 1;
		p->imm = wqe->wr.ex.imm_data;
	}
	p->len = sizeof(*m);
	if (carries_data(op)) {
		sib_gather(&v->ss, m->data, v->n);
		p->len += v->n;
	}
}

/* The headers a real packet would have after the BTH, and its data. */
u32 rc_wire_bytes(const struct sib_pkt *p)
{
	const struct rc_hdr *m = (const void *)p->data;
	const u32 reth = 16, aeth = 4, atomic_eth = 28, atomic_aeth = 8;
	u32 data = p->len - sizeof(*m);

	if (p->kind == SIB_RC_RSP)
		return aeth + data + (is_atomic(m->op) ? atomic_aeth : 0);
	if (is_atomic(m->op))
		return atomic_eth;
	return data + (is_send(m->op) || !m->first ? 0 : reth);
}

/* Sends or resends v->req. */
static void rc_transmit(struct sib_dev *d, struct sib_qp *v)
{
	struct rvt_qp *qp = v->qp;
	unsigned long flags;

	spin_lock_irqsave(&qp->s_lock, flags);
	v->state = RC_SENT;
	v->deadline = jiffies + rc_wait(qp);
	v->sending = true;
	spin_unlock_irqrestore(&qp->s_lock, flags);
	fabric_xmit(d, v->req);
	spin_lock_irqsave(&qp->s_lock, flags);
	v->sending = false;
	if (qp->ibqp.qp_type == IB_QPT_UC) {	/* complete once sent */
		v->answer = IB_WC_SUCCESS;
		v->state = RC_ANSWERED;
	}
	spin_unlock_irqrestore(&qp->s_lock, flags);
}

/* Work requests that never leave the HCA. s_lock held. */
static enum ib_wc_status rc_local(struct rvt_qp *qp, struct rvt_swqe *wqe, bool flush)
{
	enum ib_wc_status st = flush ? IB_WC_WR_FLUSH_ERR : IB_WC_SUCCESS;

	/* rdmavt did it when it was posted, unless it had to wait for earlier requests */
	if (wqe->wr.opcode != IB_WR_LOCAL_INV || (wqe->wr.send_flags & RVT_SEND_COMPLETION_ONLY))
		return st;
	if (!flush && rvt_invalidate_rkey(qp, wqe->wr.ex.invalidate_rkey))
		st = IB_WC_LOC_PROT_ERR;
	atomic_dec(&qp->local_ops_pending);
	return st;
}

static bool is_local(struct rvt_swqe *wqe)
{
	return wqe->wr.opcode == IB_WR_REG_MR || wqe->wr.opcode == IB_WR_LOCAL_INV;
}

/* Completes the work request; a failure moves the QP to the error state. s_lock held, dropped on failure. */
static bool rc_finish(struct rvt_qp *qp, struct rvt_swqe *wqe, enum ib_wc_status st,
		      unsigned long flags)
{
	struct sib_dev *d = to_sib(qp->ibqp.device);
	struct sib_qp *v = qp->priv;

	v->state = RC_IDLE;
	v->tries = v->rnr_tries = 0;
	if (st == IB_WC_REM_ACCESS_ERR)
		sib_hw(d, HW_REQ_ACCESS);
	else if (st == IB_WC_REM_INV_REQ_ERR)
		sib_hw(d, HW_REQ_INVALID);
	if (st != IB_WC_SUCCESS)
		sib_hw(d, HW_REQ_ERROR);
	rvt_send_complete(qp, wqe, st);
	spin_unlock_irqrestore(&qp->s_lock, flags);
	if (st != IB_WC_SUCCESS && st != IB_WC_WR_FLUSH_ERR) {
		/* r_lock comes before s_lock, so it could not be taken above */
		spin_lock_irqsave(&qp->r_lock, flags);
		rvt_rc_error(qp, IB_WC_WR_FLUSH_ERR);
		spin_unlock_irqrestore(&qp->r_lock, flags);
	}
	return true;
}

/* One step of the send queue; false: nothing to do until the worker is woken. */
static bool rc_step(struct sib_dev *d, struct sib_qp *v)
{
	struct rvt_qp *qp = v->qp;
	struct rvt_swqe *wqe;
	unsigned long flags;
	int ops;

	spin_lock_irqsave(&qp->s_lock, flags);
	ops = ib_rvt_state_ops[qp->state];
	if (!(ops & RVT_PROCESS_OR_FLUSH_SEND) || qp->s_last == smp_load_acquire(&qp->s_head))
		goto stop;
	wqe = rvt_get_swqe_ptr(qp, qp->s_last);
	if (ops & RVT_FLUSH_SEND)
		return rc_finish(qp, wqe, is_local(wqe) ? rc_local(qp, wqe, true) :
				 IB_WC_WR_FLUSH_ERR, flags);
	switch (v->state) {
	case RC_IDLE:
		if (!(ops & RVT_PROCESS_NEXT_SEND_OK))
			goto stop;		/* SQD: started requests are finished, no new ones */
		if (is_local(wqe))
			return rc_finish(qp, wqe, rc_local(qp, wqe, false), flags);
		v->off = 0;
		sib_sge_start(&v->ss, wqe);
		break;
	case RC_ANSWERED:
		v->off += v->n;
		if (v->answer != IB_WC_SUCCESS || v->off >= wqe->length)
			return rc_finish(qp, wqe, v->answer, flags);
		v->tries = v->rnr_tries = 0;
		break;
	case RC_SENT:
	case RC_RNR_WAIT:
		if (time_before(jiffies, v->deadline)) {
			/* a no-op if the work was queued meanwhile: it then runs again anyway */
			queue_delayed_work(sib_wq, &v->work, v->deadline - jiffies);
			goto stop;
		}
		if (v->state == RC_SENT)
			sib_hw(d, HW_ACK_TIMEOUT);
		/* a timeout of 0 means infinite */
		if (v->state == RC_SENT && qp->timeout && v->tries++ >= qp->s_retry_cnt)
			return rc_finish(qp, wqe, IB_WC_RETRY_EXC_ERR, flags);
		spin_unlock_irqrestore(&qp->s_lock, flags);
		rc_transmit(d, v);
		return true;
	}
	spin_unlock_irqrestore(&qp->s_lock, flags);
	rc_build(d, v, wqe);
	rc_transmit(d, v);
	return true;
stop:
	spin_unlock_irqrestore(&qp->s_lock, flags);
	return false;
}

void rc_send(struct sib_dev *d, struct sib_qp *v)
{
	if (!v->req)
		v->req = sib_pkt_alloc(SIB_MAXDATA);
	if (!v->req) {
		queue_delayed_work(sib_wq, &v->work, HZ / 10);
		return;
	}
	while (rc_step(d, v))
		cond_resched();
}

/* The response to the packet in flight. rcu_read_lock held. */
void rc_response(struct rvt_qp *qp, struct sib_pkt *p, struct rc_hdr *m)
{
	struct sib_qp *v = qp->priv;
	unsigned long flags;
	u32 have = p->len - sizeof(*m);

	spin_lock_irqsave(&qp->s_lock, flags);
	if (v->state != RC_SENT || m->psn != v->psn ||
	    !(ib_rvt_state_ops[qp->state] & RVT_PROCESS_SEND_OK))
		goto out;			/* late or duplicate */
	v->answer = m->status;
	v->state = RC_ANSWERED;
	if (m->status == RC_RNR) {
		sib_hw(to_sib(qp->ibqp.device), HW_RNR_RETRY);
		v->answer = IB_WC_RNR_RETRY_EXC_ERR;
		if (qp->s_rnr_retry_cnt == 7 || v->rnr_tries++ < qp->s_rnr_retry_cnt) {
			v->state = RC_RNR_WAIT;
			v->tries = 0;
			v->deadline = jiffies + 1 + usecs_to_jiffies(rvt_rnr_tbl_to_usec(m->rnr));
		}
	} else if (m->status == IB_WC_SUCCESS && v->op == IB_WR_RDMA_READ) {
		if (have == v->n)
			rvt_copy_sge(qp, &v->ss, m->data, v->n, false, false);
		else
			v->answer = IB_WC_BAD_RESP_ERR;
	} else if (m->status == IB_WC_SUCCESS && is_atomic(v->op)) {
		rvt_copy_sge(qp, &v->ss, &m->a, sizeof(m->a), false, false);
	}
	if (!v->sending)
		sib_kick(qp);
out:
	spin_unlock_irqrestore(&qp->s_lock, flags);
}
