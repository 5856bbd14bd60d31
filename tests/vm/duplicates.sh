#!/bin/bash
# needs ferroband-kernel:netns
# limit 120
# Duplicate detection, gateways and announcements where hardware addresses have 20 bytes; the kernel's own ARP and
# neighbour discovery answer.
. /lab/guest/fabric.sh
set -euo pipefail

ferroband-kernel-netns infiniband_wire:: --ignored --test-threads 1
ip link set ib0 down
ip link set ib1 down
