// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The files of a ConnectX-6 under /sys/class/infiniband/<device>. */
#include "softib.h"

static void fw_str(struct ib_device *ib, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, SIB_FW_VERSION);
}

static ssize_t hca_type_show(struct device *dev, struct device_attribute *a, char *buf)
{
	struct ib_device *ib = container_of(dev, struct ib_device, dev);

	/* mlx5 prints the PCI device id: 4123 a ConnectX-6, 4124 its virtual function */
	return sysfs_emit(buf, "MT%d\n", to_sib(ib)->rdi.dparms.props.vendor_part_id);
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *dev, struct device_attribute *a, char *buf)
{
	return sysfs_emit(buf, SIB_BOARD_ID "\n");
}
static DEVICE_ATTR_RO(board_id);

static ssize_t hw_rev_show(struct device *dev, struct device_attribute *a, char *buf)
{
	return sysfs_emit(buf, "0\n");
}
static DEVICE_ATTR_RO(hw_rev);

static struct attribute *attrs[] = {
	&dev_attr_hca_type.attr, &dev_attr_board_id.attr, &dev_attr_hw_rev.attr, NULL
};
static const struct attribute_group group = { .attrs = attrs };
static const struct attribute_group *port_groups[] = { NULL };	/* rdmavt requires a list */

const struct ib_device_ops sib_sysfs_ops = {
	.device_group = &group,
	.port_groups = port_groups,
	.get_dev_fw_str = fw_str,
};
