#!/bin/bash
# The link of a virtual function follows `ip link set ... vf N state` and the state of the switch port.
. /lab/guest/fabric.sh
set -euo pipefail

vf=$(vf 0 0)
device=$(rdma_of "$vf")
netdev=$(netdev_of "$vf")
state() { [ "$(port_state "$device")" = "$1" ]; }
ip link set "$netdev" up
wait_for 20 carrier init "$netdev"

ip link set ib0 vf 0 state disable
ip -d link show dev ib0 | grep "vf 0 " | grep -q "link-state disable"
wait_for 10 state DOWN
must_fail carrier init "$netdev"
rebind "$vf"
state DOWN
ip link set ib0 vf 0 state enable
wait_for 20 state ACTIVE
ip link set "$netdev" up
wait_for 20 carrier init "$netdev"

# The switch port at the other end of the cable
switch=$(switch_lid)
port=$(switch_port_of "$(cat "/sys/class/infiniband/$device/ports/1/lid")")
diagnose ibportstate "$switch" "$port" disable
wait_for 10 state DOWN
diagnose ibportstate "$switch" "$port" enable
wait_for 20 state ACTIVE
wait_for 20 carrier init "$netdev"

ip link set ib0 vf 0 state auto
ip link set "$netdev" down
