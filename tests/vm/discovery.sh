#!/bin/bash
# A function looks like a ConnectX-6 in sysfs, PCI, netlink and verbs.
. /lab/guest/fabric.sh
set -euo pipefail

pf0=$(pf 0)
pf1=$(pf 1)
vf0=$(vf 0 0)
expect "adapters" "$(pfs | wc -l)" 2

# PCI
expect "lspci PF" "$(lspci -n -s "$pf0" | cut -d' ' -f2-3)" "0207: 15b3:101b"
expect "lspci VF" "$(lspci -n -s "$vf0" | cut -d' ' -f2-3)" "0207: 15b3:101c"
expect "subsystem vendor" "$(cat "$PCI/$vf0/subsystem_vendor")" 0x15b3
expect "VF device id reported by the PF" "$(cat "$PCI/$pf0/sriov_vf_device")" 101c
expect "totalvfs" "$(cat "$PCI/$pf0/sriov_totalvfs")" 16
expect "driver" "$(basename "$(readlink "$PCI/$vf0/driver")")" mlx5_core
expect "physfn" "$(basename "$(readlink "$PCI/$vf0/physfn")")" "$pf0"
expect "NUMA node of PF 0" "$(cat "$PCI/$pf0/numa_node")" 0
expect "NUMA node of PF 1" "$(cat "$PCI/$pf1/numa_node")" 1
expect "NUMA node of a VF of PF 1" "$(cat "$PCI/$(vf 1 0)/numa_node")" 1

# The interface
netdev=$(netdev_of "$vf0")
expect "ARPHRD" "$(cat "/sys/class/net/$netdev/type")" 32
expect "length of the address" "$(cat "/sys/class/net/$netdev/address" | wc -c)" 60
ip -d link show dev "$netdev" | grep -q "ipoib pkey 0xffff mode datagram"

# The RDMA device
device=$(rdma_of "$vf0")
ib=/sys/class/infiniband/$device
expect "device" "$device" mlx5_2
expect "hca_type" "$(cat "$ib/hca_type")" MT4124
expect "hca_type of a PF" "$(cat /sys/class/infiniband/mlx5_0/hca_type)" MT4123
expect "board_id" "$(cat "$ib/board_id")" MT_0000000223
expect "fw_ver" "$(cat "$ib/fw_ver")" 20.31.1014
expect "link_layer" "$(cat "$ib/ports/1/link_layer")" InfiniBand
expect "rate" "$(cat "$ib/ports/1/rate")" "200 Gb/sec (4X HDR)"
expect "node_type" "$(cat "$ib/node_type")" "1: CA"
expect "sys_image_guid of a VF and its PF" "$(cat "$ib/sys_image_guid")" "$(cat /sys/class/infiniband/mlx5_0/sys_image_guid)"
expect "character devices" "$(ls "$PCI/$vf0/infiniband_verbs" "$PCI/$vf0/infiniband_mad" | grep -cE '^(uverbs|umad|issm)[0-9]+$')" 3
for node in $(ls "$PCI/$vf0/infiniband_verbs") $(ls "$PCI/$vf0/infiniband_mad"); do
	test -c "/dev/infiniband/$node"
done

# Verbs and netlink
ibv_devinfo -d "$device" | grep -q "PORT_ACTIVE"
ibv_devinfo -d "$device" | grep -qE "link_layer:[[:space:]]+InfiniBand"
rdma link show "$device/1" | grep -q "state ACTIVE physical_state LINK_UP"

# devlink
devlink dev eswitch show "pci/$pf0" | grep -q "mode legacy"
devlink dev param show "pci/$pf0" name enable_rdma | grep -q "value true"
devlink dev info "pci/$vf0" | grep -q "fw.psid MT_0000000223"

# A VF without driver looks the same
echo 0 >"$PCI/$pf1/sriov_drivers_autoprobe"
echo 0 >"$PCI/$pf1/sriov_numvfs"
echo 1 >"$PCI/$pf1/sriov_numvfs"
echo 1 >"$PCI/$pf1/sriov_drivers_autoprobe"
must_fail test -e "$PCI/$(vf 1 0)/driver"
expect "a VF without driver" "$(lspci -n -s "$(vf 1 0)" | cut -d' ' -f2-3)" "0207: 15b3:101c"
echo 0 >"$PCI/$pf1/sriov_numvfs"
vfs_up 1
