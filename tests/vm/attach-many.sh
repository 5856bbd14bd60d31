#!/bin/bash
# on demand
# needs ferroband-cni
# limit 420
# 200 attachments and detachments over 16 virtual functions, four at a time. Some calls are killed, some pods end before
# their DEL. Afterwards the kernel log is clean, and GUIDs, link states, device names and device counts are unchanged.
. /lab/guest/fabric.sh
. /lab/guest/cni.sh
set -euo pipefail

OPERATIONS=200
RANDOM=${SEED:-7}
default_vfs=$VFS
VFS=8
recreate_vfs
wait_for 60 all_active
link_plugins ib-sriov
host_state() {
	local pf
	for pf in $(pfs); do
		ip -d link show dev "$(netdev_of "$pf")" | grep "vf "
	done
	rdma dev show | sed 's/.*: \(mlx5_[0-9]*\): .*node_guid \([0-9a-f:]*\).*/\1 \2/' | sort
	ip -br link | awk '{ print $1 }' | sort
	for pf in $(pfs); do
		ls "$PCI/$pf" | grep -c virtfn
	done
}
config_of() { # SLOT: the configuration of the slot's function; GUID and isolation depend only on the slot
	local slot=$1
	local guid='' isolated=false
	((slot % 3)) || guid=',"runtimeConfig":{"infinibandGUID":"02:00:00:00:00:77:00:'$(printf '%02x' $((slot + 1)))'"}'
	((slot % 2)) && isolated=true
	echo '{"cniVersion":"1.0.0","name":"ib","type":"ib-sriov","deviceID":"'"$(vf $((slot / VFS)) $((slot % VFS)))"'","rdmaIsolation":'$isolated$guid'}'
}
call_plugin() { # SLOT COMMAND [KILL-AFTER]: calls the plugin; kills it after KILL-AFTER milliseconds if given
	local slot=$1 command=$2 program=("$PLUGINS/ib-sriov")
	[ -z "${3-}" ] || program=(timeout -s KILL "0.$(printf '%03d' "$3")" "$PLUGINS/ib-sriov")
	CNI_COMMAND=$command CNI_CONTAINERID="pod$slot" CNI_NETNS=/run/netns/pod$slot CNI_IFNAME=net1 CNI_PATH=$PLUGINS \
		"${program[@]}" <"/tmp/config$slot" >"/tmp/answer$slot" 2>&1
}
before=$(host_state)
for ((slot = 0; slot < 2 * VFS; slot++)); do
	config_of $slot >"/tmp/config$slot"
done

declare -A attached
killed=0 dead=0
attach() { # in the background
	local slot=$1
	if ((RANDOM % 5 == 0)); then
		call_plugin "$slot" ADD $((RANDOM % 900 + 20)) || true
	else
		call_plugin "$slot" ADD || echo "ADD of $slot: $(cat "/tmp/answer$slot")" >>/tmp/failures
	fi
}
detach() { # SLOT MODE: dead: the namespace is deleted first; killed: a first DEL is killed; normal: one DEL
	local slot=$1 mode=$2
	[ "$mode" != dead ] || ip netns del "pod$slot"
	[ "$mode" != killed ] || call_plugin "$slot" DEL $((RANDOM % 500 + 20)) || true
	call_plugin "$slot" DEL || echo "DEL of $slot ($mode): $(cat "/tmp/answer$slot")" >>/tmp/failures
	[ "$mode" = dead ] || ip netns del "pod$slot"
}
: >/tmp/failures
for ((operations = 0; operations < OPERATIONS;)); do
	# Four at once, as kubelets do: attach free functions, detach attached ones.
	for slot in $(shuf -i 0-$((2 * VFS - 1)) -n 4 --random-source=<(yes $RANDOM)); do
		if [ -z "${attached[$slot]-}" ]; then
			ip netns add "pod$slot"
			attached[$slot]=yes
			attach "$slot" &
		else
			unset "attached[$slot]"
			mode=$(echo normal normal dead killed | cut -d' ' -f$((RANDOM % 4 + 1)))
			[ "$mode" != dead ] || dead=$((dead + 1))
			[ "$mode" != killed ] || killed=$((killed + 1))
			detach "$slot" "$mode" &
		fi
		RANDOM=$((RANDOM + operations))
		operations=$((operations + 1))
	done
	wait
	[ ! -s /tmp/failures ] || die "after $operations operations: $(head -1 /tmp/failures)"
done
for slot in "${!attached[@]}"; do
	detach "$slot" normal
done
[ ! -s /tmp/failures ] || die "at the end: $(head -1 /tmp/failures)"
echo "$operations operations, $killed DELs killed, $dead pods ended before their DEL"
same() { [ "$(host_state)" = "$before" ]; }
wait_for 10 same || die "the host has changed: $(diff <(echo "$before") <(host_state) | grep '^[<>]' | tr '\n' ' ')"
expect "state files of the plugin" "$(find /var/lib/ferroband -type f -name '*.json' 2>/dev/null | wc -l)" 0
VFS=$default_vfs
recreate_vfs
