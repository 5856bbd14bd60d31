// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* hw_counters: counters of the transports under mlx5's names. */
#include "softib.h"

static const struct rdma_stat_desc descs[HW_MAX] = {
	[HW_WRITES]		= { .name = "rx_write_requests" },
	[HW_READS]		= { .name = "rx_read_requests" },
	[HW_ATOMICS]		= { .name = "rx_atomic_requests" },
	[HW_OUT_OF_BUFFER]	= { .name = "out_of_buffer" },
	[HW_OUT_OF_SEQUENCE]	= { .name = "out_of_sequence" },
	[HW_DUPLICATE]		= { .name = "duplicate_request" },
	[HW_RNR_RETRY]		= { .name = "rnr_nak_retry_err" },
	[HW_ACK_TIMEOUT]	= { .name = "local_ack_timeout_err" },
	[HW_RESP_LENGTH]	= { .name = "resp_local_length_error" },
	[HW_RESP_ACCESS]	= { .name = "resp_remote_access_errors" },
	[HW_REQ_ACCESS]		= { .name = "req_remote_access_errors" },
	[HW_REQ_INVALID]	= { .name = "req_remote_invalid_request" },
	[HW_REQ_ERROR]		= { .name = "req_cqe_error" },
};

static struct rdma_hw_stats *alloc_hw_port_stats(struct ib_device *ib, u32 port)
{
	return rdma_alloc_hw_stats_struct(descs, HW_MAX, RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static int get_hw_stats(struct ib_device *ib, struct rdma_hw_stats *stats, u32 port, int index)
{
	int i;

	if (!port)
		return -EOPNOTSUPP;	/* no per-device counters */
	for (i = 0; i < HW_MAX; i++)
		stats->value[i] = atomic64_read(&to_sib(ib)->hw[i]);
	return HW_MAX;
}

const struct ib_device_ops sib_stats_ops = {
	.alloc_hw_port_stats = alloc_hw_port_stats,
	.get_hw_stats = get_hw_stats,
};
