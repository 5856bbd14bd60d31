// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* PortInfo of HCA ports and switch ports. */
#include "softib.h"

void pi_init(struct ib_port_info *pi, int portnum)
{
	memset(pi, 0, sizeof(*pi));
	pi->gid_prefix = cpu_to_be64(0xfe80000000000000ULL);
	pi->cap_mask = cpu_to_be32(IB_PORT_SYS_IMAGE_GUID_SUP | IB_PORT_CLIENT_REG_SUP |
				   IB_PORT_SL_MAP_SUP | IB_PORT_TRAP_SUP);
	pi->local_port_num = portnum;
	pi->link_width_enabled = 2;			/* 4x */
	pi->link_width_supported = 2;
	pi->link_width_active = 2;
	pi->linkspeed_portstate = 7 << 4 | IB_PORT_DOWN;
	pi->portphysstate_linkdown = PHYS_POLLING << 4 | 2;
	pi->linkspeedactive_enabled = 4 << 4 | 7;	/* QDR */
	pi->neighbormtu_mastersmsl = IB_MTU_4096 << 4;
	pi->vlcap_inittype = 1 << 4;
	pi->inittypereply_mtucap = IB_MTU_4096;
	pi->operationalvl_pei_peo_fpi_fpo = 1 << 4;
	pi->guid_cap = SIB_NGUIDS;
	pi->resv_resptimevalue = 18;
}

static void pi_set_state(struct ib_port_info *pi, u8 st)
{
	pi->linkspeed_portstate = (pi->linkspeed_portstate & 0xf0) | st;
}

/* One end of a cable: up means INIT; the subnet manager does the rest. */
void pi_link(struct ib_port_info *pi, bool up)
{
	pi_set_state(pi, up ? IB_PORT_INIT : IB_PORT_DOWN);
	pi->portphysstate_linkdown = (up ? PHYS_LINKUP : PHYS_POLLING) << 4 | 2;
}

/* Set(PortInfo): copies the fields a subnet manager may set. has_lid: false for external switch ports. */
void pi_set(struct ib_port_info *pi, const struct ib_port_info *n, bool has_lid)
{
	u8 st = pi_state(n);

	pi->mkey = n->mkey;
	pi->mkey_lease_period = n->mkey_lease_period;
	if (has_lid) {
		pi->gid_prefix = n->gid_prefix;
		pi->lid = n->lid;
		pi->sm_lid = n->sm_lid;
		pi->mkeyprot_resv_lmc = n->mkeyprot_resv_lmc;
		pi->clientrereg_resv_subnetto = n->clientrereg_resv_subnetto & 0x7f;
	}
	pi->neighbormtu_mastersmsl = n->neighbormtu_mastersmsl;
	pi->vl_high_limit = n->vl_high_limit;
	pi->vlstallcnt_hoqlife = n->vlstallcnt_hoqlife;
	pi->operationalvl_pei_peo_fpi_fpo = n->operationalvl_pei_peo_fpi_fpo;
	pi->localphyerrors_overrunerrors = n->localphyerrors_overrunerrors;
	if (pi_phys(pi) != PHYS_LINKUP)
		return;
	if (st == IB_PORT_ARMED || st == IB_PORT_ACTIVE)
		pi_set_state(pi, st);
	else if (st == IB_PORT_DOWN)		/* the link retrains at once */
		pi_set_state(pi, IB_PORT_INIT);
}
