// SPDX-License-Identifier: Apache-2.0
/*
 * verbs DEVICE [DEVICE]: checks of reliable connections between two QPs, on one adapter or on two.
 * verbs 0xKEY DEVICE DEVICE: checks only that one message gets through in that partition.
 *
 * Prints one line per check; exits with 0 when all pass.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMORY (1u << 20)
#define IMMEDIATE 0xabcd1234u
#define NONE (-1) /* no completion in time */

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr, *mr_local; /* all access rights; local access only */
	struct ibv_port_attr port;
	uint8_t *memory;
	int pkey_index;
};

struct retries {
	uint8_t rnr, transport, timeout;
};
static const struct retries many_retries = { .rnr = 7, .transport = 7, .timeout = 14 };

static struct side a, b;
static int bad;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void check(const char *what, bool good)
{
	printf("%s %s\n", good ? "ok  " : "BAD ", what);
	fflush(stdout);
	bad += !good;
}

static void require(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(2);
	}
}

/* ------------------------------------------------------------------ objects */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	return NULL;
}

static void new_qp(struct side *s)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = s->send_cq,
		.recv_cq = s->recv_cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4 },
	};

	s->qp = ibv_create_qp(s->pd, &attr);
	require(s->qp, "create QP");
}

static void new_side(struct side *s, const char *device)
{
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;

	s->context = open_device(device);
	require(s->context, device);
	s->pd = ibv_alloc_pd(s->context);
	s->send_cq = ibv_create_cq(s->context, 256, NULL, NULL, 0);
	s->recv_cq = ibv_create_cq(s->context, 256, NULL, NULL, 0);
	require(!ibv_query_port(s->context, 1, &s->port), "query port");
	require(!posix_memalign((void **)&s->memory, 4096, MEMORY), "memory");
	s->mr = ibv_reg_mr(s->pd, s->memory, MEMORY, rights);
	s->mr_local = ibv_reg_mr(s->pd, s->memory, MEMORY, IBV_ACCESS_LOCAL_WRITE);
	require(s->mr && s->mr_local, "register memory");
	new_qp(s);
}

static void connect_qp(struct side *s, struct side *peer, uint32_t psn, uint32_t peer_psn, struct retries r)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.pkey_index = s->pkey_index,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = peer_psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = peer->port.lid, .port_num = 1 },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = r.timeout,
		.retry_cnt = r.transport,
		.rnr_retry = r.rnr,
		.sq_psn = psn,
		.max_rd_atomic = 4,
	};

	require(!ibv_modify_qp(s->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "QP to INIT");
	require(!ibv_modify_qp(s->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "QP to RTR");
	require(!ibv_modify_qp(s->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "QP to RTS");
}

static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}

/* New connected QPs with packet sequence numbers just before the wrap. */
static void new_connection(struct retries r)
{
	struct side *both[] = { &a, &b };

	for (int i = 0; i < 2; i++) {
		ibv_destroy_qp(both[i]->qp);
		drain(both[i]->send_cq);
		drain(both[i]->recv_cq);
		new_qp(both[i]);
	}
	connect_qp(&a, &b, 0xfffffa, 0x1234, r);
	connect_qp(&b, &a, 0x1234, 0xfffffa, r);
}

/* ----------------------------------------------------------------- requests */

static void receive(struct side *s, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)s->memory + offset, length, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = length ? 1 : 0 }, *failed;

	require(!ibv_post_recv(s->qp, &wr, &failed), "post receive");
}

static void post(enum ibv_wr_opcode op, uint32_t offset, uint32_t length, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)a.memory + offset, length, a.mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = length ? 1 : 0,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(IMMEDIATE),
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	}, *failed;

	require(!ibv_post_send(a.qp, &wr, &failed), "post send");
}

static void post_atomic(enum ibv_wr_opcode op, uint32_t offset, uint64_t remote, uint64_t compare, uint64_t swap)
{
	struct ibv_sge sge = { (uintptr_t)a.memory + offset, 8, a.mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = { .remote_addr = remote, .rkey = b.mr->rkey, .compare_add = compare, .swap = swap },
	}, *failed;

	require(!ibv_post_send(a.qp, &wr, &failed), "post atomic");
}

static bool completion(struct ibv_cq *cq, struct ibv_wc *wc, double seconds)
{
	double end = now() + seconds;
	int n;

	memset(wc, 0, sizeof(*wc));
	while (!(n = ibv_poll_cq(cq, 1, wc)) && now() < end)
		usleep(100);
	return n == 1;
}

/* Completion status of a's request. */
static int status(double seconds)
{
	struct ibv_wc wc;

	return completion(a.send_cq, &wc, seconds) ? (int)wc.status : NONE;
}

static bool received(struct ibv_wc *wc, double seconds)
{
	return completion(b.recv_cq, wc, seconds) && wc->status == IBV_WC_SUCCESS;
}

static void fill(uint8_t *p, uint32_t length, uint32_t seed)
{
	while (length--)
		*p++ = seed = seed * 1103515245 + 12345;
}

/* ------------------------------------------------------------------- checks */

static void data(void)
{
	uint64_t remote = (uintptr_t)b.memory;
	uint32_t rkey = b.mr->rkey;
	struct ibv_wc wc;
	bool good;

	new_connection(many_retries);
	fill(a.memory, MEMORY, 1);
	receive(&b, 3, 20000);
	post(IBV_WR_SEND_WITH_IMM, 5, 10001, 0, 0);
	good = received(&wc, 5) && wc.byte_len == 10001 && (wc.wc_flags & IBV_WC_WITH_IMM) &&
	       be32toh(wc.imm_data) == IMMEDIATE && wc.wr_id == 7 && wc.opcode == IBV_WC_RECV;
	check("send with immediate, 10 packets across the PSN wrap",
	      good && !status(5) && !memcmp(b.memory + 3, a.memory + 5, 10001));

	receive(&b, 0, 0);
	post(IBV_WR_SEND, 0, 0, 0, 0);
	check("send of 0 bytes", received(&wc, 5) && !wc.byte_len && !status(5));

	post(IBV_WR_RDMA_WRITE, 7, 700001, remote + 11, rkey);
	check("write 700001 bytes", !status(20) && !memcmp(b.memory + 11, a.memory + 7, 700001));

	receive(&b, 0, 16);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 100, 5000, remote + 1000, rkey);
	good = received(&wc, 5) && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == 5000 &&
	       be32toh(wc.imm_data) == IMMEDIATE;
	check("write with immediate", good && !status(5) && !memcmp(b.memory + 1000, a.memory + 100, 5000));

	fill(b.memory, MEMORY, 77);
	post(IBV_WR_RDMA_READ, 13, 500003, remote + 17, rkey);
	check("read 500003 bytes", !status(20) && !memcmp(a.memory + 13, b.memory + 17, 500003));
}

static void atomics(void)
{
	uint64_t remote = (uintptr_t)b.memory + 32;
	uint64_t *there = (uint64_t *)(b.memory + 32), *old = (uint64_t *)(a.memory + 64);

	*there = 40;
	post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 64, remote, 2, 0);
	check("fetch and add", !status(5) && *there == 42 && *old == 40);
	post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 64, remote, 42, 99);
	check("compare and swap, equal", !status(5) && *there == 99 && *old == 42);
	post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 64, remote, 1, 2);
	check("compare and swap, not equal", !status(5) && *there == 99 && *old == 99);
}

static void scatter(void)
{
	uint64_t from = (uintptr_t)a.memory, to = (uintptr_t)b.memory;
	struct ibv_sge source[] = {
		{ from + 1, 1500, a.mr->lkey }, { from + 9000, 7, a.mr->lkey }, { from + 30000, 4000, a.mr->lkey },
	};
	struct ibv_sge sink[] = { { to + 50000, 3000, b.mr->lkey }, { to + 90001, 4000, b.mr->lkey } };
	struct ibv_recv_wr recv = { .sg_list = sink, .num_sge = 2 }, *failed_recv;
	struct ibv_send_wr send = { .sg_list = source, .num_sge = 3, .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED }, *failed_send;
	static uint8_t sent[5507], got[5507];
	struct ibv_wc wc;
	bool good;

	require(!ibv_post_recv(b.qp, &recv, &failed_recv) && !ibv_post_send(a.qp, &send, &failed_send), "post");
	good = !status(5) && received(&wc, 5) && wc.byte_len == sizeof(sent);
	memcpy(sent, a.memory + 1, 1500);
	memcpy(sent + 1500, a.memory + 9000, 7);
	memcpy(sent + 1507, a.memory + 30000, 4000);
	memcpy(got, b.memory + 50000, 3000);
	memcpy(got + 3000, b.memory + 90001, 2507);
	check("three pieces into two", good && !memcmp(sent, got, sizeof(sent)));
}

static void random_operations(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND };
	bool good = true;
	struct ibv_wc wc;

	for (int i = 0; i < 300 && good; i++) {
		uint32_t length = rand() % 9000 + 1, here = rand() % 100000, there = rand() % 100000;
		enum ibv_wr_opcode op = ops[rand() % 3];

		fill(a.memory + here, length, i);
		if (op == IBV_WR_SEND)
			receive(&b, there, length);
		post(op, here, length, (uintptr_t)b.memory + there, b.mr->rkey);
		good = !status(5) && (op != IBV_WR_SEND || received(&wc, 5)) &&
		       !memcmp(a.memory + here, b.memory + there, length);
	}
	check("300 random operations, data compared", good);
}

static void not_ready(void)
{
	struct retries once = { .rnr = 1, .transport = 7, .timeout = 14 };
	struct ibv_wc wc;
	int early, first;

	post(IBV_WR_SEND, 0, 3000, 0, 0);
	usleep(300000);
	early = status(0);
	receive(&b, 0, 4000);
	check("receiver not ready, ready later", early == NONE && !status(5) && received(&wc, 1));

	new_connection(once);
	post(IBV_WR_SEND, 0, 30, 0, 0);
	post(IBV_WR_SEND, 0, 30, 0, 0);
	first = status(5);
	check("receiver never ready, next request flushed",
	      first == IBV_WC_RNR_RETRY_EXC_ERR && status(5) == IBV_WC_WR_FLUSH_ERR);
}

static void refusals(void)
{
	uint64_t remote = (uintptr_t)b.memory;
	struct ibv_wc wc;
	int st;

	new_connection(many_retries);
	receive(&b, 0, 10);
	post(IBV_WR_RDMA_WRITE, 0, 30, remote, b.mr->rkey + 0x100000);
	st = status(5);
	check("write with a wrong key; the peer's receive is flushed",
	      st == IBV_WC_REM_ACCESS_ERR && completion(b.recv_cq, &wc, 5) && wc.status == IBV_WC_WR_FLUSH_ERR);

	new_connection(many_retries);
	post(IBV_WR_RDMA_READ, 0, 30, remote, b.mr_local->rkey);
	check("read of memory without the access right", status(5) == IBV_WC_REM_ACCESS_ERR);

	new_connection(many_retries);
	b.memory[MEMORY - 5000] = 1;
	a.memory[0] = 2;
	post(IBV_WR_RDMA_WRITE, 0, 6000, remote + MEMORY - 5000, b.mr->rkey);
	st = status(5);
	check("write past the end: nothing is written", st == IBV_WC_REM_ACCESS_ERR && b.memory[MEMORY - 5000] == 1);

	new_connection(many_retries);
	post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 64, remote + 33, 2, 0);
	check("atomic at an odd address", status(5) == IBV_WC_REM_INV_REQ_ERR);

	new_connection(many_retries);
	receive(&b, 0, 100);
	post(IBV_WR_SEND, 0, 3000, 0, 0);
	st = status(5);
	check("send longer than the receive; the peer gets an error",
	      st == IBV_WC_REM_INV_REQ_ERR && completion(b.recv_cq, &wc, 5) && wc.status == IBV_WC_LOC_LEN_ERR);
}

static void endings(void)
{
	struct retries few = { .rnr = 7, .transport = 2, .timeout = 8 };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	double start;

	new_connection(few);
	ibv_modify_qp(b.qp, &reset, IBV_QP_STATE);
	post(IBV_WR_SEND, 0, 30, 0, 0);
	check("no peer: retries exceeded", status(10) == IBV_WC_RETRY_EXC_ERR);

	new_connection(many_retries);
	ibv_destroy_qp(b.qp);
	post(IBV_WR_SEND, 0, 30, 0, 0);
	start = now();
	ibv_destroy_qp(a.qp);
	check("destroy with a request under way", now() - start < 2);
	check("memory is deregistered", !ibv_dereg_mr(a.mr) && !ibv_dereg_mr(a.mr_local) && !ibv_dereg_mr(b.mr) &&
				  !ibv_dereg_mr(b.mr_local));
}

/* Index of the partition's P_Key, as full or limited member. */
static int find_pkey(struct side *s, uint16_t partition)
{
	for (int i = 0; i < s->port.pkey_tbl_len; i++) {
		__be16 key;

		if (!ibv_query_pkey(s->context, 1, i, &key) && (be16toh(key) & 0x7fff) == (partition & 0x7fff))
			return i;
	}
	fprintf(stderr, "%s: not in partition 0x%x\n", ibv_get_device_name(s->context->device), partition);
	exit(3);
}

static void reach(uint16_t partition)
{
	struct retries few = { .rnr = 7, .transport = 2, .timeout = 8 };
	struct ibv_wc wc;

	a.pkey_index = find_pkey(&a, partition);
	b.pkey_index = find_pkey(&b, partition);
	new_connection(few);
	fill(a.memory, 3000, 5);
	receive(&b, 0, 4000);
	post(IBV_WR_SEND, 0, 3000, 0, 0);
	check("a message gets through", !status(10) && received(&wc, 5) && !memcmp(a.memory, b.memory, 3000));
}

int main(int argc, char **argv)
{
	uint16_t partition = argc > 1 ? strtoul(argv[1], NULL, 16) : 0;

	if (argc > 1 && !strncmp(argv[1], "0x", 2)) {
		argv++;
		argc--;
	} else {
		partition = 0;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: verbs [0xKEY] DEVICE [DEVICE]\n");
		return 2;
	}
	new_side(&a, argv[1]);
	new_side(&b, argc > 2 ? argv[2] : argv[1]);
	if (partition) {
		reach(partition);
		return !!bad;
	}
	data();
	atomics();
	scatter();
	random_operations();
	not_ready();
	refusals();
	endings();
	printf("%d bad\n", bad);
	return !!bad;
}
