#!/bin/bash
# IPoIB children with a P_Key: members reach each other, others do not; a partition change takes effect at run time.
. /lab/guest/fabric.sh
set -euo pipefail

member() { echo "$(plain_guid "$1" "$2" 2)=full"; }
partitions "t1=0x1, ipoib : $(member 0 0), $(member 1 0);"
reload_opensm
lost_pkey() { ! has_pkey "$1" "$2"; }

i=1
for pod in "a 0 0" "b 1 0" "c 0 1"; do
	read -r ns p v <<<"$pod"
	ip netns add "$ns"
	vf=$(vf "$p" "$v")
	netdev=$(netdev_of "$vf")
	ip link add link "$netdev" name child type ipoib pkey 0x8001
	ip -d link show dev child | grep -q "ipoib pkey 0x8001"
	ip link set "$netdev" up
	ip link set child netns "$ns"
	ip -n "$ns" addr add 10.8.0.$i/24 dev child
	ip -n "$ns" link set child up
	i=$((i + 1))
done

wait_for 20 carrier a child
wait_for 20 carrier b child
ip netns exec a ping -q -c 3 -W 3 10.8.0.2
must_fail carrier c child
must_fail ip netns exec c ping -q -c 2 -W 1 10.8.0.1
lid=$(cat "/sys/class/infiniband/$(rdma_of "$(vf 0 0)")/ports/1/lid")
diagnose smpquery pkeys $((lid)) 1 | grep -q 0x8001

# b leaves, c joins
partitions "t1=0x1, ipoib : $(member 0 0), $(member 0 1);"
reload_opensm
wait_for 20 has_pkey "$(rdma_of "$(vf 0 1)")" 0x8001
wait_for 20 lost_pkey "$(rdma_of "$(vf 1 0)")" 0x8001
wait_for 20 carrier c child
ip netns exec a ping -q -c 3 -W 3 10.8.0.3
must_fail ip netns exec a ping -q -c 2 -W 1 10.8.0.2

for ns in a b c; do
	ip -n $ns link del child
	ip netns del $ns
done
for vf in "$(vf 0 0)" "$(vf 1 0)" "$(vf 0 1)"; do
	ip link set "$(netdev_of "$vf")" down
done
partitions
reload_opensm
