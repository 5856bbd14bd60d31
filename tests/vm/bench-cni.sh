#!/bin/bash
# on demand
# peers
# needs ferroband-cni
# limit 900
# Measures ADD and DEL of Ferroband's plugins and of upstream plugins, alternating so that both see the same host load.
# The host turns the lines "BENCH CASE WHO COMMAND MILLISECONDS" into a table.
. /lab/guest/fabric.sh
. /lab/guest/cni.sh
set -euo pipefail

ROUNDS=10
WARM=2 # warm-up rounds: the emulator translates a program when it first starts
link_plugins ipoib ib-sriov rdma
ip link set ib0 up
ip netns add p
vf=$(vf 0 0)
case_ipoib='{"cniVersion":"1.0.0","name":"b","type":"ipoib","master":"ib0","ipam":{}}'
sriov='{"cniVersion":"1.0.0","name":"b","type":"ib-sriov","deviceID":"'$vf'","rdmaIsolation":false}'
guid='{"runtimeConfig":{"infinibandGUID":"02:00:00:00:00:77:00:01"}}'
case_sriov=$sriov
case_sriov_guid=$(jq -c --argjson g "$guid" '. + $g' <<<"$sriov")
case_sriov_isolated=$(jq -c '.rdmaIsolation = true' <<<"$sriov")
case_sriov_guid_isolated=$(jq -c --argjson g "$guid" '. + $g | .rdmaIsolation = true' <<<"$sriov")
result='{"cniVersion":"1.0.0","interfaces":[{"name":"net1","mac":"","sandbox":"/run/netns/p"}],"ips":[]}'
case_rdma=$(with '{"cniVersion":"1.0.0","name":"b","type":"rdma","deviceID":"'"$vf"'"}' "$result")

version='{"cniVersion":"1.0.0"}'
export CNI_CONTAINERID=bench CNI_NETNS=/run/netns/p CNI_IFNAME=net1
time_it() { # CASE WHO FOLDER COMMAND
	local took code
	read -r took code < <(CNI_PATH=$3 CNI_COMMAND=$4 cnirun /tmp/answer /tmp/config "$3/$type")
	if [ "$code" != 0 ]; then
		echo "BENCH-FAILED $1 $2 $4: $(tr '\n' ' ' </tmp/answer)"
		return 1
	fi
	((round < WARM)) || echo "BENCH $1 $2 $4 $took"
}
for case in version ipoib sriov sriov_guid sriov_isolated sriov_guid_isolated rdma; do
	if [ $case = version ]; then
		type=ipoib
		echo "$version" >/tmp/config
	else
		config=case_$case
		echo "${!config}" >/tmp/config
		type=$(jq -r .type /tmp/config)
	fi
	failed=
	for ((round = 0; round < WARM + ROUNDS; round++)); do
		for who in ferroband upstream; do
			folder=$([ $who = ferroband ] && echo "$PLUGINS" || echo "$PEERS")
			[[ $failed == *$who* ]] && continue
			test -x "$folder/$type" || continue
			if [ $case = version ]; then
				time_it $case $who "$folder" VERSION || failed+=$who
				continue
			fi
			time_it $case $who "$folder" ADD || failed+=$who
			sleep 0.3
			time_it $case $who "$folder" DEL || failed+=$who
			sleep 0.1
		done
	done
done
ip netns del p
ip link set ib0 down
vfs_guids 0
