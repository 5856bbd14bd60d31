// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The module: general parameters, initialization and exit. */
#include "softib.h"

int sib_debug;
module_param_named(debug, sib_debug, int, 0644);
MODULE_PARM_DESC(debug, "1: log management packets and drops");
int sib_nodeid;
module_param_named(nodeid, sib_nodeid, int, 0444);
MODULE_PARM_DESC(nodeid, "number that makes GUIDs unique among the kernels of one fabric");
char *sib_devname = "mlx5_%d";
module_param_named(devname, sib_devname, charp, 0444);
MODULE_PARM_DESC(devname, "pattern of the RDMA device names");
bool sib_virt;
module_param_named(virt, sib_virt, bool, 0444);
MODULE_PARM_DESC(virt, "1: VFs stay down, as under a subnet manager without virtualization");
static int nsw;
module_param(nsw, int, 0444);
MODULE_PARM_DESC(nsw, "number of HCAs without a PCI function");
static char *isl = "";
module_param(isl, charp, 0444);
MODULE_PARM_DESC(isl, "IPv4 addresses of the kernels to link the switch to, comma separated");

static struct sib_dev *bare[SIB_HCAPORTS];	/* the HCAs without a PCI function */

static int bare_start(void)
{
	int i;

	for (i = 0; i < nsw && i < SIB_HCAPORTS; i++) {
		u64 guid = 0x0c42a10300aa0000ULL + ((u64)sib_nodeid << 24) + i;
		struct sib_guids g = { .node = guid, .port = guid, .image = guid };
		struct sib_dev *d = sib_create(NULL, &g, true);

		if (IS_ERR(d))
			return PTR_ERR(d);
		bare[i] = d;
	}
	return 0;
}

/* Safe for parts that were never started; nothing sends any more once the HCAs are gone. */
static void all_down(void)
{
	int i;

	for (i = 0; i < SIB_HCAPORTS; i++)
		if (bare[i])
			sib_destroy(bare[i]);
	isl_stop();
	fabric_exit();
	destroy_workqueue(sib_wq);
}

static int __init sib_init(void)
{
	int ret;

	sib_wq = alloc_workqueue("softib", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!sib_wq)
		return -ENOMEM;
	ret = fabric_init();
	if (ret) {
		destroy_workqueue(sib_wq);
		return ret;
	}
	if (*isl)
		ret = isl_start(isl);
	if (!ret)
		ret = bare_start();
	if (!ret)
		ret = pci_start();
	if (ret)
		all_down();
	return ret;
}

static void __exit sib_exit(void)
{
	pci_stop();
	all_down();
}

module_init(sib_init);
module_exit(sib_exit);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("software InfiniBand HCAs and switch for tests");
