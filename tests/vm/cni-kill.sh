#!/bin/bash
# limit 150
# needs ferroband-cni
# ADD is killed (SIGKILL) at many points. A DEL afterwards removes everything from host and pod, and the next ADD works.
. /lab/guest/fabric.sh
set -euo pipefail

ln -sf /lab/bin/ferroband-cni /opt/cni/bin/ipoib
cni() {
	echo '{"cniVersion":"1.0.0","name":"ib","type":"ipoib","master":"ib0","ipam":{}}' |
		CNI_COMMAND=$1 CNI_CONTAINERID=k CNI_NETNS=/run/netns/k CNI_IFNAME=net1 CNI_PATH=/opt/cni/bin "${@:2}" /opt/cni/bin/ipoib
}
links() { { ip -br link; ip -n k -br link; } | awk '{ print $1 }' | sort | tr '\n' ' '; }
ip netns add k
before=$(links)
cni ADD >/dev/null
cni DEL
expect "links after an uninterrupted ADD and DEL" "$(links)" "$before"
state() { find /var/lib/ferroband -type f 2>/dev/null | wc -l; }
kept=$(state)

killed=0 whole=0
for ((ms = 4; whole < 3 && ms < 900; ms += 8)); do
	if cni ADD timeout -s KILL "$(printf '0.%03d' $ms)" >/dev/null 2>&1; then whole=$((whole + 1)); else killed=$((killed + 1)); fi
	# An ordinary DEL if ADD has finished.
	cni DEL || die "DEL after a kill at $ms ms fails"
	expect "links after a kill at $ms ms" "$(links)" "$before"
	expect "state files after a kill at $ms ms" "$(state)" "$kept"
done
echo "killed $killed times up to $ms ms, finished $whole times"
((killed >= 5 && whole == 3)) || die "the sweep is inconclusive: $killed killed, $whole finished"
cni ADD >/dev/null
cni DEL
ip netns del k
