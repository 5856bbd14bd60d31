//! The daemon, put together.

use crate::{
    Error, Settings,
    address::{self, ApiStore, Evidence, Ledger, Probing},
    caches::{Foreign, Networks, Pods, Spiderpool, Surroundings, watch_granules},
    configure::{Configure, keep_configured},
    device_plugin::{DevicePlugin, Shown},
    discover::Sight,
    install,
    kubelet::Kubelet,
    node_object,
    observe::{
        Events, Status, condition,
        metrics::{Counters, Exporter},
    },
    opensm, owed,
    own::make_folders,
    partition,
    pools::Sources,
    ready,
    serve::{Decider, Socket},
    simulate,
};
use ferroband_attach::socket_path;
use ferroband_daemon::{client, tasks::Tasks};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::watch, task::spawn_blocking};
use tracing::{info, warn};

/// How long running ADDs may go on after the daemon is asked to stop. The pod's grace period is longer.
const FINISH: Duration = Duration::from_secs(20);

/// Run the daemon until SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let asked = stop_asked()?;
    make_folders(&settings.root)?;
    ready::withdraw(&settings.root)?;
    let host = blocking("looking at the hardware", {
        let settings = settings.clone();
        move || simulate::host(&settings)
    })
    .await?;
    let simulated = host.simulated();
    let mut tasks = Tasks::default();
    let stop = tasks.stop.clone();

    // What the node has, to the kubelet. Needs no API server.
    let (offer, policies) = watch::channel(Arc::default());
    let plugin = DevicePlugin {
        sight: Sight::of(host.as_ref()),
        hardware: host.clone(),
        kubelet: settings.kubelet(),
        sources: Sources { policies: Some(policies), ..settings.devices.clone() },
        cdi: settings.cdi,
    };
    let Shown { board, registered } = plugin.start(&mut tasks).await?;

    // What the API server has.
    let client = client().await.map_err(|e| Error::Config { source: Box::new(e) })?;
    let pods = Pods::new(client.clone());
    let networks = Networks::new(client.clone());
    let ledger = Arc::new(Ledger::of_node(&settings.node));
    tasks.start_endless("watch of pods", pods.clone().watch(settings.node.clone()));
    let spiderpool = Spiderpool::new(client.clone(), settings.node.clone());
    tasks.start_endless("watch of pools", spiderpool.clone().watch_pools());
    tasks.start_endless("watch of reserved addresses", spiderpool.clone().watch_reserved());
    tasks.start_endless("watch of namespaces", spiderpool.clone().watch_namespaces());
    tasks.start_endless("watch of this node", spiderpool.clone().watch_own());
    let foreign = Foreign::new(client.clone());
    tasks.start_endless("watch of Whereabouts' records", foreign.clone().watch());
    tasks.start_endless("watch of networks", networks.clone().watch());
    let surroundings = Surroundings::default();
    tasks.start_endless("watch of coordinators", surroundings.clone().watch_coordinator(client.clone()));
    tasks.start_endless("watch of services", surroundings.clone().watch_services(client.clone()));
    let own_node = surroundings.clone().read_node(client.clone(), settings.node.clone());
    tasks.start_endless("reading the node", own_node);
    tasks.start_endless("watch of granules", watch_granules(client.clone(), ledger.clone()));

    if let Some(address) = settings.metrics {
        let exporter = Exporter {
            counters: Counters { hardware: host.clone(), node: settings.node.clone() },
            notes: settings.kubelet().device_plugins(),
            pods: pods.owners().clone(),
        };
        tasks.start("metrics", exporter.serve(address, stop.clone()));
    }

    // What policies want of the node.
    let configure = Configure {
        hardware: host.clone(),
        firmware: ferroband_sim::firmware(&settings.root)?.into(),
        client: client.clone(),
        node: settings.node.clone(),
        namespace: settings.namespace.clone(),
        prefix: settings.devices.defaults.prefix.clone(),
        pods: pods.owners().clone(),
        kubelet: settings.kubelet().device_plugins(),
        board: board.clone(),
        pools: offer,
    };
    keep_configured(configure, &mut tasks)?;

    // Addresses.
    let store = ApiStore::new(client.clone());
    let (desk, committer) = address::open(settings.node.clone(), ledger.clone(), store);
    let nodes = committer.nodes();
    tasks.start_endless("committing addresses", committer.run());

    // Partitions.
    let object = Arc::new(partition::Object::new(client.clone(), settings.node.clone()));
    tasks.start_endless("watch of partitions", object.clone().watch());
    tasks.start_endless("this node's partitions", object.clone().keep(host.clone(), settings.root.clone()));
    let claims = partition::Claims::new(client.clone(), settings.node.clone());
    let guids = Arc::new(partition::Guids::new(claims, host.clone()));
    tasks.start_endless("giving back GUIDs", guids.clone().keep_given_back());
    let membership = Arc::new(partition::Partitions::new(object, host.clone(), guids, Handle::current()));

    let program = opensm::Program::new(&settings.root, &settings.opensm);
    let managing =
        opensm::keep(client.clone(), settings.node.clone(), settings.root.clone(), host.clone(), program);
    tasks.start_endless("this node's subnet manager", managing);

    let (told_asserted, asserted) = watch::channel(false);
    let evidence = Evidence {
        root: settings.root.clone(),
        namespaces: address::sandboxes::folders(),
        node: settings.node.clone(),
        ledger: ledger.clone(),
        desk: desk.clone(),
        pods: pods.shared(),
        membership: membership.clone(),
        asserted: told_asserted,
    };
    tasks.start("holding granules against journals", evidence.keep_confirmed(stop.clone()));

    let settling = owed::keep_settled(settings.root.clone(), desk.clone(), membership.clone(), stop.clone());
    tasks.start("settling debts", settling);
    let counting = node_object::keep(client.clone(), settings.node.clone(), simulated, nodes);
    tasks.start_endless("the node's object", counting);

    tasks.start_endless(
        "the node's condition",
        condition::keep_told(client.clone(), settings.node.clone(), board),
    );

    // CNI calls.
    let decider = Arc::new(Decider {
        hardware: Some(host.clone()),
        host,
        membership,
        surroundings,
        net_d: settings.net_d(),
        conf_d: settings.root.path("etc/cni/multus/net.d"),
        policy: settings.policy.clone(),
        kubelet: Kubelet::of(&settings.root),
        pods,
        networks,
        spiderpool,
        foreign,
        probing: Probing::of_variables(|name| std::env::var(name).ok()),
        asserted,
        ledger,
        desk,
        events: Events::new(client.clone(), settings.node.clone()),
        status: Status::new(client),
    });
    let socket = Socket::open(&socket_path(&settings.root), decider.clone(), Handle::current())?;

    // The runtime is sent to us once an ADD could succeed.
    let (told_configured, configured) = watch::channel(false);
    let installing = {
        let (settings, stop) = (settings.clone(), stop.clone());
        async move {
            if stop.run_until_cancelled(decider.caches_complete()).await.is_none() {
                return Ok(());
            }
            let (root, net_d) = (settings.root.clone(), settings.net_d());
            blocking("installing the CNI program", move || {
                install::stay(&settings.root)?;
                match &settings.cni_program {
                    Some(program) => install::binaries(program, &settings.programs(), &settings.aliases),
                    None => Ok(()),
                }
            })
            .await?;
            install::keep_conflist(root, net_d, told_configured, stop).await
        }
    };
    tasks.start("installing", installing);
    let conditions = ready::Conditions { configured, registered };
    tasks.start("readiness", ready::keep_told(settings.root.clone(), conditions, stop.clone()));

    let ended = tasks.until(asked).await;
    info!("stopping");
    let running = socket.close();
    if ended.is_ok() {
        let finished = blocking("finishing CNI calls", move || Ok(running.wait(FINISH))).await?;
        if !finished {
            warn!("CNI calls are still running; they will be tried again");
        }
    }
    tasks.end().await;
    ended
}

/// Completes when the daemon is asked to stop.
pub(crate) fn stop_asked() -> Result<impl Future<Output = ()>, Error> {
    let failed = |e: std::io::Error| Error::Task { task: "waiting for signals", source: Some(Box::new(e)) };
    ferroband_daemon::stop_asked().map_err(failed)
}

async fn blocking<T: Send + 'static>(
    task: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|e| Error::Task { task, source: Some(Box::new(e)) })?
}
