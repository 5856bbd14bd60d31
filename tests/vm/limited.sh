#!/bin/bash
# Limited members of a partition reach full members but not each other, over IPoIB and over verbs.
. /lab/guest/fabric.sh
set -euo pipefail

partitions "t2=0x2, ipoib : $(plain_guid 0 0 2)=full, $(plain_guid 0 1 2)=limited, $(plain_guid 1 0 2)=limited;"
reload_opensm
full=$(rdma_of "$(vf 0 0)") one=$(rdma_of "$(vf 0 1)") other=$(rdma_of "$(vf 1 0)")
wait_for 20 has_pkey "$full" 0x8002
wait_for 20 has_pkey "$one" 0x0002
wait_for 20 has_pkey "$other" 0x0002

# Verbs: a connection in that partition. All devices are in this namespace.
verbs 0x2 "$full" "$one"
verbs 0x2 "$other" "$full"
must_fail verbs 0x2 "$one" "$other"

# IPoIB: a limited member cannot join the partition's broadcast group as a full one can; ping shows who is reachable.
i=1
for pod in "full 0 0" "one 0 1" "other 1 0"; do
	read -r ns p v <<<"$pod"
	ip netns add "$ns"
	netdev=$(netdev_of "$(vf "$p" "$v")")
	ip link set "$netdev" up
	ip link add link "$netdev" name child type ipoib pkey 0x8002
	ip link set child netns "$ns"
	ip -n "$ns" addr add 10.9.0.$i/24 dev child
	ip -n "$ns" link set child up
	i=$((i + 1))
done
wait_for 20 carrier full child
wait_for 20 carrier one child
wait_for 20 carrier other child
ip netns exec one ping -q -c 2 -W 3 10.9.0.1
ip netns exec other ping -q -c 2 -W 3 10.9.0.1
must_fail ip netns exec one ping -q -c 2 -W 1 10.9.0.3

for ns in full one other; do
	ip -n $ns link del child
	ip netns del $ns
done
for vf in "$(vf 0 0)" "$(vf 0 1)" "$(vf 1 0)"; do
	ip link set "$(netdev_of "$vf")" down
done
partitions
reload_opensm
