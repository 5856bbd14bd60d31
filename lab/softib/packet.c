// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Packet allocation, and filling packets from the memory of a work request. */
#include "softib.h"

struct sib_pkt *sib_pkt_alloc(u32 len)
{
	struct sib_pkt *p = kzalloc(struct_size(p, data, len), GFP_KERNEL);

	if (p) {
		p->magic = SIB_MAGIC;
		p->len = len;
	}
	return p;
}

/* A cursor over a send work request's data; it borrows the request's references. */
void sib_sge_start(struct rvt_sge_state *ss, struct rvt_swqe *wqe)
{
	memset(ss, 0, sizeof(*ss));
	ss->num_sge = wqe->wr.num_sge;
	ss->sge = wqe->sg_list[0];
	ss->sg_list = wqe->sg_list + 1;
	ss->total_len = wqe->length;
}

void sib_gather(struct rvt_sge_state *ss, u8 *to, u32 len)
{
	while (len) {
		u32 n = rvt_get_sge_length(&ss->sge, len);

		if (WARN_ON_ONCE(!n))
			return;
		memcpy(to, ss->sge.vaddr, n);
		rvt_update_sge(ss, n, false);
		to += n;
		len -= n;
	}
}
