#!/bin/bash
# limit 120
# Virtual functions, then the whole adapter, disappear while a namespace uses them. They return as new devices.
. /lab/guest/fabric.sh
set -euo pipefail

vf=$(vf 1 0)
device=$(rdma_of "$vf")
peer=$(rdma_of "$(vf 0 0)")
take() {
	ip netns add a
	netdev=$(give "$vf" a 10.0.0.1/24)
	ip -n a link add link "$netdev" name child type ipoib pkey 0xffff
	ip -n a link set child up
	wait_for 20 carrier a "$netdev"
	timeout $((60 * TIMEOUT_FACTOR)) ip netns exec a ibv_rc_pingpong -d "$device" -n 10000000 >/tmp/server 2>&1 &
	server=$!
}
gone() {
	expect "devices in the namespace" "$(ip netns exec a rdma dev show | wc -l)" 0
	expect "IPoIB interfaces in the namespace" "$(ip -n a -br link show type ipoib | wc -l)" 0
	kill $server 2>/dev/null || true # it may have ended with its device
	wait $server || true
	ip netns del a
}

take
echo 0 >"$PCI/$(pf 1)/sriov_numvfs"
must_fail test -e "$PCI/$vf"
gone
vfs_up 1
wait_for 30 all_active
expect "the same name" "$(rdma_of "$vf")" "$device"

take
pf=$(pf 1)
echo "$pf" >/sys/bus/pci/drivers/mlx5_core/unbind
must_fail test -e "$PCI/$vf"
gone
echo "$pf" >/sys/bus/pci/drivers/mlx5_core/bind
expect "adapter" "$(rdma_of "$pf") $(netdev_of "$pf")" "mlx5_1 ib1"
vfs_up 1
wait_for 30 all_active
verbs 0xffff "$device" "$peer"
