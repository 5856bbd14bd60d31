// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Datagrams: UD QPs and the two management QPs. */
#include "softib.h"

static void ud_grh(struct sib_dev *d, struct sib_pkt *p, struct rdma_ah_attr *ah)
{
	const struct ib_global_route *g = rdma_ah_read_grh(ah);

	p->has_grh = 1;
	p->grh.version_tclass_flow = cpu_to_be32(6 << 28 | g->traffic_class << 20 | g->flow_label);
	p->grh.paylen = cpu_to_be16(p->len + 24);	/* BTH, DETH and ICRC of a real packet */
	p->grh.next_hdr = 0x1b;
	p->grh.hop_limit = g->hop_limit;
	p->grh.sgid.global.subnet_prefix = d->rvp.gid_prefix;
	p->grh.sgid.global.interface_id = d->guids[g->sgid_index % SIB_NGUIDS];
	p->grh.dgid = g->dgid;
}

static void ud_send_one(struct sib_dev *d, struct rvt_qp *qp, struct rvt_swqe *wqe)
{
	struct rdma_ah_attr *ah = rvt_get_swqe_ah_attr(wqe);
	u32 qkey = rvt_get_swqe_remote_qkey(wqe);
	struct sib_pkt *p = sib_pkt_alloc(wqe->length);
	struct rvt_sge_state ss;
	int pk = qp->s_pkey_index;

	if (!p)
		return;			/* datagrams may be lost */
	if (qp->ibqp.qp_type == IB_QPT_GSI)
		pk = rvt_get_swqe_pkey_index(wqe);
	p->kind = SIB_UD;
	p->slid = sib_lid(d);
	p->dlid = rdma_ah_get_dlid(ah);
	p->sl = rdma_ah_get_sl(ah);
	p->sqpn = qp->ibqp.qp_num;
	p->dqpn = rvt_get_swqe_remote_qpn(wqe);
	p->qkey = qkey & BIT(31) ? qp->qkey : qkey;	/* high bit: use the QP's own */
	p->pkey = d->pkeys[pk % SIB_NPKEYS];
	p->solicited = !!(wqe->wr.send_flags & IB_SEND_SOLICITED);
	if (wqe->wr.opcode == IB_WR_SEND_WITH_IMM) {
		p->has_imm = 1;
		p->imm = wqe->wr.ex.imm_data;
	}
	if (rdma_ah_get_ah_flags(ah) & IB_AH_GRH)
		ud_grh(d, p, ah);
	sib_sge_start(&ss, wqe);
	sib_gather(&ss, p->data, wqe->length);
	fabric_xmit(d, p);
	kfree(p);
}

/* Worker context. This function owns the work request at s_last until it is completed. */
void ud_send(struct sib_dev *d, struct sib_qp *v)
{
	struct rvt_qp *qp = v->qp;
	unsigned long flags;

	spin_lock_irqsave(&qp->s_lock, flags);
	while (qp->s_last != smp_load_acquire(&qp->s_head)) {
		struct rvt_swqe *wqe = rvt_get_swqe_ptr(qp, qp->s_last);
		int ops = ib_rvt_state_ops[qp->state];
		enum ib_wc_status st = IB_WC_WR_FLUSH_ERR;

		if (!(ops & (RVT_PROCESS_NEXT_SEND_OK | RVT_FLUSH_SEND)))
			break;
		if (ops & RVT_PROCESS_NEXT_SEND_OK) {
			spin_unlock_irqrestore(&qp->s_lock, flags);
			ud_send_one(d, qp, wqe);
			cond_resched();
			spin_lock_irqsave(&qp->s_lock, flags);
			st = IB_WC_SUCCESS;
		}
		if (!(ib_rvt_state_ops[qp->state] & RVT_PROCESS_OR_FLUSH_SEND))
			break;			/* reset meanwhile */
		rvt_send_complete(qp, wqe, st);
	}
	spin_unlock_irqrestore(&qp->s_lock, flags);
}

/* Partition and Q_Key checks of a datagram. Returns its P_Key index, or -1 to drop it. */
static int ud_check(struct sib_dev *d, struct rvt_qp *qp, struct sib_pkt *p)
{
	int i = qp->s_pkey_index;

	if (qp->ibqp.qp_num == 0)
		return 0;			/* SMPs have no partitions */
	if (qp->ibqp.qp_num == 1) {		/* any partition of the port */
		for (i = 0; i < SIB_NPKEYS && !sib_pkey_ok(d->pkeys[i], p->pkey); i++)
			;
	} else if (qp->ibqp.qp_type != IB_QPT_UD) {
		return -1;
	}
	if (i >= SIB_NPKEYS || !sib_pkey_ok(d->pkeys[i], p->pkey)) {
		d->rvp.pkey_violations++;
		return -1;
	}
	if (p->qkey != qp->qkey) {
		d->rvp.qkey_violations++;
		return -1;
	}
	return i;
}

/* rcu_read_lock held */
void ud_rx(struct sib_dev *d, struct rvt_qp *qp, struct sib_pkt *p)
{
	struct ib_wc wc = { .opcode = IB_WC_RECV };
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&qp->r_lock, flags);
	if (!(ib_rvt_state_ops[qp->state] & RVT_PROCESS_RECV_OK))
		goto out;
	ret = ud_check(d, qp, p);
	if (ret < 0)
		goto out;
	wc.pkey_index = ret;
	wc.byte_len = p->len + sizeof(p->grh);
	ret = sib_recv_take(qp);
	if (ret < 0)
		rvt_rc_error(qp, IB_WC_LOC_QP_OP_ERR);
	if (!ret)
		sib_hw(d, HW_OUT_OF_BUFFER);
	if (ret <= 0 || wc.byte_len > qp->r_len)
		goto out;
	/* 40 bytes for the GRH precede the data, with or without a GRH */
	sib_recv_data(qp, &p->grh, sizeof(p->grh));
	sib_recv_data(qp, p->data, p->len);
	if (p->has_grh)
		wc.wc_flags |= IB_WC_GRH;
	if (p->has_imm) {
		wc.wc_flags |= IB_WC_WITH_IMM;
		wc.ex.imm_data = p->imm;
	}
	wc.src_qp = p->sqpn;
	wc.slid = p->slid;
	wc.sl = p->sl;
	sib_recv_done(qp, &wc, p->solicited);
out:
	spin_unlock_irqrestore(&qp->r_lock, flags);
}
