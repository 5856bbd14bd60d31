#!/bin/bash
# peers
# limit 240
# Unmodified upstream plugins on the soft adapters: they show that the emulation behaves like hardware.
. /lab/guest/fabric.sh
. /lab/guest/cni.sh
set -euo pipefail

call_peer() { call "$PEERS" "$@"; }
add() { # POD CONFIG: ADD, then CHECK with its result; prints the result
	local result
	result=$(call_peer ADD "$1" "$2") || die "ADD $1: $result"
	call_peer CHECK "$1" "$(with "$2" "$result")" >/dev/null 2>/tmp/check || die "CHECK $1: $(cat /tmp/check)"
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
check_ping() { # assigns 10.1.0.1 and 10.1.0.2 where no IPAM did
	ip -n a addr replace 10.1.0.1/24 dev net1
	ip -n b addr replace 10.1.0.2/24 dev net1
	wait_for 20 carrier a net1
	wait_for 20 carrier b net1
	wait_for 20 ip netns exec a ping -c 1 -W 1 10.1.0.2
}
pingpong() {
	local server
	timeout $((30 * TIMEOUT_FACTOR)) ip netns exec a ibv_rc_pingpong -d "$1" -n 100 >/tmp/server 2>&1 &
	server=$!
	listening() { ip netns exec a ss -tlnH | grep -q .; }
	wait_for 10 listening
	timeout $((30 * TIMEOUT_FACTOR)) ip netns exec b ibv_rc_pingpong -d "$2" -n 100 10.1.0.1 >/tmp/client 2>&1 ||
		die "ibv_rc_pingpong: $(tail -1 /tmp/client)"
	wait $server
}

# ipoib without IPAM and with host-local
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
	check_ping
	call_peer DEL a "$config_a"
	call_peer DEL b "$config_b"
	must_fail ip -n a link show dev net1
	pods_down
	echo "ipoib with ipam $ipam: ok"
done
ip link set ib0 down
ip link set ib1 down

# ib-sriov: plain, with GUIDs, with the RDMA device moved along, with both
guids() { ip -d link show dev ib0 | grep "vf 0 " | grep -oE '(NODE|PORT)_GUID [0-9a-f:]+' | tr '\n' ' '; }
vf_a=$(vf 0 0) vf_b=$(vf 1 0)
device_a=$(rdma_of "$vf_a") device_b=$(rdma_of "$vf_b")
netdev_a=$(netdev_of "$vf_a")
guid_prefix=02:00:00:00:00:77:00
for case in "none false" "guid false" "none true" "guid true"; do
	read -r guid isolated <<<"$case"
	pods_up
	for pod in a b; do
		vf=$([ $pod = a ] && echo "$vf_a" || echo "$vf_b")
		runtime=$([ $guid = none ] || echo ',"runtimeConfig":{"infinibandGUID":"'$guid_prefix:$([ $pod = a ] && echo 01 || echo 02)'"}')
		config='{"cniVersion":"0.4.0","name":"ib","type":"ib-sriov","deviceID":"'$vf'","rdmaIsolation":'$isolated$runtime'}'
		declare "config_$pod=$config"
		add $pod "$config" >/tmp/$pod.json
	done
	[ $guid = none ] || expect "GUID in the pod" "$(inside a .address | cut -c37-59)" "$guid_prefix:01"
	if [ "$isolated" = true ]; then
		expect "RDMA devices in the pod" "$(ip netns exec a rdma dev show | wc -l)" 1
		must_fail test -e "/sys/class/infiniband/$device_a"
	fi
	check_ping
	[ "$isolated" = false ] || pingpong "$device_a" "$device_b"
	call_peer DEL a "$config_a"
	call_peer DEL b "$config_b"
	expect "device back" "$(rdma_of "$vf_a")" "$device_a"
	expect "interface back" "$(netdev_of "$vf_a")" "$netdev_a"
	pods_down
	echo "ib-sriov, GUID $guid, isolated $isolated: ok; GUIDs now $(guids)"
done

# rdma, chained after a result that names the interface
pods_up
config='{"cniVersion":"0.4.0","name":"ib","type":"rdma","deviceID":"'$vf_a'"}'
result='{"cniVersion":"0.4.0","interfaces":[{"name":"net1","mac":"","sandbox":"/run/netns/a"}],"ips":[]}'
call_peer ADD a "$(with "$config" "$result")" >/dev/null
must_fail test -e "/sys/class/infiniband/$device_a"
expect "RDMA device in the pod" "$(ip netns exec a ls /sys/class/infiniband)" "$device_a"
call_peer DEL a "$(with "$config" "$result")"
expect "RDMA device back" "$(rdma_of "$vf_a")" "$device_a"
pods_down
echo "rdma: ok"

# ib-sriov does not restore the node GUID.
vfs_guids 0
vfs_guids 1
