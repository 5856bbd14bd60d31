#!/bin/bash
# limit 150
# ibverbs-utils, perftest and rdma_cm programs between two namespaces.
. /lab/guest/fabric.sh
set -euo pipefail

vf_a=$(vf 0 0) vf_b=$(vf 1 0)
a=$(rdma_of "$vf_a") b=$(rdma_of "$vf_b")
ip netns add a
ip netns add b
give "$vf_a" a 10.0.0.1/24
give "$vf_b" b 10.0.0.2/24
wait_for 20 ip netns exec b ping -c 1 -W 1 10.0.0.1

# pair PROGRAM ARGUMENT...: a server in a, a client in b. Waits until the server listens on TCP.
listening() { ip netns exec a ss -tlnH | grep -q .; }
pair() {
	local program=$1 server
	shift
	timeout $((30 * TIMEOUT_FACTOR)) ip netns exec a "$program" -d "$a" "$@" >/tmp/server 2>&1 &
	server=$!
	if [[ " $* " == *" -R "* ]]; then sleep 2; else wait_for 10 listening; fi
	timeout $((30 * TIMEOUT_FACTOR)) ip netns exec b "$program" -d "$b" "$@" 10.0.0.1 >/tmp/client 2>&1 || die "$program $*: $(tail -2 /tmp/client /tmp/server | tr '\n' ' ')"
	wait $server || die "$program $*, server: $(tail -2 /tmp/server | tr '\n' ' ')"
	echo "$program $*: $(grep -vE '^-|^$|arning' /tmp/client | tail -1 | tr -s ' \t' ' ')"
}
pair ibv_rc_pingpong -n 300
pair ibv_rc_pingpong -n 10 -s 1048576 -e
pair ibv_ud_pingpong -n 200
pair ibv_uc_pingpong -n 200
pair ibv_srq_pingpong -n 200 -q 4
old="--use_old_post_send" # the hfi1verbs provider has no extended QP
pair ib_read_lat -F -n 200 -s 64 $old
pair ib_write_lat -F -n 200 -s 64 $old -I 0
pair ib_send_lat -F -n 200 -s 64 $old -I 0
pair ib_atomic_lat -F -n 200 $old
pair ib_write_bw -F -n 50 -s 8192 -q 8 $old
pair ib_read_lat -F -n 200 -s 64 $old -R
timeout $((30 * TIMEOUT_FACTOR)) ip netns exec a rping -s -a 10.0.0.1 -C 10 >/tmp/server 2>&1 &
server=$!
sleep 1
timeout $((30 * TIMEOUT_FACTOR)) ip netns exec b rping -c -a 10.0.0.1 -C 10 -v -V >/tmp/client || die "rping"
wait $server || true

ip netns del a
ip netns del b
back() { [ "$(rdma_of "$vf_a")" = "$a" ] && [ "$(rdma_of "$vf_b")" = "$b" ]; }
wait_for 20 back
