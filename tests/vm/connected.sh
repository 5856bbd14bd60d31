#!/bin/bash
# IPoIB in connected mode with an MTU of 65520, and a ping flood without loss.
. /lab/guest/fabric.sh
set -euo pipefail

vf_a=$(vf 0 0) vf_b=$(vf 1 0)
ip netns add a
ip netns add b
for pod in "a $vf_a 10.0.0.1" "b $vf_b 10.0.0.2"; do
	read -r ns vf address <<<"$pod"
	netdev=$(give "$vf" "$ns" "$address/24")
	ip netns exec "$ns" bash -c "echo connected >/sys/class/net/$netdev/mode"
	ip -n "$ns" link set "$netdev" mtu 65520
	ip -d -n "$ns" link show dev "$netdev" | grep -q "mtu 65520 .*"
done
wait_for 20 ip netns exec b ping -c 1 -W 1 10.0.0.1
ip netns exec a ping -q -c 3 -s 30000 -W 3 10.0.0.2
ip netns exec a ping -q -f -c 500 10.0.0.2 | grep " 0% packet loss"
ip netns del a
ip netns del b
back() { rdma_of "$vf_a" && rdma_of "$vf_b"; }
wait_for 20 back
