#!/bin/bash
# A namespace is deleted under RDMA traffic: its device returns with a new interface, P_Key children are gone.
. /lab/guest/fabric.sh
set -euo pipefail

partitions "t1=0x1, ipoib : $(plain_guid 0 0 2)=full, $(plain_guid 1 0 2)=full;"
reload_opensm
vf=$(vf 0 0)
device=$(rdma_of "$vf")
other=$(rdma_of "$(vf 1 0)")
ip netns add a
ip netns add b
netdev=$(give "$vf" a 10.0.0.1/24)
give "$(vf 1 0)" b 10.0.0.2/24
ip -n a link add link "$netdev" name child type ipoib pkey 0x8001
ip -n a link set child up
wait_for 20 carrier a child
wait_for 20 ip netns exec b ping -c 1 -W 1 10.0.0.1

ip netns exec a ibv_rc_pingpong -d "$device" -n 1000000 >/tmp/server 2>&1 &
server=$!
sleep 1
timeout 7 ip netns exec b ibv_rc_pingpong -d "$other" -n 1000000 10.0.0.1 >/tmp/client 2>&1 &
client=$!
sleep 1
kill $server
wait $server || true
ip netns del a

came_back() { [ "$(rdma_of "$vf")" = "$device" ] && [ -n "$(netdev_of "$vf")" ]; }
wait_for 20 came_back
must_fail ip link show dev child
expect "RDMA devices here" "$(rdma dev show | wc -l)" $((2 + 2 * VFS - 1))
# It fails when its retries are exhausted, or waits forever if it had nothing to send.
if wait $client; then die "the client succeeded although the server namespace is gone"; fi
ip netns del b
came_back_b() { [ "$(rdma_of "$(vf 1 0)")" = "$other" ]; }
wait_for 20 came_back_b
expect "RDMA devices here" "$(rdma dev show | wc -l)" $((2 + 2 * VFS))
partitions
reload_opensm
