#!/bin/bash
# GUIDs of virtual functions are set through the PF and take effect at the next bind (`ip -d link`, sysfs).
. /lab/guest/fabric.sh
set -euo pipefail

vf=$(vf 0 1)
device=$(rdma_of "$vf")
shown() { ip -d link show dev ib0 | grep "vf 1 "; }

shown | grep -q "NODE_GUID $(guid 0 1 1), PORT_GUID $(guid 0 1 2), link-state auto"
expect "node GUID" "$(rdma dev show "$device" | grep -oE 'node_guid [0-9a-f:]+')" "node_guid 0200:0000:0000:0101"
expect "port GUID in the interface's address" "$(cut -c37-59 "/sys/class/net/$(netdev_of "$vf")/address")" "$(guid 0 1 2)"

# A new GUID is shown at once and takes effect when the driver is bound again; both names stay.
netdev=$(netdev_of "$vf")
ip link set ib0 vf 1 node_guid 02:00:00:00:00:aa:01:01
ip link set ib0 vf 1 port_guid 02:00:00:00:00:aa:01:02
shown | grep -q "NODE_GUID 02:00:00:00:00:aa:01:01, PORT_GUID 02:00:00:00:00:aa:01:02"
expect "not before the bind" "$(cut -c37-59 "/sys/class/net/$netdev/address")" "$(guid 0 1 2)"
rebind "$vf"
expect "device" "$(rdma_of "$vf")" "$device"
expect "interface" "$(netdev_of "$vf")" "$netdev"
expect "after the bind" "$(cut -c37-59 "/sys/class/net/$netdev/address")" "02:00:00:00:00:aa:01:02"
wait_for 20 all_active
diagnose smpquery -G nodeinfo 0x0200000000aa0102 | grep -q "0x0200000000aa0101"

# Without a valid port GUID (all zeros or all ones) the link stays down.
for none in 00:00:00:00:00:00:00:00 ff:ff:ff:ff:ff:ff:ff:ff; do
	ip link set ib0 vf 1 port_guid $none
	rebind "$vf"
	sleep 1
	expect "state with $none" "$(port_state "$device")" DOWN
done

# A failed change leaves the old value
echo 1 >/sys/module/softib/parameters/fail_guid
must_fail ip link set ib0 vf 1 node_guid 02:00:00:00:00:bb:01:01
shown | grep -q "NODE_GUID 02:00:00:00:00:aa:01:01"

ip link set ib0 vf 1 node_guid "$(guid 0 1 1)"
ip link set ib0 vf 1 port_guid "$(guid 0 1 2)"
rebind "$vf"
