# Shell functions for calling CNI plugins in guest scripts: `. /lab/guest/cni.sh` after fabric.sh.
# shellcheck shell=bash
#
# Upstream plugins are in /lab/peers if --peers was given. Ferroband's plugins are one program with many names.

PLUGINS=/opt/plugins
PEERS=/lab/peers
mkdir -p /opt/cni/bin /var/lib/cni

# link_plugins NAME...: links ferroband-cni under these plugin names.
link_plugins() {
	local name
	mkdir -p "$PLUGINS"
	for name in "$@"; do
		ln -sf /lab/bin/ferroband-cni "$PLUGINS/$name"
	done
}

# call FOLDER COMMAND POD CONFIG [NETNS]: calls the plugin named by CONFIG's type as a runtime does. Prints the result.
call() {
	local folder=$1 command=$2 pod=$3 config=$4 netns=${5-/run/netns/$3}
	echo "$config" | CNI_COMMAND=$command CNI_CONTAINERID="$pod" CNI_NETNS=$netns CNI_IFNAME=net1 \
		CNI_PATH=$folder "$folder/$(jq -r .type <<<"$config")"
}

# with CONFIG RESULT: adds the result to the configuration as prevResult, as CHECK and chained plugins receive it.
with() {
	jq -c --argjson result "$2" '. + {prevResult: $result}' <<<"$1"
}
