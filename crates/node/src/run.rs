//! The daemon, put together.

use crate::{
    Error, NodeSettings,
    address::{self, AddressBlockCache, ApiBlockStore, DetectionSettings, Evidence},
    caches::{
        CoordinatorDefaults, NetworkDefinitionCache, NodePodCache, SpiderpoolCache, WhereaboutsRecords,
        watch_granules,
    },
    configure::{ConfiguratorInputs, start_configurator},
    device_plugin::{DevicePluginConfig, DevicePluginStatus},
    discover::DiscoveryRoots,
    hardware, install,
    kubelet::PodResourcesClient,
    node_labels,
    observe::{
        NetworkStatusWriter, PodEventRecorder, condition,
        metrics::{MetricsExporter, RdmaCounterCollector},
    },
    opensm, partition, pending_release,
    pools::PoolSources,
    readiness,
    serve::{CniHandler, CniSocket},
    state_dirs::create_private_dirs,
};
use ferroband_attach::socket_path;
use ferroband_daemon::{api_client, tasks::TaskSet};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::watch, task::spawn_blocking};
use tracing::{info, warn};

/// How long running ADDs may go on after the daemon is asked to stop. The pod's grace period is longer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Run the daemon until SIGTERM or SIGINT.
pub async fn run(settings: NodeSettings) -> Result<(), Error> {
    let asked = stop_signal()?;
    create_private_dirs(&settings.root)?;
    readiness::remove_ready_file(&settings.root)?;
    let host = blocking("looking at the hardware", {
        let settings = settings.clone();
        move || hardware::open_hardware(&settings)
    })
    .await?;
    let simulated = host.is_simulated();
    let mut tasks = TaskSet::default();
    let stop = tasks.stop.clone();

    // What the node has, to the kubelet. Needs no API server.
    let (offer, policies) = watch::channel(Arc::default());
    let plugin = DevicePluginConfig {
        roots: DiscoveryRoots::of_host(host.as_ref()),
        hardware: host.clone(),
        kubelet: settings.kubelet(),
        sources: PoolSources { policies: Some(policies), ..settings.devices.clone() },
        cdi: settings.cdi,
    };
    let DevicePluginStatus { devices: board, registered } = plugin.start(&mut tasks).await?;

    // What the API server has.
    let client = api_client().await.map_err(|e| Error::Config { source: Box::new(e) })?;
    let pods = NodePodCache::new(client.clone());
    let networks = NetworkDefinitionCache::new(client.clone());
    let ledger = Arc::new(AddressBlockCache::for_node(&settings.node));
    tasks.start_endless("watch of pods", pods.clone().watch(settings.node.clone()));
    let spiderpool = SpiderpoolCache::new(client.clone(), settings.node.clone());
    tasks.start_endless("watch of pools", spiderpool.clone().watch_pools());
    tasks.start_endless("watch of reserved addresses", spiderpool.clone().watch_reserved());
    tasks.start_endless("watch of namespaces", spiderpool.clone().watch_namespaces());
    tasks.start_endless("watch of this node", spiderpool.clone().watch_node());
    let foreign = WhereaboutsRecords::new(client.clone());
    tasks.start_endless("watch of Whereabouts' records", foreign.clone().watch());
    tasks.start_endless("watch of networks", networks.clone().watch());
    let surroundings = CoordinatorDefaults::default();
    tasks.start_endless("watch of coordinators", surroundings.clone().watch_coordinator(client.clone()));
    tasks.start_endless("watch of services", surroundings.clone().watch_service_cidrs(client.clone()));
    let own_node = surroundings.clone().read_pod_cidrs(client.clone(), settings.node.clone());
    tasks.start_endless("reading the node", own_node);
    tasks.start_endless("watch of granules", watch_granules(client.clone(), ledger.clone()));

    if let Some(address) = settings.metrics {
        let exporter = MetricsExporter {
            counters: RdmaCounterCollector { hardware: host.clone(), node: settings.node.clone() },
            device_plugins_dir: settings.kubelet().device_plugins_dir(),
            pods: pods.owners().clone(),
        };
        tasks.start("metrics", exporter.serve(address, stop.clone()));
    }

    // What policies want of the node.
    let configure = ConfiguratorInputs {
        hardware: host.clone(),
        firmware: ferroband_sim::firmware(&settings.root)?.into(),
        client: client.clone(),
        node: settings.node.clone(),
        namespace: settings.namespace.clone(),
        prefix: settings.devices.defaults.prefix.clone(),
        pods: pods.owners().clone(),
        device_plugins_dir: settings.kubelet().device_plugins_dir(),
        devices: board.clone(),
        pools: offer,
    };
    start_configurator(configure, &mut tasks)?;

    // Addresses.
    let store = ApiBlockStore::new(client.clone());
    let (desk, committer) = address::create_allocator(settings.node.clone(), ledger.clone(), store);
    let nodes = committer.node_count();
    tasks.start_endless("committing addresses", committer.run());

    // Partitions.
    let object = Arc::new(partition::NodePartitionsSync::new(client.clone(), settings.node.clone()));
    tasks.start_endless("watch of partitions", object.clone().run_watches());
    tasks.start_endless(
        "this node's partitions",
        object.clone().run_writer(host.clone(), settings.root.clone()),
    );
    let claims = partition::GuidClaimClient::new(client.clone(), settings.node.clone());
    let guids = Arc::new(partition::GuidLeaseManager::new(claims, host.clone()));
    tasks.start_endless("giving back GUIDs", guids.clone().run_release_loop());
    let membership =
        Arc::new(partition::NodePartitionMembership::new(object, host.clone(), guids, Handle::current()));

    let program = opensm::OpensmProgram::new(&settings.root, &settings.opensm);
    let managing = opensm::run_opensm_controller(
        client.clone(),
        settings.node.clone(),
        settings.root.clone(),
        host.clone(),
        program,
    );
    tasks.start_endless("this node's subnet manager", managing);

    let (told_asserted, asserted) = watch::channel(false);
    let evidence = Evidence {
        root: settings.root.clone(),
        netns_dirs: address::sandboxes::default_netns_dirs(),
        node: settings.node.clone(),
        blocks: ledger.clone(),
        allocator: desk.clone(),
        pods: pods.shared_cache(),
        membership: membership.clone(),
        allocations_restored: told_asserted,
    };
    tasks.start("holding granules against journals", evidence.run(stop.clone()));

    let settling = pending_release::retry_pending_releases(
        settings.root.clone(),
        desk.clone(),
        membership.clone(),
        stop.clone(),
    );
    tasks.start("settling debts", settling);
    let counting =
        node_labels::label_and_count_nodes(client.clone(), settings.node.clone(), simulated, nodes);
    tasks.start_endless("the node's object", counting);

    tasks.start_endless(
        "the node's condition",
        condition::keep_condition_current(client.clone(), settings.node.clone(), board),
    );

    // CNI calls.
    let decider = Arc::new(CniHandler {
        hardware: Some(host.clone()),
        host,
        partitions: membership,
        coordinator_context: surroundings,
        net_d: settings.net_d(),
        multus_conf_d: settings.root.path("etc/cni/multus/net.d"),
        policy: settings.policy.clone(),
        pod_resources: PodResourcesClient::new(&settings.root),
        pods,
        networks,
        spiderpool,
        whereabouts_records: foreign,
        probing: DetectionSettings::from_env(|name| std::env::var(name).ok()),
        allocations_restored: asserted,
        blocks: ledger,
        allocator: desk,
        events: PodEventRecorder::new(client.clone(), settings.node.clone()),
        network_status: NetworkStatusWriter::new(client),
    });
    let socket = CniSocket::open(&socket_path(&settings.root), decider.clone(), Handle::current())?;

    // The runtime is sent to us once an ADD could succeed.
    let (told_configured, configured) = watch::channel(false);
    let installing = {
        let (settings, stop) = (settings.clone(), stop.clone());
        async move {
            if stop.run_until_cancelled(decider.wait_for_caches()).await.is_none() {
                return Ok(());
            }
            let (root, net_d) = (settings.root.clone(), settings.net_d());
            blocking("installing the CNI program", move || {
                install::cancel_uninstall(&settings.root)?;
                match &settings.cni_program {
                    Some(program) => install::binaries(program, &settings.cni_bin_dir(), &settings.aliases),
                    None => Ok(()),
                }
            })
            .await?;
            install::keep_conflist(root, net_d, told_configured, stop).await
        }
    };
    tasks.start("installing", installing);
    let conditions = readiness::ReadinessConditions { configured, registered };
    tasks.start("readiness", readiness::keep_ready_file(settings.root.clone(), conditions, stop.clone()));

    let ended = tasks.run_until(asked).await;
    info!("stopping");
    let running = socket.close();
    if ended.is_ok() {
        let finished = blocking("finishing CNI calls", move || Ok(running.wait_idle(DRAIN_TIMEOUT))).await?;
        if !finished {
            warn!("CNI calls are still running; they will be tried again");
        }
    }
    tasks.stop_all().await;
    ended
}

/// Completes when the daemon is asked to stop.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>, Error> {
    let failed = |e: std::io::Error| Error::Task { task: "waiting for signals", source: Some(Box::new(e)) };
    ferroband_daemon::shutdown_signal().map_err(failed)
}

async fn blocking<T: Send + 'static>(
    task: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|e| Error::Task { task, source: Some(Box::new(e)) })?
}
