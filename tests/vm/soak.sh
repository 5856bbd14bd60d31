#!/bin/bash
# on demand
# limit 900
# Random operations on virtual functions for minutes: nothing breaks, nothing leaks.
. /lab/guest/fabric.sh
set -euo pipefail

TIME=240
RANDOM=${SEED:-1}
# Kernel memory that belongs neither to programs nor to files; driver leaks show up here.
kernel_kb() {
	echo 3 >/proc/sys/vm/drop_caches
	sleep 1
	awk '/^(MemTotal):/ { t = $2 } /^(MemFree|AnonPages|Cached|Buffers|PageTables):/ { t -= $2 } END { print t }' /proc/meminfo
}
some_vf() { vf $((RANDOM % 2)) $((RANDOM % VFS)); }
back() { [ "$(ls /sys/class/infiniband | wc -l)" = $((2 + 2 * VFS)) ]; }

do_rebind() { rebind "$(some_vf)"; }
do_flap() {
	local p=$((RANDOM % 2)) v=$((RANDOM % VFS))
	ip link set ib$p vf $v state disable
	ip link set ib$p vf $v state auto
}
do_move() {
	ip netns add m
	give "$(some_vf)" m 10.7.0.1/24 >/dev/null
	local device
	device=$(ip netns exec m ls /sys/class/infiniband)
	((RANDOM % 2)) || ip netns exec m rdma dev set "$device" netns ../../proc/$$/ns/net
	ip netns del m
	wait_for 20 back
}
do_child() {
	local netdev
	netdev=$(netdev_of "$(some_vf)")
	ip netns add m
	ip link add link "$netdev" name soak type ipoib pkey 0x8001
	ip link set soak netns m
	ip -n m link set soak up
	((RANDOM % 2)) && ip -n m link del soak
	ip netns del m
	gone() { ip link del soak 2>/dev/null || ! ip link show dev soak; }
	wait_for 10 gone
}
do_load() {
	local a b
	a=$(some_vf) b=$(some_vf)
	timeout 3 ibv_rc_pingpong -p 2000 -d "$(rdma_of "$a")" -n 1000000 >/dev/null 2>&1 &
	sleep 0.5
	timeout 3 ibv_rc_pingpong -p 2000 -d "$(rdma_of "$b")" -n 1000000 127.0.0.1 >/dev/null 2>&1 &
	sleep 0.5
	rebind "$a"
	((RANDOM % 2)) && rebind "$b"
	wait
}

before=
for ((round = 0; SECONDS < TIME || round < 40; round++)); do
	# The first rounds fill caches and queues that persist.
	((round == 15)) && before=$(kernel_kb)
	action=$(echo rebind flap move child load | cut -d' ' -f$((RANDOM % 5 + 1)))
	"do_$action" || die "round $round: $action"
done
wait_for 60 all_active
after=$(kernel_kb)
echo "$round rounds, the kernel holds $before kB, then $after kB"
((after - before < 4000)) || die "$((after - before)) kB leaked"
