#!/bin/bash
# peers
# limit 240
# The plugins of others, unmodified, on the soft adapters: that is how we know that these are fair.
. /lab/guest/fabric.sh
. /lab/guest/cni.sh
set -euo pipefail

ask() { call "$PEERS" "$@"; }
add() { # POD CONFIG: ADD, CHECK with its result; the result on standard output
	local result
	result=$(ask ADD "$1" "$2") || die "ADD $1: $result"
	ask CHECK "$1" "$(with "$2" "$result")" >/dev/null 2>/tmp/check || die "CHECK $1: $(cat /tmp/check)"
	echo "$result"
}
inside() { ip -n "$1" -j -d link show dev net1 | jq -r ".[0]$2"; }
pods_up() {
	ip netns add a
	ip netns add b
	ip -n a link set lo up
	ip -n b link set lo up
}
pods_down() {
	ip netns del a
	ip netns del b
	whole() { [ "$(ls /sys/class/infiniband | wc -l)" = $((2 + 2 * VFS)) ]; }
	wait_for 20 whole
}
talk() { # ADDRESSES are the pods' own where an IPAM gave some, else given here
	ip -n a addr replace 10.1.0.1/24 dev net1
	ip -n b addr replace 10.1.0.2/24 dev net1
	wait_for 20 carrier a net1
	wait_for 20 carrier b net1
	wait_for 20 ip netns exec a ping -c 1 -W 1 10.1.0.2
}
pingpong() {
	local server
	timeout $((30 * PATIENCE)) ip netns exec a ibv_rc_pingpong -d "$1" -n 100 >/tmp/server 2>&1 &
	server=$!
	listening() { ip netns exec a ss -tlnH | grep -q .; }
	wait_for 10 listening
	timeout $((30 * PATIENCE)) ip netns exec b ibv_rc_pingpong -d "$2" -n 100 10.1.0.1 >/tmp/client 2>&1 ||
		die "ibv_rc_pingpong: $(tail -1 /tmp/client)"
	wait $server
}

# ipoib, without addresses and with those of host-local
ip link set ib0 up
ip link set ib1 up
for ipam in '{}' '{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}]]}'; do
	[ "$ipam" = '{}' ] || test -x "$PEERS/host-local" || continue
	pods_up
	for pod in a b; do
		master=$([ $pod = a ] && echo ib0 || echo ib1)
		config='{"cniVersion":"0.4.0","name":"ib","type":"ipoib","master":"'$master'","ipam":'$ipam'}'
		declare "config_$pod=$config"
		add $pod "$config" >/tmp/$pod.json
	done
	expect kind "$(inside a .linkinfo.info_kind)" ipoib
	talk
	ask DEL a "$config_a"
	ask DEL b "$config_b"
	refuse ip -n a link show dev net1
	pods_down
	echo "ipoib with ipam $ipam: fine"
done
ip link set ib0 down
ip link set ib1 down

# ib-sriov: as it is, with GUIDs, with the RDMA device moved along, with both
guids() { ip -d link show dev ib0 | grep "vf 0 " | grep -oE '(NODE|PORT)_GUID [0-9a-f:]+' | tr '\n' ' '; }
vf_a=$(vf 0 0) vf_b=$(vf 1 0)
device_a=$(rdma_of "$vf_a") device_b=$(rdma_of "$vf_b")
netdev_a=$(netdev_of "$vf_a")
given=02:00:00:00:00:77:00
for case in "none false" "guid false" "none true" "guid true"; do
	read -r guid isolated <<<"$case"
	pods_up
	for pod in a b; do
		vf=$([ $pod = a ] && echo "$vf_a" || echo "$vf_b")
		runtime=$([ $guid = none ] || echo ',"runtimeConfig":{"infinibandGUID":"'$given:$([ $pod = a ] && echo 01 || echo 02)'"}')
		config='{"cniVersion":"0.4.0","name":"ib","type":"ib-sriov","deviceID":"'$vf'","rdmaIsolation":'$isolated$runtime'}'
		declare "config_$pod=$config"
		add $pod "$config" >/tmp/$pod.json
	done
	[ $guid = none ] || expect "GUID in the pod" "$(inside a .address | cut -c37-59)" "$given:01"
	if [ "$isolated" = true ]; then
		expect "RDMA devices in the pod" "$(ip netns exec a rdma dev show | wc -l)" 1
		refuse test -e "/sys/class/infiniband/$device_a"
	fi
	talk
	[ "$isolated" = false ] || pingpong "$device_a" "$device_b"
	ask DEL a "$config_a"
	ask DEL b "$config_b"
	expect "device back" "$(rdma_of "$vf_a")" "$device_a"
	expect "interface back" "$(netdev_of "$vf_a")" "$netdev_a"
	pods_down
	echo "ib-sriov, GUID $guid, isolated $isolated: fine; then $(guids)"
done

# rdma, after a result that names the interface
pods_up
config='{"cniVersion":"0.4.0","name":"ib","type":"rdma","deviceID":"'$vf_a'"}'
result='{"cniVersion":"0.4.0","interfaces":[{"name":"net1","mac":"","sandbox":"/run/netns/a"}],"ips":[]}'
ask ADD a "$(with "$config" "$result")" >/dev/null
refuse test -e "/sys/class/infiniband/$device_a"
expect "RDMA device in the pod" "$(ip netns exec a ls /sys/class/infiniband)" "$device_a"
ask DEL a "$(with "$config" "$result")"
expect "RDMA device back" "$(rdma_of "$vf_a")" "$device_a"
pods_down
echo "rdma: fine"

# What ib-sriov does not put back by itself: the node's GUID.
vfs_guids 0
vfs_guids 1
