#!/bin/bash
# limit 120
# Reliable connections behave as specified, on one adapter and between two.
. /lab/guest/fabric.sh
set -euo pipefail

verbs "$(rdma_of "$(vf 0 0)")"
verbs "$(rdma_of "$(pf 0)")" "$(rdma_of "$(pf 1)")"
