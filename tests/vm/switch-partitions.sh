#!/bin/bash
# The switch drops packets with a P_Key that its port does not have: an HCA cannot join by editing its own table.
. /lab/guest/fabric.sh
set -euo pipefail

partitions "t3=0x3, ipoib : $(plain_guid 0 0 2)=full;"
reload_opensm
member=$(rdma_of "$(vf 0 0)") thief=$(rdma_of "$(vf 0 1)")
wait_for 20 has_pkey "$member" 0x8003
verbs 0x3 "$member" "$member"
must_fail verbs 0x3 "$thief" "$member"

# The thief's switch port, and how many packets it has dropped so far
switch=$(switch_lid)
port=$(switch_port_of "$(cat "/sys/class/infiniband/$thief/ports/1/lid")")
diagnose smpquery portinfo "$switch" "$port" | grep -qE "PartEnforceInb:\.+1"
dropped() { diagnose perfquery "$switch" "$port" | awk -F. '/PortRcvConstraintErrors/ { print $NF }'; }
before=$(dropped)

# Through the umad device of its own port it writes 0x8003 into its own table. Its HCA now sends with that key.
set-pkey "$thief" 5 0x8003
has_pkey "$thief" 0x8003
must_fail verbs 0x3 "$thief" "$member"
after=$(dropped)
((after > before)) || die "the switch dropped nothing: $before, $after"

set-pkey "$thief" 5 0x0000
partitions
reload_opensm
lost() { ! has_pkey "$member" 0x8003; }
wait_for 20 lost
