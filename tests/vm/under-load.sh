#!/bin/bash
# limit 120
# A function is unbound or moved under RDMA load: both return at once, and the module stays while a queue is mapped.
. /lab/guest/fabric.sh
set -euo pipefail

vf_a=$(vf 0 0) vf_b=$(vf 1 0)
a=$(rdma_of "$vf_a") b=$(rdma_of "$vf_b")
listening() { ss -tlnH | grep -q .; }
load() {
	timeout $((40 * TIMEOUT_FACTOR)) ibv_rc_pingpong -d "$a" -n 10000000 >/tmp/server 2>&1 &
	server=$!
	wait_for 10 listening
	timeout $((40 * TIMEOUT_FACTOR)) ibv_rc_pingpong -d "$b" -n 10000000 127.0.0.1 >/tmp/client 2>&1 &
	client=$!
	sleep 1
	kill -0 $server $client || die "no load: $(tail -1 /tmp/server /tmp/client)"
}
ended() {
	kill $server $client 2>/dev/null || true
	wait $server $client || true
}
load
start=$(date +%s%N)
rebind "$vf_a"
took=$((($(date +%s%N) - start) / 1000000))
echo "rebind under load: $took ms"
((took < 8000 * TIMEOUT_FACTOR)) || die "unbind took $took ms"
must_fail rmmod softib
ended
wait_for 20 all_active

ip netns add a
load
start=$(date +%s%N)
rdma dev set "$b" netns a
took=$((($(date +%s%N) - start) / 1000000))
echo "move under load: $took ms"
((took < 8000 * TIMEOUT_FACTOR)) || die "move took $took ms"
ended
ip netns del a
back() { [ "$(rdma_of "$vf_b")" = "$b" ]; }
wait_for 20 back
