# Shell functions about the fabric for guest scripts: `. /lab/guest/fabric.sh`.
# shellcheck shell=bash
#
# RDMA devices and interfaces are numbered in this order: mlx5_0/ib0 and mlx5_1/ib1 are the adapters (PF 0 and 1),
# followed by the virtual functions of PF 0 and of PF 1. VF v of PF p has node GUID 02:00:00:00:nn:pp:vv:01 and
# port GUID 02:00:00:00:nn:pp:vv:02, with nn = $NODE: 0, or 1 and 2 where two machines share a fabric.

: "${VFS:=4}" # virtual functions per adapter
: "${SWEEP:=5}" # seconds between opensm sweeps; the switch reports changes by trap, but opensm ignores frequent traps
: "${NODE:=0}"
: "${TIMEOUT_FACTOR:=5}" # time limits are for an idle host; a busy one may take this many times longer
case $(cat /proc/cmdline) in
*mode=peer*) NODE=2 ;;
*machines=2*) NODE=1 ;;
esac
CONNECTX="drvname=mlx5_core spoof_vendor=0x15b3 spoof_pf=0x101b spoof_vf=0x101c"
PARTITIONS=/run/partitions.conf
OPENSM_LOG=/run/opensm.log
PCI=/sys/bus/pci/devices

die() {
	echo "$*"
	exit 1
}

# wait_for SECONDS COMMAND...: waits until the command succeeds. SECONDS is the limit on an idle host.
wait_for() {
	local until=$((SECONDS + $1 * TIMEOUT_FACTOR))
	shift
	until "$@" >/dev/null 2>&1; do
		if ((SECONDS >= until)); then
			echo "timed out: $*"
			return 1
		fi
		sleep 0.1
	done
}

# must_fail COMMAND...: succeeds if the command fails.
must_fail() {
	if "$@" >/dev/null 2>&1; then
		echo "expected to fail, but succeeded: $*"
		return 1
	fi
}

# expect WHAT ACTUAL EXPECTED
expect() {
	[ "$2" = "$3" ] || die "$1: got '$2', expected '$3'"
}

# PCI addresses of the adapters.
pfs() {
	local d
	for d in "$PCI"/*/sriov_totalvfs; do
		basename "$(dirname "$d")"
	done
}

pf() {
	pfs | sed -n "$(($1 + 1))p"
}

# vf_of PF NUMBER, vf PF-NUMBER VF-NUMBER: PCI address of a virtual function.
vf_of() {
	basename "$(readlink "$PCI/$1/virtfn$2")"
}

vf() {
	vf_of "$(pf "$1")" "$2"
}

# Names of a PCI function's network interface and RDMA device, as seen from this namespace.
netdev_of() {
	ls "$PCI/$1/net"
}

rdma_of() {
	ls "$PCI/$1/infiniband"
}

rebind() {
	echo "$1" >/sys/bus/pci/drivers/mlx5_core/unbind
	echo "$1" >/sys/bus/pci/drivers/mlx5_core/bind
}

# Loads the kernel's InfiniBand modules; RDMA devices in exclusive mode.
modules_up() {
	modprobe ib_core
	# Before any other network namespace exists: the kernel refuses the change later.
	rdma system set netns exclusive
	# 64 receives instead of 256: in connected mode each interface pins 64 KiB for each of them.
	modprobe ib_ipoib recv_queue_size=64 send_queue_size=64
	modprobe -a ib_umad ib_uverbs rdma_ucm rdmavt virtio_pci tun
	modprobe dummy numdummies=0 # else the first use of a dummy interface creates an extra one
	ip link set lo up
}

# With two machines: configures the cable between them and prints the module options that link the switches.
other_machine() {
	((NODE)) || return 0
	modprobe virtio_net
	wait_for 10 test -e /sys/class/net/eth0 >&2
	ip addr replace 10.9.0.$NODE/24 dev eth0
	ip link set eth0 mtu 9000 up
	echo "nodeid=$NODE isl=10.9.0.$((3 - NODE))"
}

# adapters_up [MODULE-OPTION...]: loads the module and creates all virtual functions.
adapters_up() {
	# shellcheck disable=SC2086
	insmod /lab/softib.ko $CONNECTX $(other_machine) "$@"
	recreate_vfs
}

# recreate_vfs: removes all virtual functions and creates $VFS per adapter.
recreate_vfs() {
	local pf
	for pf in $(pfs); do
		echo 0 >"$PCI/$pf/sriov_numvfs"
	done
	echo "$VFS" >"$PCI/$(pf 0)/sriov_numvfs"
	vfs_up 1 # before the GUIDs of PF 0 are set, so that device numbers follow the order of the functions
	vfs_guids 0
}

# adapters_down: removes all virtual functions and the module. No process may use a device.
adapters_down() {
	local pf
	for pf in $(pfs); do
		echo 0 >"$PCI/$pf/sriov_numvfs" || true
	done
	wait_for 10 rmmod softib
}

# vfs_up PF, vfs_guids PF: create the virtual functions of an adapter; set their GUIDs.
vfs_up() {
	echo "$VFS" >"$PCI/$(pf "$1")/sriov_numvfs"
	vfs_guids "$1"
}

vfs_guids() {
	local v netdev
	netdev=$(netdev_of "$(pf "$1")")
	for ((v = 0; v < VFS; v++)); do
		ip link set "$netdev" vf $v node_guid "$(guid "$1" $v 1)"
		ip link set "$netdev" vf $v port_guid "$(guid "$1" $v 2)"
		ip link set "$netdev" vf $v state auto
		rebind "$(vf "$1" $v)"
	done
}

# guid PF VF 1|2: the node GUID (1) or port GUID (2), with colons; plain_guid prints it in opensm's syntax.
guid() {
	printf '02:00:00:00:%02x:%02x:%02x:%02x' "${GUID_NODE:-$NODE}" "$1" "$2" "$3"
}

plain_guid() {
	echo "0x$(guid "$1" "$2" "$3" | tr -d :)"
}

# partitions [LINE...]: writes the default partition and these lines; takes effect on reload_opensm.
partitions() {
	{
		echo "Default=0x7fff, ipoib : ALL=full, SELF=full;"
		printf '%s\n' "$@"
	} >"$PARTITIONS"
}

start_opensm() {
	local guid
	guid=$(cat "/sys/class/infiniband/$(rdma_of "$(pf 0)")/ports/1/gids/0" | cut -d: -f5- | tr -d :)
	echo "force_log_flush TRUE" >/run/opensm.conf
	: >"$OPENSM_LOG"
	setsid opensm -F /run/opensm.conf -g "0x$guid" -s "$SWEEP" -P "$PARTITIONS" -f "$OPENSM_LOG" </dev/null >/run/opensm.out 2>&1 &
	echo $! >/run/opensm.pid
}

opensm_runs() {
	[ "$(basename "$(readlink "/proc/$(cat /run/opensm.pid)/exe")")" = opensm ]
}

# With SIGKILL: opensm may take 10 s to notice any other signal.
stop_opensm() {
	local pid
	pid=$(cat /run/opensm.pid)
	kill -9 "$pid"
	# A zombie without an executable until init reaps it.
	wait_for 20 must_fail readlink "/proc/$pid/exe"
}

reload_opensm() {
	kill -HUP "$(cat /run/opensm.pid)"
}

# pkey_index DEVICE KEY: the key's index in the port's table. opensm reuses old indexes, so it can be anywhere.
pkey_index() {
	basename "$(grep -lx "$2" "/sys/class/infiniband/$1/ports/1/pkeys/"* | head -n 1)"
}

has_pkey() {
	grep -qx "$2" "/sys/class/infiniband/$1/ports/1/pkeys/"*
}

# diagnose PROGRAM ...: runs a program of infiniband-diags on the first adapter; by default they use any active port.
diagnose() {
	local program=$1
	shift
	"$program" -C mlx5_0 -P 1 "$@"
}

# The switch's LID, and the switch port that leads to a LID (0x..)
switch_lid() {
	diagnose ibswitches | grep -oE 'lid [0-9]+' | cut -d' ' -f2
}

switch_port_of() {
	diagnose ibroute "$(switch_lid)" | awk -v lid="$(printf '0x%04x' "$1")" '$1 == lid { print $2 + 0 }'
}

port_state() {
	cut -d' ' -f2 "/sys/class/infiniband/$1/ports/1/state"
}

all_active() {
	local f
	for f in /sys/class/infiniband/*/ports/1/state; do
		[ "$(cat "$f")" = "4: ACTIVE" ] || return 1
	done
}

# in_ns NAMESPACE COMMAND...: runs the command in a namespace; init is the initial one.
in_ns() {
	local ns=$1
	shift
	if [ "$ns" = init ]; then "$@"; else ip netns exec "$ns" "$@"; fi
}

# carrier NAMESPACE NETDEV: succeeds if the interface has a carrier.
carrier() {
	[ "$(in_ns "$1" cat "/sys/class/net/$2/carrier")" = 1 ]
}

# give VF-ADDRESS NAMESPACE ADDRESS: moves a virtual function to a namespace, RDMA device first (this re-creates the
# netdev). Prints the name of the interface.
give() {
	local device netdev
	device=$(rdma_of "$1")
	rdma dev set "$device" netns "$2"
	if [ -d "$PCI/$1/net" ] && netdev=$(netdev_of "$1") && [ -n "$netdev" ]; then
		ip link set "$netdev" netns "$2"
	else # kernels from 6.17 on create it in the namespace of its RDMA device
		netdev=$(ip netns exec "$2" ls "$PCI/$1/net")
	fi
	ip -n "$2" link set lo up
	ip -n "$2" addr add "$3" dev "$netdev"
	ip -n "$2" link set "$netdev" up
	echo "$netdev"
}

# State that must be the same before and after a test.
snapshot() {
	local pf
	ip netns list
	for pf in $(pfs); do
		ip -d link show dev "$(netdev_of "$pf")" | grep -oE 'vf [0-9]+ |NODE_GUID [0-9a-f:]+|PORT_GUID [0-9a-f:]+|link-state [a-z]+'
	done
	rdma dev show | sed 's/.*: \(mlx5_[0-9]*\): .*node_guid \([0-9a-f:]*\).*/\1 \2/' | sort
	ip -br link show type ipoib | sed 's/ .*//' | sort
	cat "$PARTITIONS"
}
