/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * softib: software InfiniBand HCAs and one switch per kernel, for tests.
 *
 * rdmavt provides the verbs objects (PD, CQ, QP, MR, AH, SRQ, multicast, mmap) and
 * the user ABI. This module provides what rdmavt leaves to a driver: the wire, the
 * transport, the management agents and the PCI identity.
 *
 *   main ── pci ── identity, devlink, vf          PCI functions
 *            │
 *           hca ── sysfs, stats, umap, qp         one adapter
 *            │
 *   ud, rc_req, rc_rsp, recv, packet              transports
 *            │
 *         switch ── cable, switch_sma, trap, isl  the fabric
 *   portinfo, sma, counters, pma                  management, HCA and switch
 */
#ifndef SOFTIB_H
#define SOFTIB_H

#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <linux/if_link.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/rdma_vt.h>
#include <rdma/rdmavt_qp.h>
#include <rdma/rdmavt_cq.h>

#define SIB_NPKEYS	128
#define SIB_NGUIDS	8
#define SIB_HCAPORTS	40	/* switch ports 1..40: HCAs of this kernel */
#define SIB_ISLPORTS	4	/* switch ports 41..44: links to other kernels */
#define SIB_SWPORTS	(SIB_HCAPORTS + SIB_ISLPORTS)
#define SIB_MAXVF	16
#define SIB_MTU		4096

extern int sib_debug, sib_nodeid;
extern char *sib_devname;
extern bool sib_virt;
#define dbg(fmt, ...) do { if (sib_debug) pr_info("softib: " fmt, ##__VA_ARGS__); } while (0)

/* VF settings made through the PF; the VF reads them when it is probed. */
struct sib_vf {
	u64 node_guid, port_guid;
	int link_state;			/* IFLA_VF_LINK_STATE_* */
};

/* Port counters; the first eight in the order of PortCountersExtended. */
enum sib_count {
	CNT_XMIT_DATA, CNT_RCV_DATA,	/* in units of four octets */
	CNT_XMIT_PKTS, CNT_RCV_PKTS,
	CNT_XMIT_UCAST, CNT_RCV_UCAST,
	CNT_XMIT_MCAST, CNT_RCV_MCAST,
	CNT_LINK_DOWNED,
	CNT_XMIT_DISCARDS,		/* the port was not active */
	CNT_RELAY_ERRORS,		/* the switch had no route */
	CNT_XMIT_CONSTRAINT,		/* dropped by the partition check, outbound */
	CNT_RCV_CONSTRAINT,		/* dropped by the partition check, inbound */
	CNT_MAX
};

struct sib_counters {
	atomic64_t n[CNT_MAX];
};

/* Counters of the transports; shown as hw_counters under mlx5's names. */
enum sib_hw {
	HW_WRITES, HW_READS, HW_ATOMICS,
	HW_OUT_OF_BUFFER, HW_OUT_OF_SEQUENCE, HW_DUPLICATE,
	HW_RNR_RETRY, HW_ACK_TIMEOUT,
	HW_RESP_LENGTH, HW_RESP_ACCESS,
	HW_REQ_ACCESS, HW_REQ_INVALID, HW_REQ_ERROR,
	HW_MAX
};

struct sib_dev {
	struct rvt_dev_info rdi;	/* first: rdmavt allocates and frees it */
	struct rvt_ibport rvp;
	struct pci_dev *pdev;		/* NULL for an HCA without a PCI function */
	struct devlink *devlink;
	struct ib_port_info pi;		/* PortInfo of the only port */
	struct sib_counters cnt;
	atomic64_t hw[HW_MAX];
	__be64 guids[SIB_NGUIDS];
	__be64 image_guid;		/* of the card: a VF has its PF's */
	u16 pkeys[SIB_NPKEYS];
	u8 vlarb[5][64];
	int unit, swport;
	struct idr qpns;
	spinlock_t qpn_lock;		/* qpns */
	bool wanted;			/* the administrator enabled the link */
	bool attached;			/* the cable to the switch is up */
	bool ready;			/* registered: may receive packets */
	struct sib_vf vf[SIB_MAXVF];
};

enum sib_kind { SIB_UD, SIB_UC, SIB_RC_REQ, SIB_RC_RSP };

/* A packet; sent to other kernels (same module, same architecture) over UDP as it is. */
struct sib_pkt {
	u32 magic;
	u16 slid, dlid, pkey;
	u8 sl, kind;
	u32 sqpn, dqpn, qkey, len;
	u8 has_grh, has_imm, solicited, pad;
	__be32 imm;
	struct ib_grh grh;
	u8 data[] __aligned(8);
};
#define SIB_MAGIC	0x53494233
#define SIB_MAXDATA	(SIB_MTU + 256)	/* payload and the RC header before it */

enum sib_rc_state { RC_IDLE, RC_SENT, RC_RNR_WAIT, RC_ANSWERED };

/* Driver's part of a QP. The send side is guarded by s_lock, the receive side by r_lock. */
struct sib_qp {
	struct rvt_qp *qp;
	struct delayed_work work;	/* the send queue; its delay is the retry timer */

	/* requester, rc_req.c */
	enum sib_rc_state state;
	struct sib_pkt *req;		/* the request in flight, kept for retransmission */
	struct rvt_sge_state ss;	/* position in the local data */
	u32 op, off, n, psn;		/* the work request, progress in it; this packet */
	unsigned long deadline;		/* of the response or the next RNR retry, jiffies */
	u8 tries, rnr_tries;
	bool sending;			/* the worker is inside the fabric: no need to wake it */
	enum ib_wc_status answer;

	/* responder, rc_rsp.c */
	u8 last_status;			/* response to the last request, for duplicates */
	u64 last_atomic;

	/* receive, recv.c */
	bool rwqe_held;
	struct rvt_sge_state cur;
};

static inline struct sib_dev *to_sib(struct ib_device *ib)
{
	return container_of(ib, struct sib_dev, rdi.ibdev);
}

static inline struct sib_dev *rdi_to_sib(struct rvt_dev_info *rdi)
{
	return container_of(rdi, struct sib_dev, rdi);
}

static inline u16 sib_lid(struct sib_dev *d)
{
	return be16_to_cpu(d->pi.lid);
}

/* Same partition, and not both limited members of it. */
static inline bool sib_pkey_ok(u16 a, u16 b)
{
	return (a & 0x7fff) && !((a ^ b) & 0x7fff) && ((a | b) & 0x8000);
}

static inline bool sib_is_mlid(u16 lid)
{
	return lid >= 0xc000 && lid != 0xffff;
}

static inline bool sib_guid_set(u64 guid)
{
	return guid && guid != ~0ULL;
}

/* pci.c */
int pci_start(void);
void pci_stop(void);

/* identity.c: how sysfs and lspci show a function */
void identity_show(struct pci_dev *pdev);
int identity_match(struct pci_driver *driver);
u16 identity_part(bool vf);

/* devlink.c */
int sib_devlink_start(struct sib_dev *d);
void sib_devlink_stop(struct sib_dev *d);

/* vf.c */
bool sib_vf_wants_link(const struct sib_vf *v);
extern const struct ib_device_ops sib_vf_ops;

/* hca.c */
struct sib_guids {
	u64 node, port, image;
};
struct sib_dev *sib_create(struct pci_dev *pdev, const struct sib_guids *g, bool up);
void sib_destroy(struct sib_dev *d);
void sib_event(struct sib_dev *d, enum ib_event_type t);

/* sysfs.c, stats.c, umap.c: parts of the device's operations */
#define SIB_FW_VERSION	"20.31.1014"
#define SIB_BOARD_ID	"MT_0000000223"
extern const struct ib_device_ops sib_sysfs_ops, sib_stats_ops;
void sib_umap_install(struct ib_device *ib);

/* qp.c */
extern struct workqueue_struct *sib_wq;
extern const struct rvt_operation_params sib_post_parms[];
extern const enum ib_wc_opcode sib_wc_opcode[];
void sib_qp_driver(struct rvt_driver_provided *f);
void sib_kick(struct rvt_qp *qp);

/* packet.c */
struct sib_pkt *sib_pkt_alloc(u32 len);
void sib_gather(struct rvt_sge_state *ss, u8 *to, u32 len);
void sib_sge_start(struct rvt_sge_state *ss, struct rvt_swqe *wqe);

/* recv.c */
void sib_rx(struct sib_dev *d, struct sib_pkt *p);
int sib_recv_take(struct rvt_qp *qp);
void sib_recv_data(struct rvt_qp *qp, void *data, u32 len);
void sib_recv_done(struct rvt_qp *qp, struct ib_wc *wc, bool solicited);

/* ud.c, rc_req.c, rc_rsp.c: run the send queue; receive a packet */
void ud_send(struct sib_dev *d, struct sib_qp *v);
void ud_rx(struct sib_dev *d, struct rvt_qp *qp, struct sib_pkt *p);
void rc_send(struct sib_dev *d, struct sib_qp *v);
void rc_rx(struct sib_dev *d, struct sib_pkt *p);
void rc_reset(struct sib_qp *v);
u32 rc_wire_bytes(const struct sib_pkt *p);

/* portinfo.c */
enum sib_phys { PHYS_POLLING = 2, PHYS_DISABLED = 3, PHYS_LINKUP = 5 };
void pi_init(struct ib_port_info *pi, int portnum);
void pi_link(struct ib_port_info *pi, bool up);
void pi_set(struct ib_port_info *pi, const struct ib_port_info *n, bool has_lid);

static inline u8 pi_state(const struct ib_port_info *pi)
{
	return pi->linkspeed_portstate & 0xf;
}

static inline u8 pi_phys(const struct ib_port_info *pi)
{
	return pi->portphysstate_linkdown >> 4;
}

/* sma.c */
#define SMP_BAD_ATTR	3
#define SMP_BAD_VALUE	7
#define SMP_ATTR_MLNX_EXT_PORT_INFO	cpu_to_be16(0xff90)
void smp_bad(struct ib_smp *s, int status);
void smp_block(struct ib_smp *s, void *table, bool set);
void smp_pkeys(struct ib_smp *s, u16 *table, bool set);
int sib_process_mad(struct ib_device *ib, int flags, u32 port, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in,
		    struct ib_mad *out, size_t *osz, u16 *opk);

/* counters.c, pma.c */
static inline void sib_count(struct sib_counters *c, enum sib_count i)
{
	atomic64_inc(&c->n[i]);
}

static inline void sib_hw(struct sib_dev *d, enum sib_hw i)
{
	atomic64_inc(&d->hw[i]);
}
u32 sib_wire_bytes(const struct sib_pkt *p);
void sib_count_xmit(struct sib_counters *c, const struct sib_pkt *p);
void sib_count_rcv(struct sib_counters *c, const struct sib_pkt *p);
void pma_answer(struct ib_mad *mad, struct sib_counters *ports, int first, int last);

/* cable.c */
extern struct mutex sib_lock;		/* port table changes and both SMAs */
extern struct sib_dev *sib_port[SIB_SWPORTS + 1];
int fabric_plug(struct sib_dev *d);
void fabric_unplug(struct sib_dev *d);
void fabric_link(struct sib_dev *d, bool wanted);
void fabric_isl_link(int i, bool up);

/* switch.c */
int fabric_init(void);
void fabric_exit(void);
void fabric_xmit(struct sib_dev *d, struct sib_pkt *p);
void fabric_rx(int in, struct sib_pkt *p);

/* isl.c */
int isl_start(char *peers);
void isl_stop(void);
void isl_send(int i, struct sib_pkt *p);

#endif
