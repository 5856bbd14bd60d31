// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The PCI functions below the HCAs. QEMU's igb and nvme are used because they have
 * SR-IOV; only their configuration space is used, no BAR and no interrupt.
 */
#include <linux/delay.h>
#include "softib.h"

static char *drvname = "softib";
module_param(drvname, charp, 0444);
MODULE_PARM_DESC(drvname, "name of the PCI driver in sysfs, e.g. mlx5_core");
static int probe_ms, remove_ms, fail_probe;
module_param(probe_ms, int, 0644);
MODULE_PARM_DESC(probe_ms, "additional milliseconds per bind, like slow firmware");
module_param(remove_ms, int, 0644);
MODULE_PARM_DESC(remove_ms, "additional milliseconds per unbind");
module_param(fail_probe, int, 0644);
MODULE_PARM_DESC(fail_probe, "number of next binds that fail with EIO");

/* The GUIDs of a function: burnt in, or set for the VF through its PF. */
static int hca_guids(struct pci_dev *pdev, struct sib_guids *g, bool *up)
{
	struct pci_dev *physfn = pci_physfn(pdev);
	u64 burnt = 0x0c42a10300000000ULL | (u64)sib_nodeid << 24 | (u64)pci_dev_id(physfn) << 8;
	struct sib_dev *pf;
	int vf;

	*g = (struct sib_guids) { .node = burnt, .port = burnt, .image = burnt };
	*up = true;
	if (!pdev->is_virtfn)
		return 0;
	pf = pci_get_drvdata(physfn);
	vf = pci_iov_vf_id(pdev);
	if (!pf || vf < 0 || vf >= SIB_MAXVF)
		return -ENODEV;
	g->node = pf->vf[vf].node_guid;
	g->port = pf->vf[vf].port_guid;
	*up = sib_vf_wants_link(&pf->vf[vf]);
	return 0;
}

static int hca_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct sib_guids guids;
	struct sib_dev *d;
	bool up;
	int ret;

	identity_show(pdev);
	if (probe_ms > 0)
		msleep(probe_ms);
	if (fail_probe > 0) {
		fail_probe--;
		return -EIO;
	}
	ret = hca_guids(pdev, &guids, &up);
	if (ret)
		return ret;
	d = sib_create(pdev, &guids, up);
	if (IS_ERR(d))
		return PTR_ERR(d);
	ret = sib_devlink_start(d);
	if (ret) {
		sib_destroy(d);
		return ret;
	}
	pci_set_drvdata(pdev, d);
	return 0;
}

static void hca_remove(struct pci_dev *pdev)
{
	struct sib_dev *d = pci_get_drvdata(pdev);

	if (!pdev->is_virtfn)
		pci_disable_sriov(pdev);
	if (remove_ms > 0)
		msleep(remove_ms);
	sib_devlink_stop(d);
	sib_destroy(d);
	pci_set_drvdata(pdev, NULL);
}

static int hca_sriov(struct pci_dev *pdev, int n)
{
	struct sib_dev *d = pci_get_drvdata(pdev);
	int ret;

	if (!n) {
		pci_disable_sriov(pdev);
		memset(d->vf, 0, sizeof(d->vf));
		return 0;
	}
	if (n > SIB_MAXVF)
		return -ERANGE;
	ret = pci_enable_sriov(pdev, n);
	return ret ? ret : n;
}

static const struct pci_device_id pci_ids[] = {
	{ PCI_DEVICE(0x8086, 0x10c9) },		/* QEMU igb: PF, VF */
	{ PCI_DEVICE(0x8086, 0x10ca) },
	{ PCI_DEVICE(0x1b36, 0x0010) },		/* QEMU nvme: PF and VF */
	{ }
};

static struct pci_driver pci_driver = {
	.id_table = pci_ids,
	.probe = hca_probe,
	.remove = hca_remove,
	.sriov_configure = hca_sriov,
};

/* Spoof new VFs before user space sees them, also if no driver is bound to them. */
static int on_bus(struct notifier_block *nb, unsigned long action, void *data)
{
	struct pci_dev *pdev = to_pci_dev(data);

	if (action == BUS_NOTIFY_ADD_DEVICE && pdev->is_virtfn &&
	    pci_physfn(pdev)->driver == &pci_driver)
		identity_show(pdev);
	return NOTIFY_DONE;
}

static struct notifier_block bus_watch = { .notifier_call = on_bus };

void pci_stop(void)
{
	pci_unregister_driver(&pci_driver);
	bus_unregister_notifier(&pci_bus_type, &bus_watch);
}

int pci_start(void)
{
	int ret;

	pci_driver.name = drvname;
	ret = bus_register_notifier(&pci_bus_type, &bus_watch);
	if (ret)
		return ret;
	ret = pci_register_driver(&pci_driver);
	if (ret)
		bus_unregister_notifier(&pci_bus_type, &bus_watch);
	else if ((ret = identity_match(&pci_driver)))
		pci_stop();
	return ret;
}
