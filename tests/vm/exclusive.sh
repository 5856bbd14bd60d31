#!/bin/bash
# RDMA devices belong to one network namespace: moved with their interface, seen and opened only there, and returned.
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
# Up to 6.16 the interface is made anew in the first namespace, under its old name; from 6.17 on in that of its RDMA device,
# where the lowest name is free.
inside=$(give "$vf" a 10.0.0.1/24)
[ "$inside" = "$netdev" ] || [ "$inside" = ib0 ] || die "interface in the namespace: $inside"
echo "the interface was $netdev and is $inside"
give "$(vf 1 0)" b 10.0.0.2/24

refuse test -e "/sys/class/infiniband/$device"
refuse rdma dev show "$device"
refuse ibv_devinfo -d "$device"
(refuse can_open)
ip netns exec a rdma dev show "$device"
ip netns exec a ibv_devinfo -d "$device" | grep -q "$device"
expect "devices in the namespace" "$(ip netns exec a rdma dev show | wc -l)" 1
expect "devices of ibv in the namespace" "$(ip netns exec a ibv_devices | grep -c mlx5)" 1
ip netns exec a bash -c "exec 9</dev/infiniband/$uverbs"

wait_for 20 carrier a "$inside"
wait_for 20 carrier b "$(ip netns exec b ls "$PCI/$(vf 1 0)/net")"
ip netns exec a ping -q -c 3 -W 3 10.0.0.2

# Back: the RDMA device again first. rdma takes names under /var/run/netns only, hence the way up from there.
for ns in a b; do
	name=$(ip netns exec $ns rdma dev show | grep -oE 'mlx5_[0-9]+')
	ip netns exec $ns rdma dev set "$name" netns ../../proc/$$/ns/net
	ip netns del $ns
done
expect "device back" "$(rdma_of "$vf")" "$device"
test -n "$(netdev_of "$vf")" # its name is the lowest that is free at that time
(can_open)
