#!/bin/bash
# limit 120
# Many rebinds of two functions: names, GUIDs and links come back each time.
. /lab/guest/fabric.sh
set -euo pipefail

start=$SECONDS
for ((round = 0; round < 12; round++)); do
	rebind "$(vf 0 0)"
	rebind "$(vf 1 1)"
done
echo "24 rebinds in $((SECONDS - start)) s"
wait_for 30 all_active
expect "device" "$(rdma_of "$(vf 0 0)")" mlx5_2

# One that fails leaves a function without driver, which the next bind repairs
vf=$(vf 0 0)
echo "$vf" >/sys/bus/pci/drivers/mlx5_core/unbind
echo 1 >/sys/module/softib/parameters/fail_probe
refuse bash -c "echo $vf >/sys/bus/pci/drivers/mlx5_core/bind"
refuse test -e "$PCI/$vf/driver"
echo "$vf" >/sys/bus/pci/drivers/mlx5_core/bind
wait_for 20 all_active
