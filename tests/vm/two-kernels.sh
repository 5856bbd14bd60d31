#!/bin/bash
# machines 2
# limit 120
# Two kernels in one fabric under one opensm: IPoIB, partitions, RC connections and rdma_cm between them.
. /lab/guest/fabric.sh
set -euo pipefail

switches() { [ "$(diagnose ibswitches | wc -l)" = 2 ]; }
wait_for 60 switches
ip addr add 10.0.0.1/24 dev ib0
ip link set ib0 up
wait_for 60 ping -c 1 -W 1 10.0.0.2
ping -q -c 3 -W 3 10.0.0.2 | grep " 0% packet loss"

echo "IPoIB works; testing the partition"
# Members: the first VF of each machine; the other machine's second VF is not a member
partitions "blue=0x1, ipoib : $(plain_guid 0 0 2)=full, $(GUID_NODE=2 plain_guid 0 0 2)=full;"
reload_opensm
netdev=$(netdev_of "$(vf 0 0)")
ip link set "$netdev" up
ip link add link "$netdev" name blue type ipoib pkey 0x8001
ip addr add 10.8.0.1/24 dev blue
ip link set blue up
wait_for 30 carrier init blue
wait_for 30 ping -c 1 -W 1 10.8.0.2
must_fail ping -q -c 2 -W 1 10.8.0.3

echo "the partition works; testing connections"
# The other machine may not be listening yet
pingpong() { timeout $((10 * TIMEOUT_FACTOR)) ibv_rc_pingpong -d mlx5_0 -n 100 10.0.0.2 | tail -1; }
connections() { timeout $((10 * TIMEOUT_FACTOR)) rping -c -a 10.0.0.2 -C 5 -v -V | tail -1; }
wait_for 60 pingpong
wait_for 60 connections
echo "connections work"

ip link del blue
ip link set "$netdev" down
ip link set ib0 down
ip addr flush dev ib0
partitions
reload_opensm
