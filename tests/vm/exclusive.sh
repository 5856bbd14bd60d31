#!/bin/bash
# In exclusive mode an RDMA device belongs to one network namespace: it is moved with its interface, visible and usable
# only there, and returned.
. /lab/guest/fabric.sh
set -euo pipefail

rdma system show | grep -q "netns exclusive"
vf=$(vf 0 0)
device=$(rdma_of "$vf")
uverbs=$(ls "$PCI/$vf/infiniband_verbs")
netdev=$(netdev_of "$vf")
can_open() { exec 9<"/dev/infiniband/$uverbs"; }

(can_open)
ip netns add a
ip netns add b
# Kernels up to 6.16 re-create the interface in the initial namespace under its old name; from 6.17 on they create it in
# the namespace of its RDMA device, with the lowest free name.
inside=$(give "$vf" a 10.0.0.1/24)
[ "$inside" = "$netdev" ] || [ "$inside" = ib0 ] || die "interface in the namespace: $inside"
echo "the interface was $netdev and is $inside"
give "$(vf 1 0)" b 10.0.0.2/24

must_fail test -e "/sys/class/infiniband/$device"
must_fail rdma dev show "$device"
must_fail ibv_devinfo -d "$device"
(must_fail can_open)
ip netns exec a rdma dev show "$device"
ip netns exec a ibv_devinfo -d "$device" | grep -q "$device"
expect "devices in the namespace" "$(ip netns exec a rdma dev show | wc -l)" 1
expect "devices of ibv in the namespace" "$(ip netns exec a ibv_devices | grep -c mlx5)" 1
ip netns exec a bash -c "exec 9</dev/infiniband/$uverbs"

wait_for 20 carrier a "$inside"
wait_for 20 carrier b "$(ip netns exec b ls "$PCI/$(vf 1 0)/net")"
ip netns exec a ping -q -c 3 -W 3 10.0.0.2

# Back, RDMA device first. rdma accepts only names below /var/run/netns, hence the relative path.
for ns in a b; do
	name=$(ip netns exec $ns rdma dev show | grep -oE 'mlx5_[0-9]+')
	ip netns exec $ns rdma dev set "$name" netns ../../proc/$$/ns/net
	ip netns del $ns
done
expect "device back" "$(rdma_of "$vf")" "$device"
test -n "$(netdev_of "$vf")" # gets the lowest name that is free
(can_open)
