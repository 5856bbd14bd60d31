#!/bin/bash
# needs ferroband-kernel:netns
# limit 120
# Duplicate detection, gateway probes and announcements with 20-byte hardware addresses, answered by the kernel's ARP
# and neighbour discovery.
. /lab/guest/fabric.sh
set -euo pipefail

ferroband-kernel-netns infiniband_probe:: --ignored --test-threads 1
ip link set ib0 down
ip link set ib1 down
