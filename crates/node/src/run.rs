//! Starts and stops the node daemon.

use crate::{
    Error, NodeSettings,
    address::{self, ApiBlockStore, AssignmentGate, DetectionSettings, OwnBlocks},
    advertise::DeviceState,
    caches::{CoordinatorDefaults, NetworkDefinitionCache, NodePodCache, SpiderpoolCache},
    configure::{ConfiguratorInputs, start_configurator},
    device_plugin::{DevicePluginConfig, DevicePluginStatus},
    discover::DiscoveryRoots,
    error::blocking,
    etcd_restore::{RestoreCoordinator, keep_revision_file, load_revision_history},
    evidence::{self, Evidence},
    hardware, install,
    kubelet::PodResourcesClient,
    node_labels,
    observe::{
        NetworkStatusWriter, NodeCondition, PodEventRecorder,
        metrics::{MetricsExporter, RdmaCounterCollector},
        write_pending_statuses,
    },
    opensm, partition, pending_release,
    pools::PoolSources,
    readiness,
    resolve::PodResolver,
    serve::{CniHandler, CniSocket},
    state_dirs::create_private_dirs,
};
use ferroband_attach::socket_path;
use ferroband_daemon::{AddressStateView, RevisionWatch, api_client, tasks::TaskSet, watch_address_state};
use kube::Api;
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::watch};
use tracing::{info, warn};

/// How long running CNI calls may continue after SIGTERM. The termination grace period of the daemon's pod is
/// longer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the daemon until SIGTERM or SIGINT.
pub async fn run(settings: NodeSettings) -> Result<(), Error> {
    let stop_requested = install::termination_signal()?;
    create_private_dirs(&settings.root)?;
    readiness::remove_ready_file(&settings.root)?;
    let host = blocking("opening the hardware", {
        let settings = settings.clone();
        move || hardware::open_hardware(&settings)
    })
    .await??;
    let simulated = host.is_simulated();
    let mut tasks = TaskSet::default();
    let stop = tasks.stop.clone();

    // Discover devices and advertise them to the kubelet. This works without the API server.
    let (policy_pools_sender, policy_pools) = watch::channel(Arc::default());
    let plugin = DevicePluginConfig {
        roots: DiscoveryRoots::of_host(host.as_ref()),
        hardware: host.clone(),
        kubelet: settings.kubelet(),
        sources: PoolSources { policies: Some(policy_pools), ..settings.devices.clone() },
        cdi: settings.cdi,
    };
    let DevicePluginStatus { devices, registered } = plugin.start(&mut tasks).await?;

    // Watch the API objects that CNI calls need, such as pods, networks and pools.
    let client = api_client().await.map_err(|e| Error::Config { source: Box::new(e) })?;
    let pods = NodePodCache::new(client.clone());
    let networks = NetworkDefinitionCache::new(client.clone());
    tasks.start_endless("pod watch", pods.clone().watch(settings.node.clone()));
    let spiderpool = SpiderpoolCache::new(client.clone(), settings.node.clone());
    tasks.start_endless("pool watch", spiderpool.clone().watch_pools());
    tasks.start_endless("reserved address watch", spiderpool.clone().watch_reserved());
    tasks.start_endless("namespace watch", spiderpool.clone().watch_namespaces());
    tasks.start_endless("node watch", spiderpool.clone().watch_node());
    tasks.start_endless("network watch", networks.clone().watch());
    let coordinator_context = CoordinatorDefaults::default();
    tasks.start_endless("coordinator watch", coordinator_context.clone().watch_coordinator(client.clone()));
    tasks.start_endless("service watch", coordinator_context.clone().watch_service_cidrs(client.clone()));
    let pod_cidrs = coordinator_context.clone().read_pod_cidrs(client.clone(), settings.node.clone());
    tasks.start_endless("pod CIDRs", pod_cidrs);

    if let Some(address) = settings.metrics {
        let exporter = MetricsExporter {
            counters: RdmaCounterCollector { hardware: host.clone(), node: settings.node.clone() },
            device_plugins_dir: settings.kubelet().device_plugins_dir(),
            pods: pods.owners().clone(),
        };
        tasks.start("metrics", exporter.serve(address, stop.clone()));
    }

    // Claim the GUIDs that pods request, and release them.
    let claims = partition::GuidClaimClient::new(client.clone(), settings.node.clone());
    let guids = Arc::new(partition::RequestedGuids::new(claims, host.clone()));
    tasks.start_endless("GUID release", guids.clone().run_release_loop());

    // Configure adapters as this node's SriovNetworkNodeState requests.
    let configure = ConfiguratorInputs {
        hardware: host.clone(),
        firmware: ferroband_sim::firmware(&settings.root)?.into(),
        client: client.clone(),
        node: settings.node.clone(),
        namespace: settings.namespace.clone(),
        prefix: settings.devices.defaults.prefix.clone(),
        pods: pods.owners().clone(),
        requested_guids: guids.clone(),
        device_plugins_dir: settings.kubelet().device_plugins_dir(),
        devices: devices.clone(),
        pools: policy_pools_sender,
    };
    start_configurator(configure, &mut tasks)?;

    // Start the address allocator, which writes allocations to the address blocks in batches.
    let revisions = Arc::new(RevisionWatch::new(load_revision_history(&settings.root)));
    let gate = AssignmentGate::default();
    let blocks = Arc::new(OwnBlocks::new(&settings.node));
    let store = ApiBlockStore::new(client.clone(), revisions.clone());
    let (allocator, batch_writer) = address::create_allocator(blocks.clone(), gate.clone(), store);
    let node_count = batch_writer.node_count();
    tasks.start_endless("address batch writer", batch_writer.run());

    // Keep this node's NodePartitions object current. It lists the node's ports that are members of
    // partitions.
    let node_partitions = Arc::new(partition::NodePartitionsSync::new(client.clone(), settings.node.clone()));

    // Assign no addresses while etcd may have lost those of running pods.
    let (epoch_sender, epoch) = watch::channel(String::new());
    let (asserted_sender, asserted) = watch::channel(None);
    let (state_sender, address_state) = watch::channel(AddressStateView::default());
    let coordinator = RestoreCoordinator::new(
        (revisions.clone(), address_state),
        gate.clone(),
        node_partitions.clone(),
        (epoch_sender, asserted.clone()),
        node_count,
    );
    tasks.start_endless("etcd restore", coordinator.run());
    let watching = watch_address_state(client.clone(), revisions.clone(), state_sender);
    tasks.start_endless("AddressState watch", watching);
    tasks.start_endless("etcd revision", keep_revision_file(settings.root.clone(), revisions));

    tasks.start_endless("partition watch", node_partitions.clone().run_watches());
    tasks.start_endless(
        "NodePartitions writer",
        node_partitions.clone().run_writer(host.clone(), settings.root.clone()),
    );
    let membership = Arc::new(partition::NodePartitionMembership::new(
        node_partitions,
        host.clone(),
        guids,
        settings.policy.tenants.clone(),
        Handle::current(),
    ));

    let program = opensm::OpensmProgram::new(&settings.root, &settings.opensm);
    let opensm_controller = opensm::run_opensm_controller(
        client.clone(),
        settings.node.clone(),
        settings.root.clone(),
        host.clone(),
        program,
    );
    tasks.start_endless("opensm controller", opensm_controller);

    let evidence = Evidence {
        root: settings.root.clone(),
        netns_dirs: evidence::sandboxes::default_netns_dirs(),
        node: settings.node.clone(),
        blocks: blocks.clone(),
        allocator: allocator.clone(),
        pods: pods.shared_cache(),
        membership: membership.clone(),
        epoch,
        asserted: asserted_sender,
        gate,
    };
    tasks.start_endless("allocation evidence", evidence.run());

    let retrying =
        pending_release::retry_pending_releases(settings.root.clone(), allocator.clone(), membership.clone());
    tasks.start_until_stop("pending releases", retrying);
    let network_status = NetworkStatusWriter::new(client.clone());
    let statuses = write_pending_statuses(settings.root.clone(), pods.clone(), network_status.clone());
    tasks.start_until_stop("pending statuses", statuses);
    let labelling = node_labels::label_simulated_node(client.clone(), settings.node.clone(), simulated);
    tasks.start_endless("node labels", labelling);

    let nodes_api = Api::all(client.clone());
    let devices_condition = NodeCondition::devices(&settings.node);
    let problems = |devices: &Arc<DeviceState>| {
        devices.initialized.then(|| devices.problems.iter().map(ToString::to_string).collect())
    };
    tasks.start_endless(
        "device condition",
        devices_condition.keep_current(nodes_api.clone(), devices, problems),
    );

    // Serve CNI calls on the socket that ferroband-cni connects to.
    let handler = Arc::new(CniHandler {
        resolver: PodResolver {
            root: host.root().clone(),
            net_d: settings.net_d(),
            multus_conf_d: settings.root.path("etc/cni/multus/net.d"),
            policy: settings.policy.clone(),
            pod_resources: PodResourcesClient::new(&settings.root),
            pods,
            networks,
            spiderpool,
            coordinator_context,
            blocks,
            asserted,
        },
        hardware: Some(host.clone()),
        host,
        partitions: membership,
        allocator,
        probing: DetectionSettings::from_env(|name| std::env::var(name).ok()),
        events: PodEventRecorder::new(client, settings.node.clone()),
        network_status,
    });
    let socket = CniSocket::open(&socket_path(&settings.root), handler.clone(), Handle::current())?;

    // Install the CNI configuration only once an ADD can succeed.
    let (configured_sender, configured) = watch::channel(install::ConflistStatus::default());
    let installation = {
        let settings = settings.clone();
        async move {
            handler.resolver.wait_for_caches().await;
            let (root, net_d, plain_pods) =
                (settings.root.clone(), settings.net_d(), settings.policy.plain_pods());
            blocking("installing the CNI binaries", move || {
                install::cancel_uninstall(&settings.root)?;
                install::install_host_rules(&settings.root);
                match &settings.cni_program {
                    Some(program) => {
                        install::install_binaries(program, &settings.cni_bin_dir(), &settings.aliases)
                    }
                    None => Ok(()),
                }
            })
            .await??;
            install::keep_conflist(root, net_d, plain_pods, configured_sender).await;
            Ok(())
        }
    };
    tasks.start_until_stop("CNI installation", installation);
    let conflist_condition = NodeCondition::conflist(&settings.node);
    let problems = |status: &install::ConflistStatus| {
        (status.installed || status.problem.is_some()).then(|| status.problem.iter().cloned().collect())
    };
    tasks.start_endless(
        "CNI configuration condition",
        conflist_condition.keep_current(nodes_api, configured.clone(), problems),
    );
    let conditions = readiness::ReadinessConditions { configured, registered };
    tasks.start("readiness", readiness::keep_ready_file(settings.root.clone(), conditions, stop.clone()));

    let ended = tasks.run_until(stop_requested).await;
    info!("stopping");
    socket.close();
    if ended.is_ok() && !socket.wait_idle(DRAIN_TIMEOUT).await {
        warn!("stopping while CNI calls are still running; the kubelet will retry them");
    }
    tasks.stop_all().await;
    if let Err(e) = install::remove_own_files(&settings.root) {
        warn!(error = %crate::error_chain(&e), "cannot remove all files of the uninstalled daemon");
    }
    ended
}
