// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * A devlink instance per PCI function, with what device plugins read: the eswitch
 * mode, the parameter enable_rdma, versions.
 */
#include <linux/version.h>
#include <net/devlink.h>
#include "softib.h"

static int info_get(struct devlink *dl, struct devlink_info_req *req, struct netlink_ext_ack *ack)
{
	int ret = 0;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)	/* later kernels add it in the core */
	ret = devlink_info_driver_name_put(req, dev_driver_string(devlink_to_dev(dl)));
#endif
	if (!ret)
		ret = devlink_info_version_fixed_put(req, "fw.psid", SIB_BOARD_ID);
	if (!ret)
		ret = devlink_info_version_running_put(req, "fw.version", SIB_FW_VERSION);
	return ret;
}

static int eswitch_mode_get(struct devlink *dl, u16 *mode)
{
	struct pci_dev *pdev = to_pci_dev(devlink_to_dev(dl));

	if (pdev->is_virtfn)
		return -EOPNOTSUPP;
	*mode = DEVLINK_ESWITCH_MODE_LEGACY;
	return 0;
}

static const struct devlink_ops ops = {
	.info_get = info_get,
	.eswitch_mode_get = eswitch_mode_get,
};

static const struct devlink_param params[] = {
	DEVLINK_PARAM_GENERIC(ENABLE_RDMA, BIT(DEVLINK_PARAM_CMODE_DRIVERINIT), NULL, NULL, NULL),
};

static int params_start(struct devlink *dl)
{
	union devlink_param_value on = { .vbool = true };
	int ret = devlink_params_register(dl, params, ARRAY_SIZE(params));

	if (ret)
		return ret;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	devlink_param_driverinit_value_set(dl, DEVLINK_PARAM_GENERIC_ID_ENABLE_RDMA, on);
#else
	devl_lock(dl);
	/* Newer kernels take the value's address. */
	devl_param_driverinit_value_set(dl, DEVLINK_PARAM_GENERIC_ID_ENABLE_RDMA,
		_Generic(&devl_param_driverinit_value_set,
			 void (*)(struct devlink *, u32, union devlink_param_value): on, default: &on));
	devl_unlock(dl);
#endif
	return 0;
}

int sib_devlink_start(struct sib_dev *d)
{
	struct devlink *dl = devlink_alloc(&ops, sizeof(void *), &d->pdev->dev);
	int ret;

	if (!dl)
		return -ENOMEM;
	ret = params_start(dl);
	if (ret) {
		devlink_free(dl);
		return ret;
	}
	devlink_register(dl);
	d->devlink = dl;
	return 0;
}

void sib_devlink_stop(struct sib_dev *d)
{
	devlink_unregister(d->devlink);
	devlink_params_unregister(d->devlink, params, ARRAY_SIZE(params));
	devlink_free(d->devlink);
}
