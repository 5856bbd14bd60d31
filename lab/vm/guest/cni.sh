# Words for calling CNI plugins, for scripts of the guest: `. /lab/guest/cni.sh` after fabric.sh.
# shellcheck shell=bash
#
# Plugins of others lie in /lab/peers when the host was given some; ours is one program under many names.

OURS=/opt/ours
PEERS=/lab/peers
mkdir -p /opt/cni/bin /var/lib/cni

# ours_as NAME...: our program under the plugins' names.
ours_as() {
	local name
	mkdir -p "$OURS"
	for name in "$@"; do
		ln -sf /lab/bin/ferroband-cni "$OURS/$name"
	done
}

# call FOLDER COMMAND POD CONFIG [NETNS]: a plugin as a runtime calls it; CONFIG names it as its type. Prints its answer.
call() {
	local folder=$1 command=$2 pod=$3 config=$4 netns=${5-/run/netns/$3}
	echo "$config" | CNI_COMMAND=$command CNI_CONTAINERID="$pod" CNI_NETNS=$netns CNI_IFNAME=net1 \
		CNI_PATH=$folder "$folder/$(jq -r .type <<<"$config")"
}

# with CONFIG RESULT: the configuration with the previous result, as CHECK and chained plugins get it.
with() {
	jq -c --argjson result "$2" '. + {prevResult: $result}' <<<"$1"
}
