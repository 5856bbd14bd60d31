#!/bin/bash
# needs ferroband-cni
# limit 150
# Ferroband's CNI plugins `ib-sriov` and `rdma` without the daemon, on virtual functions; checked with ip, rdma, verbs.
. /lab/guest/fabric.sh
. /lab/guest/cni.sh
set -euo pipefail

link_plugins ib-sriov rdma
call_plugin() { call "$PLUGINS" "$@"; }
inside() { ip -n "$1" -j -d link show dev net1 | jq -r ".[0]$2"; }
vf_a=$(vf 0 0) vf_b=$(vf 1 0)
device_a=$(rdma_of "$vf_a") device_b=$(rdma_of "$vf_b")
netdev_a=$(netdev_of "$vf_a")
host_state() { ip -br link | awk '{ print $1 }' | sort | tr '\n' ' '; rdma dev | wc -l; ip -d link show dev ib0 | grep "vf 0 "; }
before=$(host_state)
guid_prefix=02:00:00:00:00:77:00
for case in "none false" "guid false" "none true" "guid true"; do
	read -r guid isolated <<<"$case"
	for pod in a b; do
		ip netns add $pod
		vf=$([ $pod = a ] && echo "$vf_a" || echo "$vf_b")
		runtime=$([ $guid = none ] || echo ',"runtimeConfig":{"infinibandGUID":"'$guid_prefix:$([ $pod = a ] && echo 01 || echo 02)'"}')
		config='{"cniVersion":"1.0.0","name":"ib","type":"ib-sriov","deviceID":"'$vf'","rdmaIsolation":'$isolated',"link_state":"enable"'$runtime'}'
		declare "config_$pod=$config"
		result=$(call_plugin ADD $pod "$config") || die "ADD ($case): $result"
		call_plugin CHECK $pod "$(with "$config" "$result")" || die "CHECK ($case)"
	done
	expect "link state" "$(ip -d link show dev ib0 | grep "vf 0 " | grep -oE 'link-state [a-z]+')" "link-state enable"
	expect "mac in the result" "$(jq -r '.interfaces[0].mac' <<<"$result")" "$(inside b .address)"
	[ $guid = none ] || expect "GUID in the pod" "$(inside a .address | cut -c37-59)" "$guid_prefix:01"
	# Case: cni 118
	# The mac has 20 bytes; the last eight are the requested GUID.
	mac=$(jq -r '.interfaces[0].mac' <<<"$result")
	expect "length of the mac" "$(tr -cd : <<<"$mac" | wc -c)" 19
	[ $guid = none ] || expect "GUID in the mac" "$(cut -d: -f13-20 <<<"$mac")" "$guid_prefix:02"
	ip -n a addr add 10.1.0.1/24 dev net1
	ip -n b addr add 10.1.0.2/24 dev net1
	wait_for 20 carrier a net1
	wait_for 20 carrier b net1
	wait_for 20 ip netns exec a ping -c 1 -W 1 10.1.0.2
	if [ "$isolated" = true ]; then
		expect "RDMA devices in the pod" "$(ip netns exec a rdma dev show | wc -l)" 1
		expect "devices of ibv in the pod" "$(ip netns exec a ibv_devices | grep -c mlx5)" 1
		must_fail test -e "/sys/class/infiniband/$device_a"
		ip -n a link set lo up
		timeout $((30 * TIMEOUT_FACTOR)) ip netns exec a ibv_rc_pingpong -d "$device_a" -n 100 >/tmp/server 2>&1 &
		server=$!
		listening() { ip netns exec a ss -tlnH | grep -q .; }
		wait_for 10 listening
		timeout $((30 * TIMEOUT_FACTOR)) ip netns exec b ibv_rc_pingpong -d "$device_b" -n 100 10.1.0.1 >/tmp/client 2>&1 ||
			die "ibv_rc_pingpong: $(tail -1 /tmp/client)"
		wait $server
	fi
	call_plugin DEL a "$config_a" || die "DEL ($case)"
	call_plugin DEL a "$config_a" || die "DEL again ($case)"
	call_plugin DEL b "$config_b" || die "DEL ($case)"
	ip netns del a
	ip netns del b
	expect "the host after DEL ($case)" "$(host_state)" "$before"
	expect "interface back" "$(netdev_of "$vf_a")" "$netdev_a"
done

# The namespace is deleted first; another pod gets the function before the late DEL
isolated_a=$(jq -c '.rdmaIsolation = true' <<<"$config_a")
ip netns add a
call_plugin ADD a "$isolated_a" >/dev/null
ip netns del a
back() { [ "$(rdma_of "$vf_a")" = "$device_a" ] && [ -n "$(netdev_of "$vf_a")" ]; }
wait_for 20 back
ip netns add c
call_plugin ADD c "$isolated_a" >/tmp/c.json || die "ADD after the namespace was deleted: $(cat /tmp/c.json)"
call_plugin DEL a "$isolated_a" /run/netns/a || die "late DEL"
expect "RDMA devices of the next pod" "$(ip netns exec c rdma dev show | wc -l)" 1
expect "GUID of the next pod" "$(inside c .address | cut -c37-59)" "$guid_prefix:01"
call_plugin DEL c "$isolated_a"
ip netns del c
expect "the host after a deleted namespace" "$(host_state)" "$before"

# The pod already has an interface of that name: ADD returns an error and changes nothing
ip netns add a
ip -n a link add net1 type dummy
call_plugin ADD a "$isolated_a" >/tmp/error.json && die "ADD over an interface succeeds"
jq -e '.code > 0 and (.msg | length > 0)' /tmp/error.json >/dev/null || die "error: $(cat /tmp/error.json)"
call_plugin DEL a "$isolated_a" || die "DEL after a failed ADD"
expect "existing net1" "$(inside a .linkinfo.info_kind)" dummy
ip netns del a
expect "the host after a failed ADD" "$(host_state)" "$before"

# rdma, chained after a result that names the interface
ip netns add a
config='{"cniVersion":"1.0.0","name":"ib","type":"rdma","deviceID":"'$vf_a'"}'
config=$(with "$config" '{"cniVersion":"1.0.0","interfaces":[{"name":"net1","mac":"","sandbox":"/run/netns/a"}],"ips":[]}')
call_plugin ADD a "$config" >/tmp/a.json || die "rdma ADD: $(cat /tmp/a.json)"
expect "RDMA device in the pod" "$(ip netns exec a ls /sys/class/infiniband)" "$device_a"
call_plugin DEL a "$config"
expect "RDMA device back" "$(rdma_of "$vf_a")" "$device_a"
ip netns del a
expect "the host after rdma" "$(host_state)" "$before"
