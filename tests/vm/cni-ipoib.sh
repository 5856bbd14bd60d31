#!/bin/bash
# limit 120
# needs ferroband-cni
# Case: cni 23
# Ferroband's CNI plugin `ipoib` without the daemon, on the kernel's IPoIB driver. Checked with ip and ping.
. /lab/guest/fabric.sh
set -euo pipefail

ln -sf /lab/bin/ferroband-cni /opt/cni/bin/ipoib
# cni COMMAND POD MASTER [MTU]: calls the plugin; namespace and container ID are both POD.
cni() {
	local command=$1 pod=$2 master=$3 mtu=${4:-0}
	echo '{"cniVersion":"1.1.0","name":"ib","type":"ipoib","master":"'"$master"'","mtu":'"$mtu"',"ipam":{}}' |
		CNI_COMMAND=$command CNI_CONTAINERID="$pod" CNI_NETNS=${NETNS-/run/netns/$pod} CNI_IFNAME=net1 CNI_PATH=/opt/cni/bin \
			/opt/cni/bin/ipoib
}
host_links() { ip -j link | jq -r '.[].ifname' | sort | tr '\n' ' '; }
inside() { ip -n "$1" -d -j link show dev net1 | jq -r ".[0]$2"; }

CNI_COMMAND=VERSION /opt/cni/bin/ipoib <<<'{"cniVersion":"1.1.0"}' | jq -e '.supportedVersions | index("1.1.0")' >/dev/null
ip link set ib0 up
ip link set ib1 up
before=$(host_links)

# Two pods on two adapters
for pod in a b; do ip netns add $pod; done
cni ADD a ib0 >/tmp/a.json || die "ADD: $(cat /tmp/a.json)"
cni ADD b ib1 >/tmp/b.json || die "ADD: $(cat /tmp/b.json)"
expect "kind" "$(inside a .linkinfo.info_kind)" ipoib
expect "P_Key as the parent's" "$(inside a .linkinfo.info_data.pkey)" "$(ip -d -j link show dev ib0 | jq -r '.[0].linkinfo.info_data.pkey')"
expect "mode" "$(inside a .linkinfo.info_data.mode)" datagram
expect "up" "$(inside a '.flags | index("UP") != null')" true
expect "mac in the result" "$(jq -r '.interfaces[0].mac' /tmp/a.json)" "$(inside a .address)"
expect "sandbox in the result" "$(jq -r '.interfaces[0].sandbox' /tmp/a.json)" /run/netns/a
expect "interfaces of the host" "$(host_links)" "$before"
ip -n a addr add 10.1.0.1/24 dev net1
ip -n b addr add 10.1.0.2/24 dev net1
wait_for 20 carrier a net1
wait_for 20 carrier b net1
ip netns exec a ping -q -c 3 -W 3 10.1.0.2 | grep " 0% packet loss"

# CHECK with the result of ADD; it fails once the interface is gone
check() {
	jq -c '{cniVersion:"1.1.0",name:"ib",type:"ipoib",master:"ib0",ipam:{},prevResult:.}' /tmp/a.json |
		CNI_COMMAND=CHECK CNI_CONTAINERID=a CNI_NETNS=/run/netns/a CNI_IFNAME=net1 CNI_PATH=/opt/cni/bin /opt/cni/bin/ipoib
}
check || die "CHECK fails"
must_fail cni ADD a ib0 # a second ADD

cni DEL a ib0
must_fail ip -n a link show dev net1
must_fail check
cni DEL a ib0 # DEL is idempotent
cni DEL b ib1
expect "interfaces after DEL" "$(host_links)" "$before"

# The pod already has an interface with the index that the child gets on the host
ip link add probe type dummy
index=$(cat /sys/class/net/probe/ifindex)
ip link del probe
ip -n a link add eth0 index $((index + 1)) type dummy
cni ADD a ib0 >/tmp/a.json || die "ADD with an index conflict: $(cat /tmp/a.json)"
expect "eth0" "$(ip -n a -d -j link show dev eth0 | jq -r '.[0].linkinfo.info_kind')" dummy
expect "net1" "$(inside a .linkinfo.info_kind)" ipoib
cni DEL a ib0
ip -n a link show dev eth0 >/dev/null
ip -n a link del eth0

# An MTU above the multicast group's: the kernel accepts it and lowers it to 2044 once the interface has joined
cni ADD a ib0 4000 >/tmp/a.json
wait_for 20 carrier a net1
clamped() { [ "$(inside a .mtu)" = 2044 ]; }
wait_for 10 clamped
echo "MTU: requested 4000, result $(jq -r '.interfaces[0].mtu' /tmp/a.json), interface $(inside a .mtu)"
cni DEL a ib0
must_fail cni ADD a ib0 65520

# A master that is not an IPoIB interface or does not exist: the error names it, nothing is left behind
must_fail cni ADD a lo
cni ADD a nosuch >/tmp/error.json || true
jq -e '.code > 0 and (.msg | contains("nosuch"))' /tmp/error.json >/dev/null || die "error: $(cat /tmp/error.json)"
expect "interfaces after errors" "$(host_links)" "$before"

# The namespace is deleted first: its IPoIB children return to the host, and DEL removes them
cni ADD a ib0 >/dev/null
ip netns del a
child_back() { [ "$(host_links)" != "$before" ]; }
wait_for 10 child_back
cni DEL a ib0
expect "interfaces after the namespace was deleted" "$(host_links)" "$before"

# Print how long ADD and DEL take
ip netns add a
for command in ADD DEL ADD DEL ADD DEL ADD DEL ADD DEL; do
	start=$(date +%s%N)
	cni $command a ib0 >/dev/null
	printf '%s %d ms, ' $command $((($(date +%s%N) - start) / 1000000))
done
echo
ip netns del a
ip netns del b
ip link set ib0 down
ip link set ib1 down
