# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_ferroband_global_optspecs
    string join \n log= h/help V/version
end

function __fish_ferroband_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_ferroband_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_ferroband_using_subcommand
    set -l cmd (__fish_ferroband_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c ferroband -n "__fish_ferroband_needs_command" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_needs_command" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "node" -d 'Run the node daemon'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "cluster" -d 'Run the cluster daemon'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "device-plugin" -d 'Run the device plugin alone'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "crds" -d 'The custom resource definitions that Ferroband needs'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "manifests" -d 'Print what to `kubectl apply` to run Ferroband'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "uninstall" -d 'Take Ferroband off this node'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "status" -d 'Show what Ferroband does in the cluster'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "inspect" -d 'Show the InfiniBand hardware of this node'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "doctor" -d 'Find out what is wrong, and what to do about it'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "verify" -d 'Try a network: two short-lived pods on two nodes, and a ping between them'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "explain" -d 'Explain an error code'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "partition" -d 'Show the partitions of the fabric: who shall be in which, and what the subnet manager has'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "sim" -d 'Simulate InfiniBand hardware on this machine'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "man" -d 'Write the manual pages'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "reference" -d 'Write the reference of this release as Markdown'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l node-name -d 'The name of this node in the API server' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l namespace -d 'The namespace that Ferroband is installed in; the node\'s SriovNetworkNodeState is there' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l cni-binary -d 'The CNI program to install in opt/cni/bin as `ferroband`' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l alias -d 'Install the CNI program under these names, too. A foreign program of that name is kept as NAME.before-ferroband' -r -f -a "coordinator\t''
ib-sriov\t''
ipoib\t''
multus\t''
multus-shim\t''
rdma\t''
spiderpool\t''
whereabouts\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l simulate -d 'Simulate the InfiniBand hardware of this profile. The node gets the label ferroband.io/simulated=true' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l simulate-uplink -d 'Join the simulated fabrics of the nodes over this interface; without it they end at the node' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l device-config -l config-file -d 'A configuration of the SR-IOV device plugin (resourceList) or of the shared RDMA plugin (configList), or a folder of such files; in a folder with a file called like the node, that one. Changes are seen at once. Can be repeated; /etc/ferroband/devices, where there is such a folder, unless given' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l resource-prefix -d 'The prefix of resources in a resourceList that has none of its own' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l rdma-resource -d 'The resource that stands for all RDMA devices of the node together' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l rdma-count -d 'How many pods may hold it at once; 0 does not offer it' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l network-namespace -d 'Where networks are looked for that the annotation v1.multus-cni.io/default-network and --default-networks name without a namespace' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l namespace-isolation -d 'Let pods use networks of their own namespace and of --global-namespaces only' -r -f -a "true\t''
false\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l global-namespaces -d 'With --namespace-isolation: namespaces whose networks every pod may use' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l default-networks -d 'Networks that every pod gets before those that it asks for: [NAMESPACE/]NAME' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l system-namespaces -d 'Namespaces whose pods do not get --default-networks' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l opensm -d 'The opensm to run if this node has the label ferroband.io/subnet-manager: a file, or a name to look for' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l metrics-address -d 'Serve metrics for Prometheus at http://ADDRESS/metrics, for example 127.0.0.1:5711. Off unless given' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l use-cdi -d 'Give functions by the names of a CDI specification, not as device files'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l check -d 'Do not run; ask the daemon that runs here whether it is ready, and exit with 0 if so'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l pod-name -d 'Who this replica is; its pod\'s name' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l namespace -d 'The namespace that Ferroband is installed in; the lease is there' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l lease-seconds -d 'How many seconds after the leader\'s last sign of life another replica takes over' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l resource-prefix -d 'What stands before the resource names of SriovIBNetworks, which are written without prefix' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l webhook-port -d 'Where the API server reaches the webhook, by way of the Service ferroband-webhook' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l node-name -d 'The name of this node, to find its file in a folder of configurations' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l device-dir -d 'The folder of RDMA device files; /dev/infiniband under the root unless given' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l kubelet-dir -d 'The kubelet\'s folder; /var/lib/kubelet under the root unless given' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l registration -d 'How the kubelet gets to know the plugin' -r -f -a "auto\t'By its plugin watcher where the folder plugins_registry is there, else by a call'
call\t'By a call to kubelet.sock, again after each restart of the kubelet'
watcher\t'By a socket in plugins_registry, which the kubelet watches'"
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l device-config -l config-file -d 'A configuration of the SR-IOV device plugin (resourceList) or of the shared RDMA plugin (configList), or a folder of such files; in a folder with a file called like the node, that one. Changes are seen at once. Can be repeated; /etc/ferroband/devices, where there is such a folder, unless given' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l resource-prefix -d 'The prefix of resources in a resourceList that has none of its own' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l rdma-resource -d 'The resource that stands for all RDMA devices of the node together' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l rdma-count -d 'How many pods may hold it at once; 0 does not offer it' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l use-cdi -d 'Give functions by the names of a CDI specification, not as device files'
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -f -a "apply" -d 'Put them into the cluster (server-side apply) and wait until they are served'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -f -a "print" -d 'Print them as YAML'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -l take-over -d 'Take over fields that another manager owns'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -l dir -d 'Write one file for each into this folder instead' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from help" -f -a "apply" -d 'Put them into the cluster (server-side apply) and wait until they are served'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from help" -f -a "print" -d 'Print them as YAML'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l image -d 'The image' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l alias -d 'Install ferroband-cni under these names, too' -r -f -a "coordinator\t''
ib-sriov\t''
ipoib\t''
multus\t''
multus-shim\t''
rdma\t''
spiderpool\t''
whereabouts\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l simulate -d 'Simulate the InfiniBand hardware of this profile on every node' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l simulate-uplink -d 'Join the simulated fabrics of the nodes over this interface' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l metrics-address -d 'Serve metrics of every node for Prometheus at this address, for example 0.0.0.0:5711. Off unless given' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l chart -d 'Write the templates of the Helm chart into this folder instead' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l namespace -d 'The namespace that Ferroband is installed in' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l patience -d 'How many seconds to wait for all nodes' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l hold -d 'Do not end when it is done, but wait for SIGTERM: a DaemonSet starts what ends again'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l all-nodes -d 'Take Ferroband off every node of the cluster instead; needs the API server, not the node'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s n -l namespace -d 'Only pods of this namespace' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l node -d 'Only this node and its pods' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
wide\t'More columns'
json\t'Everything that is known, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l kubeconfig -d 'The kubeconfig; $KUBECONFIG, ~/.kube/config or the pod\'s own account unless given' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l context -d 'The context in it' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
wide\t'More columns'
json\t'Everything that is known, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
wide\t'More columns'
json\t'Everything that is known, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l kubeconfig -d 'The kubeconfig; $KUBECONFIG, ~/.kube/config or the pod\'s own account unless given' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l context -d 'The context in it' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -s n -l namespace -d 'The namespace of the pods, and of a network without one' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l nodes -d 'The two nodes; two that are ready unless given' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l resource -d 'A resource that each pod asks for, for example spidernet.io/ib=1. Can be repeated' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l image -d 'An image with `sleep` and `ping`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l timeout -d 'How many seconds each step may take' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l kubeconfig -d 'The kubeconfig; $KUBECONFIG, ~/.kube/config or the pod\'s own account unless given' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l context -d 'The context in it' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l keep -d 'Leave the pods for a look around; they end by themselves after a while'
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
wide\t'More columns'
json\t'Everything that is known, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
json\t'Everything, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "list" -d 'One line for each partition: its members wanted and there, and who may use it'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "show" -d 'One partition: its members, and who may use it'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "members" -d 'One line for each member of any partition'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "diff" -d 'Only what is not as wanted. Exits with 1 if anything is not'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
json\t'Everything, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
json\t'Everything, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s n -l namespace -d 'Only pods of this namespace' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
json\t'Everything, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
json\t'Everything, for programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "list" -d 'One line for each partition: its members wanted and there, and who may use it'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "show" -d 'One partition: its members, and who may use it'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "members" -d 'One line for each member of any partition'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "diff" -d 'Only what is not as wanted. Exits with 1 if anything is not'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "up" -d 'Bring it up; what is up already stays'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "down" -d 'Take it down: interfaces, partitions, files'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "status" -d 'Say whether it is up, and what its adapters are like'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "profile" -d 'Print the description of a profile, as `up --file` takes it; without a name, list them'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "move" -d 'Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`); it is back when that ends'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "fabric" -d 'Be the subnet manager: write the P_Key tables of all ports, as told on standard input'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "unplug" -d 'Pull an adapter out of its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "replug" -d 'Put an adapter back'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "port" -d 'Do something to the cable of a port, or to the subnet manager'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "vfs" -d 'Have so many virtual functions; those that are there are made anew'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "pkeys" -d 'Write the P_Key table of an adapter or a virtual function, as a subnet manager does'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "count" -d 'Count something on a port, as errors do'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "netns" -d 'Make RDMA devices belong to one network namespace each, or to all of them (`rdma system set netns`)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l profile -d 'The hardware to simulate: default, connectx-6, dgx, ethernet, vpi' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l file -d 'A description of hardware instead, in YAML' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l uplink -d 'Join the simulated fabrics of several machines over this interface' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l seed -d 'What the GUIDs are made from; must differ between machines' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -s o -l output -d 'The form of the output' -r -f -a "table\t'Columns, for people'
json\t'For programs'
yaml\t'The same as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -l port -d 'The port' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l by -d 'How much to add' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l port -d 'The port' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -l root -d 'Where the host\'s file system is' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "up" -d 'Bring it up; what is up already stays'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "down" -d 'Take it down: interfaces, partitions, files'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "status" -d 'Say whether it is up, and what its adapters are like'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "profile" -d 'Print the description of a profile, as `up --file` takes it; without a name, list them'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "move" -d 'Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`); it is back when that ends'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "fabric" -d 'Be the subnet manager: write the P_Key tables of all ports, as told on standard input'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "unplug" -d 'Pull an adapter out of its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "replug" -d 'Put an adapter back'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "port" -d 'Do something to the cable of a port, or to the subnet manager'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "vfs" -d 'Have so many virtual functions; those that are there are made anew'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "pkeys" -d 'Write the P_Key table of an adapter or a virtual function, as a subnet manager does'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "count" -d 'Count something on a port, as errors do'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "netns" -d 'Make RDMA devices belong to one network namespace each, or to all of them (`rdma system set netns`)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand completions" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand completions" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -l dir -d 'The folder they are written to' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -l dir -d 'The folder they are written to' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -l log -d 'What to log, in the syntax of tracing-subscriber\'s EnvFilter; the daemons say `info`, the tools `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "node" -d 'Run the node daemon'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "cluster" -d 'Run the cluster daemon'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "device-plugin" -d 'Run the device plugin alone'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "crds" -d 'The custom resource definitions that Ferroband needs'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "manifests" -d 'Print what to `kubectl apply` to run Ferroband'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "uninstall" -d 'Take Ferroband off this node'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "status" -d 'Show what Ferroband does in the cluster'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "inspect" -d 'Show the InfiniBand hardware of this node'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "doctor" -d 'Find out what is wrong, and what to do about it'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "verify" -d 'Try a network: two short-lived pods on two nodes, and a ping between them'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "explain" -d 'Explain an error code'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "partition" -d 'Show the partitions of the fabric: who shall be in which, and what the subnet manager has'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "sim" -d 'Simulate InfiniBand hardware on this machine'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "completions" -d 'Print completions for a shell'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "man" -d 'Write the manual pages'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "reference" -d 'Write the reference of this release as Markdown'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from crds" -f -a "apply" -d 'Put them into the cluster (server-side apply) and wait until they are served'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from crds" -f -a "print" -d 'Print them as YAML'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "list" -d 'One line for each partition: its members wanted and there, and who may use it'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "show" -d 'One partition: its members, and who may use it'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "members" -d 'One line for each member of any partition'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "diff" -d 'Only what is not as wanted. Exits with 1 if anything is not'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "up" -d 'Bring it up; what is up already stays'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "down" -d 'Take it down: interfaces, partitions, files'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "status" -d 'Say whether it is up, and what its adapters are like'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "profile" -d 'Print the description of a profile, as `up --file` takes it; without a name, list them'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "move" -d 'Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`); it is back when that ends'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "fabric" -d 'Be the subnet manager: write the P_Key tables of all ports, as told on standard input'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "unplug" -d 'Pull an adapter out of its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "replug" -d 'Put an adapter back'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "port" -d 'Do something to the cable of a port, or to the subnet manager'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "vfs" -d 'Have so many virtual functions; those that are there are made anew'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "pkeys" -d 'Write the P_Key table of an adapter or a virtual function, as a subnet manager does'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "count" -d 'Count something on a port, as errors do'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "netns" -d 'Make RDMA devices belong to one network namespace each, or to all of them (`rdma system set netns`)'
