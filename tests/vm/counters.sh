#!/bin/bash
# Port counters of sender and receiver agree in sysfs, in perfquery and in the PF's statistics of its VFs.
. /lab/guest/fabric.sh
set -euo pipefail

ip netns add a
ip netns add b
vf_a=$(vf 0 0) vf_b=$(vf 1 0)
a=$(rdma_of "$vf_a") b=$(rdma_of "$vf_b")
give "$vf_a" a 10.0.0.1/24
give "$vf_b" b 10.0.0.2/24
wait_for 20 ip netns exec b ping -c 1 -W 1 10.0.0.1

sent() { ip netns exec a cat "/sys/class/infiniband/$a/ports/1/counters/$1"; }
received() { ip netns exec b cat "/sys/class/infiniband/$b/ports/1/counters/$1"; }
hardware() { ip netns exec a cat "/sys/class/infiniband/$a/ports/1/hw_counters/$1"; }
data=$(sent port_xmit_data) packets=$(sent port_xmit_packets)
data_b=$(received port_rcv_data) packets_b=$(received port_rcv_packets)
reads=$(hardware rx_read_requests)

# b reads 200 times 64 KiB from a, at a path MTU of 4096 or less: at least 3200 packets
ip netns exec a ib_read_bw -d "$a" -F -n 200 -s 65536 --use_old_post_send >/tmp/server 2>&1 &
server=$!
sleep 2
ip netns exec b ib_read_bw -d "$b" -F -n 200 -s 65536 --use_old_post_send 10.0.0.1 >/tmp/client 2>&1 || die "$(tail -3 /tmp/client)"
wait $server

least=$((200 * 65536 / 4))
data=$(($(sent port_xmit_data) - data)) packets=$(($(sent port_xmit_packets) - packets))
data_b=$(($(received port_rcv_data) - data_b)) packets_b=$(($(received port_rcv_packets) - packets_b))
echo "sent $data words in $packets packets, received $data_b in $packets_b"
((data >= least && data < least * 11 / 10)) || die "sent $data words, expected at least $least and at most 10 % more"
((packets >= 3200)) || die "only $packets packets"
# Other ports may send broadcasts meanwhile
((data_b >= data * 99 / 100 && data_b <= data * 101 / 100)) || die "sent $data words, received $data_b"
((packets_b >= packets * 99 / 100)) || die "sent $packets packets, received $packets_b"
((packets >= 3200))
(($(hardware rx_read_requests) - reads >= 200)) || die "hw_counters counted no reads"
ip netns exec a rdma statistic show link "$a/1" | grep -q rx_read_requests

# The same in perfquery and at the switch port; the PF reports its VF's traffic
lid=$(ip netns exec a cat "/sys/class/infiniband/$a/ports/1/lid")
words=$(diagnose perfquery -x "$((lid))" 1 | awk -F. '/PortXmitData/ { print $NF }')
((words >= data)) || die "perfquery reports $words words"
switch=$(switch_lid)
port=$(switch_port_of "$lid")
words=$(diagnose perfquery -x "$switch" "$port" | awk -F. '/PortRcvData/ { print $NF }')
((words >= data)) || die "the switch's port counts $words words"
bytes=$(ip -s -d -j link show dev ib0 | jq '.[0].vfinfo_list[0].stats.tx | .bytes // .tx_bytes')
((bytes >= data * 4)) || die "the adapter counts $bytes bytes of its VF"

# Reset
diagnose perfquery -R "$((lid))" 1
words=$(diagnose perfquery -x "$((lid))" 1 | awk -F. '/PortXmitData/ { print $NF }')
((words < 10000)) || die "not reset: $words"

for ns in a b; do
	ip netns del $ns
done
back() { [ "$(rdma_of "$vf_a")" = "$a" ] && [ "$(rdma_of "$vf_b")" = "$b" ]; }
wait_for 20 back
