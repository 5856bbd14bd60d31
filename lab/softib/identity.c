// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The identity of a PCI function in sysfs and lspci. QEMU's function is a drive or
 * an Ethernet card; with spoof_vendor= it appears as an InfiniBand adapter, also
 * after the driver is unbound, as a real card would.
 */
#include "softib.h"

static int spoof_vendor, spoof_pf, spoof_vf;
module_param(spoof_vendor, int, 0444);
MODULE_PARM_DESC(spoof_vendor, "PCI vendor id to show in sysfs, 0: the true one");
module_param(spoof_pf, int, 0444);
MODULE_PARM_DESC(spoof_pf, "PCI device id to show for physical functions");
module_param(spoof_vf, int, 0444);
MODULE_PARM_DESC(spoof_vf, "PCI device id to show for virtual functions");

#define CLASS_INFINIBAND	0x020700
#define SUBSYSTEM_CX6		0x0008

/*
 * The file sriov_vf_device shows, and a new VF inherits, a private field of the PCI
 * core. It follows two other fields whose values are known from the SR-IOV capability
 * in configuration space; where all three are found in a row, the third is the one.
 */
static void show_vf_device(struct pci_dev *pf)
{
	int cap = pci_find_ext_capability(pf, PCI_EXT_CAP_ID_SRIOV), i;
	u16 *word = (u16 *)pf->sriov, offset, stride, device;

	if (!cap || !word)
		return;
	pci_read_config_word(pf, cap + PCI_SRIOV_VF_OFFSET, &offset);
	pci_read_config_word(pf, cap + PCI_SRIOV_VF_STRIDE, &stride);
	pci_read_config_word(pf, cap + PCI_SRIOV_VF_DID, &device);
	for (i = 0; i < 16; i++)
		if (word[i] == offset && word[i + 1] == stride && word[i + 2] == device) {
			word[i + 2] = spoof_vf;
			return;
		}
}

/* QEMU's functions belong to no NUMA node; adapters of a real machine are spread over them. */
static void show_node(struct pci_dev *pdev)
{
	struct pci_dev *pf = pci_physfn(pdev);
	int nodes = num_online_nodes();

	if (nodes > 1 && dev_to_node(&pdev->dev) == NUMA_NO_NODE)
		set_dev_node(&pdev->dev, (pf->bus->number + nodes - 1) % nodes);
}

void identity_show(struct pci_dev *pdev)
{
	show_node(pdev);
	if (!spoof_vendor)
		return;
	if (!pdev->is_virtfn)
		show_vf_device(pdev);
	pdev->vendor = spoof_vendor;
	pdev->device = pdev->is_virtfn ? spoof_vf : spoof_pf;
	pdev->subsystem_vendor = spoof_vendor;
	pdev->subsystem_device = SUBSYSTEM_CX6;
	pdev->class = CLASS_INFINIBAND;
}

u16 identity_part(bool vf)
{
	if (vf)
		return spoof_vf ?: 0x101c;
	return spoof_pf ?: 0x101b;
}

/* The driver must also match the spoofed IDs, so that a function can be bound again. */
int identity_match(struct pci_driver *driver)
{
	int ret, i;
	int shown[] = { spoof_pf, spoof_vf };

	for (i = 0; spoof_vendor && i < ARRAY_SIZE(shown); i++) {
		ret = pci_add_dynid(driver, spoof_vendor, shown[i], PCI_ANY_ID, PCI_ANY_ID, 0, 0, 0);
		if (ret)
			return ret;
	}
	return 0;
}
