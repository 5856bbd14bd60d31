#!/bin/bash
# limit 120
# The module is unloaded and loaded again. With virt=1 virtual functions stay down, as under a subnet manager without
# virtualization support.
. /lab/guest/fabric.sh
set -euo pipefail

all_gone() {
	adapters_down
	expect "devices" "$(ls /sys/class/infiniband)" ""
}
stop_opensm
all_gone
# Functions keep the IDs they were shown with, and the driver matches them.
# shellcheck disable=SC2086
insmod /lab/softib.ko nsw=4 $CONNECTX
expect "adapters, and devices without PCI" "$(ls /sys/class/infiniband | wc -l)" 6
rmmod softib

adapters_up virt=1
start_opensm
pfs_active() { [ "$(port_state mlx5_0)$(port_state mlx5_1)" = ACTIVEACTIVE ]; }
wait_for 30 pfs_active
expect "VF with virt=1" "$(port_state "$(rdma_of "$(vf 0 0)")")" DOWN
stop_opensm
all_gone

adapters_up
start_opensm
wait_for 60 all_active
