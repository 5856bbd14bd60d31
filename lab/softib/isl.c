// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Inter-switch links: the switches of several kernels are connected by UDP, one
 * datagram per packet. A link is up while hellos from the peer arrive.
 */
#include <linux/kthread.h>
#include <linux/inet.h>
#include <linux/net.h>
#include <linux/in.h>
#include <net/sock.h>
#include "softib.h"

#define ISL_UDP_PORT	4999

static int drop;
module_param(drop, int, 0644);
MODULE_PARM_DESC(drop, "drop one in this many packets sent to other kernels, 0: none");

static struct socket *sock;
static struct task_struct *task;
static struct sib_pkt *rx_buf;
static struct { __be32 ip; unsigned long seen; bool up; } peer[SIB_ISLPORTS];

static void isl_raw(int i, void *buf, size_t len)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(ISL_UDP_PORT),
				  .sin_addr.s_addr = peer[i].ip };
	struct msghdr m = { .msg_name = &sa, .msg_namelen = sizeof(sa), .msg_flags = MSG_DONTWAIT };
	struct kvec v = { .iov_base = buf, .iov_len = len };

	kernel_sendmsg(sock, &m, &v, 1, len);
}

void isl_send(int i, struct sib_pkt *p)
{
	static atomic_t sent;

	if (drop > 0 && atomic_inc_return(&sent) % drop == 0)
		return;
	if (peer[i].up)
		isl_raw(i, p, sizeof(*p) + p->len);
}

static void isl_hello(void)
{
	static char hello[] = "hello";
	int i;

	for (i = 0; i < SIB_ISLPORTS && peer[i].ip; i++) {
		bool up = peer[i].seen && time_before(jiffies, peer[i].seen + 5 * HZ);

		isl_raw(i, hello, sizeof(hello));
		if (up == peer[i].up)
			continue;
		peer[i].up = up;
		fabric_isl_link(i, up);
		pr_info("softib: link %d to another switch is %s\n", i, up ? "up" : "down");
	}
}

static int isl_thread(void *unused)
{
	size_t max = sizeof(struct sib_pkt) + SIB_MAXDATA;
	unsigned long next = jiffies;
	struct sib_pkt *p = rx_buf;

	while (!kthread_should_stop()) {
		struct sockaddr_in sa = { };
		struct msghdr m = { .msg_name = &sa, .msg_namelen = sizeof(sa) };
		struct kvec v = { .iov_base = p, .iov_len = max };
		int i, n;

		if (time_after_eq(jiffies, next)) {
			isl_hello();
			next = jiffies + HZ / 2;
		}
		n = kernel_recvmsg(sock, &m, &v, 1, max, 0);	/* returns by sk_rcvtimeo */
		if (n <= 0)
			continue;
		for (i = 0; i < SIB_ISLPORTS && peer[i].ip != sa.sin_addr.s_addr; i++)
			;
		if (i == SIB_ISLPORTS)
			continue;
		peer[i].seen = jiffies | 1;
		if (n >= (int)sizeof(*p) && p->magic == SIB_MAGIC && n == sizeof(*p) + p->len)
			fabric_rx(SIB_HCAPORTS + 1 + i, p);
	}
	return 0;
}

/* peers: "10.9.0.2,10.9.0.3", each becomes one switch port in this order */
int isl_start(char *peers)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(ISL_UDP_PORT) };
	int i, ret;

	for (i = 0; i < SIB_ISLPORTS && *peers; i++) {
		const char *end;

		if (!in4_pton(peers, -1, (u8 *)&peer[i].ip, ',', &end))
			return -EINVAL;
		peers += end - peers;
		if (*peers == ',')
			peers++;
	}
	ret = sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP, &sock);
	if (ret)
		return ret;
	ret = kernel_bind(sock, (void *)&sa, sizeof(sa));
	if (ret)
		goto err;
	sock->sk->sk_rcvtimeo = HZ / 4;
	ret = -ENOMEM;
	rx_buf = kzalloc(sizeof(*rx_buf) + SIB_MAXDATA, GFP_KERNEL);
	if (!rx_buf)
		goto err;
	task = kthread_run(isl_thread, NULL, "softib_isl");
	if (!IS_ERR(task))
		return 0;
	ret = PTR_ERR(task);
	task = NULL;
	kfree(rx_buf);
err:
	sock_release(sock);
	sock = NULL;
	return ret;
}

/* Called after all HCAs are gone, so nothing sends any more. */
void isl_stop(void)
{
	if (!task)
		return;
	kthread_stop(task);
	sock_release(sock);
	kfree(rx_buf);
}
