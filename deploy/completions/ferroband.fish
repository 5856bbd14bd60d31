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

complete -c ferroband -n "__fish_ferroband_needs_command" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_needs_command" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "node" -d 'Run the node daemon'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "cluster" -d 'Run the cluster daemon'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "device-plugin" -d 'Run only the device plugin'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "crds" -d 'Manage the custom resource definitions of Ferroband'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "manifests" -d 'Print the manifests of Ferroband for `kubectl apply`'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "uninstall" -d 'Remove Ferroband from this node'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "status" -d 'Show the state of Ferroband in the cluster'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "inspect" -d 'Show the InfiniBand hardware of this node'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "doctor" -d 'Find problems and suggest fixes'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "verify" -d 'Test a network with a ping between two pods on two nodes'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "explain" -d 'Explain an error code'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "partition" -d 'Show the desired and actual members of the fabric\'s partitions'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "sim" -d 'Simulate InfiniBand hardware on this host'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "completions" -d 'Print shell completions'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "man" -d 'Write the manual pages'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "reference" -d 'Write the reference documentation as Markdown'
complete -c ferroband -n "__fish_ferroband_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l node-name -d 'Name of this node\'s Node object' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l namespace -d 'Namespace in which Ferroband is installed; it contains the node\'s SriovNetworkNodeState' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l cni-binary -d 'CNI plugin binary to install in opt/cni/bin as `ferroband`' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l alias -d 'Also install the CNI plugin under these names. An existing file of that name is kept as NAME.before-ferroband' -r -f -a "coordinator\t''
ib-sriov\t''
ipoib\t''
multus\t''
multus-shim\t''
rdma\t''
spiderpool\t''
whereabouts\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l simulate -d 'Simulate the InfiniBand hardware of this profile. The node gets the label ferroband.io/simulated=true' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l simulate-uplink -d 'Interface that connects the simulated fabrics of the nodes; without it each node has its own fabric' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l device-config -l config-file -d 'Configuration file of the SR-IOV device plugin (resourceList) or of the shared RDMA device plugin (configList), or a directory of such files. If a directory contains a file named after the node, only that file is used. Changes take effect immediately. Can be repeated. Defaults to /etc/ferroband/devices if that directory exists' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l resource-prefix -d 'Prefix of the resource names for resourceList entries without resourcePrefix' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l rdma-resource -d 'Name of the resource that gives a pod all RDMA devices of the node' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l rdma-count -d 'Number of pods on the node that may use --rdma-resource at the same time; 0 disables the resource' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l network-namespace -d 'Namespace for networks that the annotation v1.multus-cni.io/default-network and --default-networks name without a namespace' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l namespace-isolation -d 'Restrict pods to networks of their own namespace and of --global-namespaces' -r -f -a "true\t''
false\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l global-namespaces -d 'Namespaces whose networks every pod may use even with --namespace-isolation' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l default-networks -d 'Networks that every pod gets before those that it requests: [NAMESPACE/]NAME' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l system-namespaces -d 'Namespaces whose pods do not get --default-networks' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l forbid-default-network -d 'Reject pods with the annotation v1.multus-cni.io/default-network' -r -f -a "true\t''
false\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l network-plugins -d 'CNI plugins that networks outside of trusted namespaces may use: any that is installed on the node, or those of Ferroband and --listed-plugins' -r -f -a "any\t''
listed\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l listed-plugins -d 'Plugins of other projects for --network-plugins=listed, also those of `ipam.type`. Each is a program that runs as root on the node' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l trusted-namespaces -d 'Namespaces in which only administrators create objects, besides the one that Ferroband is installed in. Their networks and network groups are available to all pods, and their policies apply to the cluster' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l unlisted-partitions -d 'What happens to pods that use a P_Key that no Partition object lists. Networks in trusted namespaces are exempt from `refuse`' -r -f -a "warn\t''
refuse\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l max-networks-per-pod -d 'Maximum number of networks that a pod may request' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l opensm -d 'opensm binary, as a path or a name in PATH, to run if this node has the label node-restriction.kubernetes.io/ferroband-subnet-manager' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l metrics-address -d 'Serve Prometheus metrics at http://ADDRESS/metrics, for example 127.0.0.1:5711. Disabled by default' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -s f -l file -d 'With --dry-run, read the SriovNetworkNodeState from this YAML or JSON file and do not use the API server. Virtual functions then keep their GUIDs' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -s o -l output -d 'Output format of --dry-run' -r -f -a "table\t'Table with the most important columns'
wide\t'Table with all columns'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l use-cdi -d 'Pass CDI device names to the container runtime instead of device files'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l check -d 'Do not run a daemon; exit with 0 if the daemon that runs on this node is ready, otherwise with 1'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -l dry-run -d 'Do not run a daemon; show the changes to the adapters that the daemon would make, and change nothing'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand node" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l pod-name -d 'Name of this replica\'s pod, which identifies the replica in the lease' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l namespace -d 'Namespace in which Ferroband is installed; the lease is created here' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l lease-seconds -d 'Seconds after the leader\'s last renewal until another replica takes over' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l resource-prefix -d 'Prefix that is added to the resourceName of every SriovIBNetwork' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l webhook-port -d 'Port on which the admission webhook listens; the Service ferroband-webhook forwards to it' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l trusted-namespaces -d 'Namespaces in which only administrators create objects, besides the one that Ferroband is installed in. Their networks and network groups are available to all pods, and their policies apply to the cluster' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l unlisted-partitions -d 'What happens to pods that use a P_Key that no Partition object lists. Networks in trusted namespaces are exempt from `refuse`' -r -f -a "warn\t''
refuse\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l max-networks-per-pod -d 'Maximum number of networks that a pod may request' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l max-pkeys-per-namespace -d 'Maximum number of P_Keys that the pods of one namespace may use together. P_Keys that a Partition object assigns to the namespace by name do not count. 0 means no limit' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l projection-limit -d 'Show assigned addresses in the objects of Whereabouts and Spiderpool, up to this number per pool. Pools with more addresses show only their number; 0 shows none' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand cluster" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l node-name -d 'Name of this node; selects the file of that name in a directory of --device-config' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l device-dir -d 'Directory of RDMA device files; defaults to /dev/infiniband under --root' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l kubelet-dir -d 'The kubelet\'s root directory; defaults to /var/lib/kubelet under --root' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l registration -d 'How to register with the kubelet' -r -f -a "auto\t'Like `watcher` if the kubelet\'s directory plugins_registry exists, otherwise like `call`'
call\t'Call Register on kubelet.sock, and again after each restart of the kubelet'
watcher\t'Create a socket in the kubelet\'s directory plugins_registry, which the kubelet watches'"
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l device-config -l config-file -d 'Configuration file of the SR-IOV device plugin (resourceList) or of the shared RDMA device plugin (configList), or a directory of such files. If a directory contains a file named after the node, only that file is used. Changes take effect immediately. Can be repeated. Defaults to /etc/ferroband/devices if that directory exists' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l resource-prefix -d 'Prefix of the resource names for resourceList entries without resourcePrefix' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l rdma-resource -d 'Name of the resource that gives a pod all RDMA devices of the node' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l rdma-count -d 'Number of pods on the node that may use --rdma-resource at the same time; 0 disables the resource' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -l use-cdi -d 'Pass CDI device names to the container runtime instead of device files'
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand device-plugin" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -f -a "apply" -d 'Apply the CRDs to the cluster (server-side apply) and wait until they are established'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -f -a "print" -d 'Print the CRDs as YAML'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and not __fish_seen_subcommand_from apply print help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -l take-over -d 'Overwrite CRD fields that another field manager owns, and become their owner'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from apply" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -l dir -d 'Write one YAML file for each CRD to this directory, instead of printing the CRDs' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from print" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from help" -f -a "apply" -d 'Apply the CRDs to the cluster (server-side apply) and wait until they are established'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from help" -f -a "print" -d 'Print the CRDs as YAML'
complete -c ferroband -n "__fish_ferroband_using_subcommand crds; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l image -d 'Container image of both daemons' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l node-image -d 'Container image of the node daemon, if it differs: ferroband-tools contains mstconfig and opensm' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l alias -d 'Also install the CNI plugin under these names on every node. An existing file is kept as NAME.before-ferroband' -r -f -a "coordinator\t''
ib-sriov\t''
ipoib\t''
multus\t''
multus-shim\t''
rdma\t''
spiderpool\t''
whereabouts\t''"
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l simulate -d 'Simulate the InfiniBand hardware of this profile on every node' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l simulate-uplink -d 'Interface that connects the simulated fabrics of the nodes; without it each node has its own fabric' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l metrics-address -d 'Serve Prometheus metrics of every node at this address, for example 0.0.0.0:5711. Disabled by default' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l chart -d 'Write the Helm chart\'s templates to this directory, instead of printing the manifests' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand manifests" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l namespace -d 'Namespace in which Ferroband is installed; used only with --all-nodes' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l patience -d 'Maximum number of seconds to wait until Ferroband is removed from all nodes' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l hold -d 'Wait for SIGTERM when done, because a DaemonSet would restart a container that exits'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l all-nodes -d 'Remove Ferroband from all nodes of the cluster, through the API server'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -l without-records -d 'Continue although pools have more addresses than Whereabouts\' or Spiderpool\'s objects can hold. These systems must then not assign addresses of these pools while the pods run'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand uninstall" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s n -l namespace -d 'Show only pods of this namespace' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l node -d 'Show only the node of this name and its pods' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s o -l output -d 'Output format of the report' -r -f -a "table\t'Table with the most important columns'
wide\t'Table with all columns'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l kubeconfig -d 'Kubeconfig file; defaults to $KUBECONFIG, ~/.kube/config or the pod\'s service account' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l context -d 'Context of the kubeconfig to use; defaults to its current context' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand status" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -s o -l output -d 'Output format of the ports' -r -f -a "table\t'Table with the most important columns'
wide\t'Table with all columns'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand inspect" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -s o -l output -d 'Output format of the findings' -r -f -a "table\t'Table with the most important columns'
wide\t'Table with all columns'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l kubeconfig -d 'Kubeconfig file; defaults to $KUBECONFIG, ~/.kube/config or the pod\'s service account' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l context -d 'Context of the kubeconfig to use; defaults to its current context' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -s n -l namespace -d 'Namespace of the pods, and of NETWORK if it is given without a namespace' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l nodes -d 'Nodes of the two pods; by default the first two that are ready, schedulable and untainted' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l resource -d 'Resource that each pod requests, for example spidernet.io/ib=1. Can be repeated' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l image -d 'Image of the pods; it must contain `sleep` and `ping`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l timeout -d 'Time limit in seconds for the start of the first pod, and for the ping of the second' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l kubeconfig -d 'Kubeconfig file; defaults to $KUBECONFIG, ~/.kube/config or the pod\'s service account' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l context -d 'Context of the kubeconfig to use; defaults to its current context' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -l keep -d 'Do not delete the pods, for debugging; they end after three times --timeout'
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand verify" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -s o -l output -d 'Output format of the codes' -r -f -a "table\t'Table with the most important columns'
wide\t'Table with all columns'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand explain" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -s o -l output -d 'Output format of the members or partitions' -r -f -a "table\t'Table for reading in a terminal'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "list" -d 'List the partitions with their desired and programmed members and their access rules'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "show" -d 'Show the members and access rules of one partition'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "members" -d 'List the members of all partitions'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "diff" -d 'List the members that are not programmed as desired. Exits with 1 if there are any'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and not __fish_seen_subcommand_from list show members diff help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -s o -l output -d 'Output format of the members or partitions' -r -f -a "table\t'Table for reading in a terminal'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -s o -l output -d 'Output format of the members or partitions' -r -f -a "table\t'Table for reading in a terminal'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s n -l namespace -d 'List only members whose pod is in this namespace' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s o -l output -d 'Output format of the members or partitions' -r -f -a "table\t'Table for reading in a terminal'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from members" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -s o -l output -d 'Output format of the members or partitions' -r -f -a "table\t'Table for reading in a terminal'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from diff" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the partitions with their desired and programmed members and their access rules'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show the members and access rules of one partition'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "members" -d 'List the members of all partitions'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "diff" -d 'List the members that are not programmed as desired. Exits with 1 if there are any'
complete -c ferroband -n "__fish_ferroband_using_subcommand partition; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "up" -d 'Start the simulation; has no effect if it is already up'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "down" -d 'Stop the simulation and remove its interfaces, partitions and files'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "status" -d 'Show whether the simulation is up, and the state of its adapters'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "profile" -d 'Print the description of a profile in the format of `up --file`; without a name, list the profiles'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "move" -d 'Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`). The device returns to the host when that namespace is deleted'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "fabric" -d 'Act as the subnet manager: write the P_Key tables of all ports, read from standard input'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "unplug" -d 'Remove an adapter from its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "replug" -d 'Put an adapter back into its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "port" -d 'Change the link state of a port'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "vfs" -d 'Set the number of virtual functions of an adapter; existing ones are recreated'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "pkeys" -d 'Write the P_Key table of an adapter or virtual function, as a subnet manager does'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "count" -d 'Increment a port counter'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "netns" -d 'Set the RDMA netns mode (`rdma system set netns`)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and not __fish_seen_subcommand_from up down status profile move fabric unplug replug port vfs pkeys count netns help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l profile -d 'Hardware profile: default, connectx-6, dgx, ethernet, vpi' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l file -d 'YAML file that describes the hardware, instead of a profile' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l uplink -d 'Interface that connects the simulated fabrics of several hosts; without it this host has its own fabric' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l seed -d 'Seed for the GUIDs; must differ between hosts' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from up" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from down" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -s o -l output -d 'Output format of the state of the simulation' -r -f -a "table\t'Table for reading in a terminal'
json\t'All fields, as JSON'
yaml\t'All fields, as YAML'"
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from status" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from profile" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from move" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from fabric" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from unplug" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from replug" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -l port -d 'Port number, starting at 1' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from port" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from vfs" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from pkeys" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l by -d 'Value to add to the counter' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l port -d 'Port number, starting at 1' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -s h -l help -d 'Print help'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from count" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -l root -d 'Directory where the host\'s root file system is mounted' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from netns" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "up" -d 'Start the simulation; has no effect if it is already up'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "down" -d 'Stop the simulation and remove its interfaces, partitions and files'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show whether the simulation is up, and the state of its adapters'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "profile" -d 'Print the description of a profile in the format of `up --file`; without a name, list the profiles'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "move" -d 'Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`). The device returns to the host when that namespace is deleted'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "fabric" -d 'Act as the subnet manager: write the P_Key tables of all ports, read from standard input'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "unplug" -d 'Remove an adapter from its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "replug" -d 'Put an adapter back into its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "port" -d 'Change the link state of a port'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "vfs" -d 'Set the number of virtual functions of an adapter; existing ones are recreated'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "pkeys" -d 'Write the P_Key table of an adapter or virtual function, as a subnet manager does'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "count" -d 'Increment a port counter'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "netns" -d 'Set the RDMA netns mode (`rdma system set netns`)'
complete -c ferroband -n "__fish_ferroband_using_subcommand sim; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand completions" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand completions" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -l dir -d 'Existing directory to which the manual pages are written' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand man" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -l dir -d 'Directory to which the Markdown files are written; created if necessary' -r -F
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -l log -d 'Log filter in the syntax of tracing-subscriber\'s EnvFilter; daemons default to `info`, tools to `warn`' -r
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c ferroband -n "__fish_ferroband_using_subcommand reference" -s V -l version -d 'Print version'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "node" -d 'Run the node daemon'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "cluster" -d 'Run the cluster daemon'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "device-plugin" -d 'Run only the device plugin'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "crds" -d 'Manage the custom resource definitions of Ferroband'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "manifests" -d 'Print the manifests of Ferroband for `kubectl apply`'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "uninstall" -d 'Remove Ferroband from this node'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "status" -d 'Show the state of Ferroband in the cluster'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "inspect" -d 'Show the InfiniBand hardware of this node'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "doctor" -d 'Find problems and suggest fixes'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "verify" -d 'Test a network with a ping between two pods on two nodes'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "explain" -d 'Explain an error code'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "partition" -d 'Show the desired and actual members of the fabric\'s partitions'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "sim" -d 'Simulate InfiniBand hardware on this host'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "completions" -d 'Print shell completions'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "man" -d 'Write the manual pages'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "reference" -d 'Write the reference documentation as Markdown'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and not __fish_seen_subcommand_from node cluster device-plugin crds manifests uninstall status inspect doctor verify explain partition sim completions man reference help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from crds" -f -a "apply" -d 'Apply the CRDs to the cluster (server-side apply) and wait until they are established'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from crds" -f -a "print" -d 'Print the CRDs as YAML'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "list" -d 'List the partitions with their desired and programmed members and their access rules'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "show" -d 'Show the members and access rules of one partition'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "members" -d 'List the members of all partitions'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from partition" -f -a "diff" -d 'List the members that are not programmed as desired. Exits with 1 if there are any'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "up" -d 'Start the simulation; has no effect if it is already up'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "down" -d 'Stop the simulation and remove its interfaces, partitions and files'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "status" -d 'Show whether the simulation is up, and the state of its adapters'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "profile" -d 'Print the description of a profile in the format of `up --file`; without a name, list the profiles'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "move" -d 'Move an RDMA device to another network namespace (`rdma dev set DEVICE netns NETNS`). The device returns to the host when that namespace is deleted'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "fabric" -d 'Act as the subnet manager: write the P_Key tables of all ports, read from standard input'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "unplug" -d 'Remove an adapter from its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "replug" -d 'Put an adapter back into its slot'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "port" -d 'Change the link state of a port'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "vfs" -d 'Set the number of virtual functions of an adapter; existing ones are recreated'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "pkeys" -d 'Write the P_Key table of an adapter or virtual function, as a subnet manager does'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "count" -d 'Increment a port counter'
complete -c ferroband -n "__fish_ferroband_using_subcommand help; and __fish_seen_subcommand_from sim" -f -a "netns" -d 'Set the RDMA netns mode (`rdma system set netns`)'
