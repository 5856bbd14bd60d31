#!/bin/bash
# limit 120
# Two functions are rebound many times: names, GUIDs and links are restored each time.
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

# A failed bind leaves the function without a driver; the next bind succeeds
vf=$(vf 0 0)
echo "$vf" >/sys/bus/pci/drivers/mlx5_core/unbind
echo 1 >/sys/module/softib/parameters/fail_probe
must_fail bash -c "echo $vf >/sys/bus/pci/drivers/mlx5_core/bind"
must_fail test -e "$PCI/$vf/driver"
echo "$vf" >/sys/bus/pci/drivers/mlx5_core/bind
wait_for 20 all_active
