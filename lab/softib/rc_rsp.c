// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The responding side of a connection: requests are executed as they arrive. See rc.h. */
#include "rc.h"

static u8 rc_exec_read(struct rvt_qp *qp, struct rc_hdr *m, struct sib_pkt *rp)
{
	struct rc_hdr *r = (void *)rp->data;
	struct rvt_sge_state ss = { .num_sge = 1 };

	if (!(qp->qp_access_flags & IB_ACCESS_REMOTE_READ))
		return IB_WC_REM_INV_REQ_ERR;
	if (!m->len)
		return 0;
	if (!rvt_rkey_ok(qp, &ss.sge, m->len, m->raddr, m->rkey, IB_ACCESS_REMOTE_READ))
		return IB_WC_REM_ACCESS_ERR;
	ss.total_len = m->len;
	rp->len += m->len;
	sib_gather(&ss, r->data, m->len);
	/* the cursor is at the end of the data and kept its reference: ss.sge.mr is still valid */
	rvt_put_mr(ss.sge.mr);
	return 0;
}

static u8 rc_exec_atomic(struct rvt_qp *qp, struct rc_hdr *m, struct rc_hdr *r)
{
	struct rvt_sge sge = { };

	if (!(qp->qp_access_flags & IB_ACCESS_REMOTE_ATOMIC) || (m->raddr & 7))
		return IB_WC_REM_INV_REQ_ERR;
	if (!rvt_rkey_ok(qp, &sge, sizeof(u64), m->raddr, m->rkey, IB_ACCESS_REMOTE_ATOMIC))
		return IB_WC_REM_ACCESS_ERR;
	if (m->op == IB_WR_ATOMIC_FETCH_AND_ADD)
		r->a = atomic64_fetch_add(m->a, (atomic64_t *)sge.vaddr);
	else
		r->a = atomic64_cmpxchg((atomic64_t *)sge.vaddr, m->a, m->b);
	rvt_put_mr(sge.mr);
	return 0;
}

static u8 rc_exec_write(struct rvt_qp *qp, struct rc_hdr *m)
{
	struct rvt_sge_state ss = { .num_sge = 1 };
	u32 check = m->first ? m->total : m->len;	/* write all or nothing */

	if (!(qp->qp_access_flags & IB_ACCESS_REMOTE_WRITE))
		return IB_WC_REM_INV_REQ_ERR;
	if (!m->len)
		return 0;
	if (check < m->len || !rvt_rkey_ok(qp, &ss.sge, check, m->raddr, m->rkey,
					   IB_ACCESS_REMOTE_WRITE))
		return IB_WC_REM_ACCESS_ERR;
	ss.total_len = m->len;
	rvt_copy_sge(qp, &ss, m->data, m->len, false, true);
	rvt_put_mr(ss.sge.mr);
	return 0;
}

/* A send needs a receive request with enough room. */
static bool rc_fits(struct rvt_qp *qp, struct rc_hdr *m)
{
	struct sib_qp *v = qp->priv;

	return v->rwqe_held && m->total <= qp->r_len && m->len <= m->total - qp->r_rcv_len;
}

/* Executes one packet. Returns 0, a status for the requester, or RC_RNR. r_lock held. */
static u8 rc_exec(struct rvt_qp *qp, struct sib_pkt *p, struct rc_hdr *m, struct sib_pkt *rp)
{
	struct ib_wc wc = { .opcode = IB_WC_RECV, .byte_len = m->total, .slid = p->slid,
			    .sl = p->sl, .src_qp = qp->remote_qpn };
	bool write_imm = m->op == IB_WR_RDMA_WRITE_WITH_IMM && m->last;
	int ret = 1;

	if (m->op == IB_WR_RDMA_READ)
		return rc_exec_read(qp, m, rp);
	if (is_atomic(m->op))
		return rc_exec_atomic(qp, m, (void *)rp->data);
	if (!carries_data(m->op))
		return IB_WC_REM_OP_ERR;

	/* take a receive request before changing anything: RNR must have no side effect */
	if (write_imm)
		ret = rvt_get_rwqe(qp, true);
	else if (is_send(m->op) && m->first)
		ret = sib_recv_take(qp);
	if (ret <= 0)
		return ret ? IB_WC_REM_OP_ERR : RC_RNR;

	if (!is_send(m->op)) {
		ret = rc_exec_write(qp, m);
		if (ret || !write_imm)
			return ret;
		wc.opcode = IB_WC_RECV_RDMA_WITH_IMM;
	} else {
		if (m->first)
			qp->r_rcv_len = 0;
		if (!rc_fits(qp, m))
			return IB_WC_REM_INV_REQ_ERR;
		qp->r_rcv_len += m->len;
		sib_recv_data(qp, m->data, m->len);
		if (!m->last)
			return 0;
	}
	if (p->has_imm) {
		wc.wc_flags = IB_WC_WITH_IMM;
		wc.ex.imm_data = p->imm;
	} else if (m->op == IB_WR_SEND_WITH_INV) {
		if (rvt_invalidate_rkey(qp, m->rkey))
			return IB_WC_REM_ACCESS_ERR;
		wc.wc_flags = IB_WC_WITH_INVALIDATE;
		wc.ex.invalidate_rkey = m->rkey;
	}
	sib_recv_done(qp, &wc, p->solicited);
	return 0;
}

/* Updates the responder's hw_counters for a request. */
static void rc_count(struct sib_dev *d, const struct rc_hdr *m, u8 status)
{
	if (status == RC_RNR)
		sib_hw(d, HW_OUT_OF_BUFFER);
	else if (status == IB_WC_REM_ACCESS_ERR)
		sib_hw(d, HW_RESP_ACCESS);
	else if (status && is_send(m->op))
		sib_hw(d, HW_RESP_LENGTH);
	else if (status || !m->first)
		return;
	else if (m->op == IB_WR_RDMA_READ)
		sib_hw(d, HW_READS);
	else if (is_atomic(m->op))
		sib_hw(d, HW_ATOMICS);
	else if (!is_send(m->op))
		sib_hw(d, HW_WRITES);
}

/* Returns whether to send a response. r_lock held. */
static bool rc_request(struct rvt_qp *qp, struct sib_pkt *p, struct rc_hdr *m, struct sib_pkt *rp)
{
	struct rc_hdr *r = (void *)rp->data;
	struct sib_dev *d = to_sib(qp->ibqp.device);
	struct sib_qp *v = qp->priv;
	bool uc = p->kind == SIB_UC;
	s32 diff = psn_diff(m->psn, qp->r_psn);

	if (!(ib_rvt_state_ops[qp->state] & RVT_PROCESS_RECV_OK))
		return false;
	if (qp->state == IB_QPS_RTR && !(qp->r_flags & RVT_R_COMM_EST))
		rvt_comm_est(qp);
	if (uc && m->first)
		diff = 0;			/* UC: a new message restarts the sequence */
	if (diff)
		sib_hw(d, diff < 0 ? HW_DUPLICATE : HW_OUT_OF_SEQUENCE);
	if (diff == -1 && !uc && m->op != IB_WR_RDMA_READ) {
		r->status = v->last_status;	/* the response was lost: send it again */
		r->a = v->last_atomic;
		return true;
	}
	if (diff && !(diff == -1 && !uc))
		return false;			/* a gap, or older than the last one */
	r->status = rc_exec(qp, p, m, rp);
	r->rnr = qp->r_min_rnr_timer;
	rc_count(d, m, r->status);
	if (uc && r->status)
		return false;			/* PSN unchanged: the rest of the message is dropped too */
	if (r->status == RC_RNR)
		return true;
	if (!diff) {
		qp->r_psn = (m->psn + 1) & 0xffffff;
		v->last_status = r->status;
		v->last_atomic = r->a;
	}
	if (r->status)
		rvt_rc_error(qp, is_send(m->op) ? IB_WC_LOC_LEN_ERR : IB_WC_LOC_ACCESS_ERR);
	return !uc;
}

/* The destination QP, if the packet comes from its peer and partition. rcu_read_lock held. */
static struct rvt_qp *rc_find(struct sib_dev *d, struct sib_pkt *p)
{
	enum ib_qp_type type = p->kind == SIB_UC ? IB_QPT_UC : IB_QPT_RC;
	struct rvt_qp *qp = rvt_lookup_qpn(&d->rdi, &d->rvp, p->dqpn);

	if (!qp || qp->ibqp.qp_type != type || qp->remote_qpn != p->sqpn ||
	    rdma_ah_get_dlid(&qp->remote_ah_attr) != p->slid)
		return NULL;
	if (!sib_pkey_ok(p->pkey, d->pkeys[qp->s_pkey_index % SIB_NPKEYS])) {
		d->rvp.pkey_violations++;
		return NULL;
	}
	return qp;
}

void rc_rx(struct sib_dev *d, struct sib_pkt *p)
{
	struct rc_hdr *m = (void *)p->data;
	bool request = p->kind != SIB_RC_RSP, answer = false;
	struct sib_pkt *rp = NULL;
	struct rvt_qp *qp;
	unsigned long flags;

	if (p->len < sizeof(*m) || m->len > SIB_MTU ||
	    (carries_data(m->op) && request && p->len != sizeof(*m) + m->len))
		return;				/* malformed */
	if (request) {
		rp = sib_pkt_alloc(sizeof(*m) + (m->op == IB_WR_RDMA_READ ? m->len : 0));
		if (!rp)
			return;
		rp->len = sizeof(*m);
	}
	rcu_read_lock();
	qp = rc_find(d, p);
	if (qp && !request)
		rc_response(qp, p, m);
	if (qp && request) {
		struct rc_hdr *r = (void *)rp->data;

		r->op = m->op;
		r->psn = m->psn;
		spin_lock_irqsave(&qp->r_lock, flags);
		answer = rc_request(qp, p, m, rp);
		spin_unlock_irqrestore(&qp->r_lock, flags);
		rp->kind = SIB_RC_RSP;
		rp->slid = p->dlid;
		rp->dlid = p->slid;
		rp->sl = p->sl;
		rp->sqpn = p->dqpn;
		rp->dqpn = p->sqpn;
		rp->pkey = d->pkeys[qp->s_pkey_index % SIB_NPKEYS];
	}
	rcu_read_unlock();
	if (answer)
		fabric_xmit(d, rp);
	kfree(rp);
}
