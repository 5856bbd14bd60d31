#!/bin/bash
# The switch notifies opensm of a new port (trap 128): the port is ACTIVE long before the next sweep.
. /lab/guest/fabric.sh
set -euo pipefail

restart() {
	stop_opensm
	start_opensm
	wait_for 30 grep -q "SUBNET UP" "$OPENSM_LOG"
}
SWEEP=600
restart
traps() { grep -c "num:128" "$OPENSM_LOG" || true; }
before=$(traps)
for v in 0 1 2; do
	vf=$(vf 0 $v)
	device=$(rdma_of "$vf")
	rebind "$vf"
	start=$(date +%s%N)
	active() { [ "$(port_state "$device")" = ACTIVE ]; }
	wait_for 15 active
	echo "ACTIVE after $((($(date +%s%N) - start) / 1000000)) ms"
done
(($(traps) > before)) || die "opensm has logged no trap"
SWEEP=5
restart
