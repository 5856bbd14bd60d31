#!/bin/bash
# needs ferroband-cni
# limit 300
# ADD with GUID and isolation is killed (SIGKILL) at many points. A DEL restores everything, and the next ADD works.
. /lab/guest/fabric.sh
. /lab/guest/cni.sh
set -euo pipefail

link_plugins ib-sriov
vf=$(vf 0 0)
config='{"cniVersion":"1.0.0","name":"ib","type":"ib-sriov","deviceID":"'$vf'","rdmaIsolation":true,"runtimeConfig":{"infinibandGUID":"02:00:00:00:00:77:00:01"}}'
killed_add() { # SECONDS
	echo "$config" | CNI_COMMAND=ADD CNI_CONTAINERID=k CNI_NETNS=/run/netns/k CNI_IFNAME=net1 CNI_PATH=$PLUGINS \
		timeout -s KILL "$1" "$PLUGINS/ib-sriov"
}
host_state() {
	{ ip -br link; ip -n k -br link; } | awk '{ print $1 }' | sort | tr '\n' ' '
	rdma dev show | sed 's/.*: \(mlx5_[0-9]*\): .*node_guid \([0-9a-f:]*\).*/\1 \2/' | sort | tr '\n' ' '
	ip -d link show dev ib0 | grep "vf 0 "
	basename "$(readlink "$PCI/$vf/driver")"
	find /var/lib/ferroband -type f -name '*.json' 2>/dev/null | wc -l
}
ip netns add k
start=$(date +%s%N)
call "$PLUGINS" ADD k "$config" >/dev/null
whole_ms=$((($(date +%s%N) - start) / 1000000))
call "$PLUGINS" DEL k "$config"
before=$(host_state)

killed=0 whole=0
step=$((whole_ms / 25 + 1))
for ((ms = step; whole < 2 && ms < 4 * whole_ms + 2000; ms += step)); do
	if killed_add "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))" >/dev/null 2>&1; then whole=$((whole + 1)); else killed=$((killed + 1)); fi
	call "$PLUGINS" DEL k "$config" >/tmp/answer || die "DEL after a kill at $ms ms: $(cat /tmp/answer)"
	expect "host state after a kill at $ms ms" "$(host_state)" "$before"
done
echo "an ADD takes $whole_ms ms; killed $killed times up to $ms ms, finished $whole times"
((killed >= 8 && whole == 2)) || die "the sweep is inconclusive: $killed killed, $whole finished"
call "$PLUGINS" ADD k "$config" >/dev/null
expect "RDMA devices in the pod" "$(ip netns exec k rdma dev show | wc -l)" 1
call "$PLUGINS" DEL k "$config"
ip netns del k
