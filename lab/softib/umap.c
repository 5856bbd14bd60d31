// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Queues mapped into a process outlive the device when it is unbound or moved to
 * another netns. rdmavt's unmapping would then follow dangling pointers to the
 * context and the device; this one needs neither.
 */
#include <linux/vmalloc.h>
#include "softib.h"

static int (*rvt_mmap_op)(struct ib_ucontext *uc, struct vm_area_struct *vma);

static void umap_free(struct kref *ref)
{
	struct rvt_mmap_info *ip = container_of(ref, struct rvt_mmap_info, ref);

	if (!list_empty(&ip->pending_mmaps))
		return;		/* resized and never mapped again: leak rather than use a wild pointer */
	vfree(ip->obj);
	kfree(ip);
}

static void umap_open(struct vm_area_struct *vma)
{
	struct rvt_mmap_info *ip = vma->vm_private_data;

	__module_get(THIS_MODULE);	/* uverbs holds no module reference once the device is gone */
	kref_get(&ip->ref);
}

static void umap_close(struct vm_area_struct *vma)
{
	struct rvt_mmap_info *ip = vma->vm_private_data;

	kref_put(&ip->ref, umap_free);
	module_put(THIS_MODULE);
}

static const struct vm_operations_struct umap_ops = {
	.open = umap_open,
	.close = umap_close,
};

static int umap(struct ib_ucontext *uc, struct vm_area_struct *vma)
{
	int ret = rvt_mmap_op(uc, vma);

	if (!ret) {
		__module_get(THIS_MODULE);
		vma->vm_ops = &umap_ops;
	}
	return ret;
}

/* Wraps rdmavt's mmap operation, which is not exported and is set on registration. */
void sib_umap_install(struct ib_device *ib)
{
	rvt_mmap_op = ib->ops.mmap;
	ib->ops.mmap = umap;
}
