//! What the answers are made from.

use super::Membership;
use crate::{
    address::{Desk, Ledger, Probing},
    caches::{Around, Foreign, Networks, PodFacts, Pods, Spiderpool, Surroundings},
    discover::Inventory,
    kubelet::Kubelet,
    observe::{Events, Status},
    plan::{
        Chosen, DefaultChoice, Given, Ipam, Legacy, Planned, Policy, Wanted, first, interface_of, make,
        selections, settle_uid, within,
    },
};
use ferroband_address::Release;
use ferroband_api::annotation::NETWORKS;
use ferroband_attach::{
    Unbroken,
    message::{Call, Member, Outcome},
    plan::{Assigned, Doer, Plan},
};
use ferroband_kernel::{Hardware, Host, Netns};
use ferroband_model::{Fault, FaultCode, PodRef};
use serde_json::Map;
use std::{future::Future, os::fd::OwnedFd, path::PathBuf, sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::watch, time::timeout};
use tracing::warn;

/// How long an ADD waits for the caches of a daemon that has just started.
const WARM_UP: Duration = Duration::from_secs(10);
/// How long a DEL waits for its release; after that the addresses are owed and settled later. Less than the two
/// seconds that the CNI side listens, so that it hears of it.
const RELEASE: Duration = Duration::from_millis(1500);

/// Longer than any call.
const FOREVER: Duration = Duration::from_secs(3600);

/// Everything that a CNI call needs of the daemon.
pub struct Decider {
    /// The machine.
    pub host: Arc<dyn Host>,
    /// Its adapters, if it has any.
    pub hardware: Option<Arc<dyn Hardware>>,
    /// Who brings the ports of pods into their partitions.
    pub membership: Arc<dyn Membership>,
    /// The folder of the default network's configuration.
    pub net_d: PathBuf,
    /// The folder of the configurations that definitions leave to the node.
    pub conf_d: PathBuf,
    /// What the administrator decided.
    pub policy: Policy,
    /// Who knows the devices of pods.
    pub kubelet: Kubelet,
    /// The pods of this node.
    pub pods: Pods,
    /// The network attachment definitions.
    pub networks: Networks,
    /// Pools of addresses, and who may use them.
    pub spiderpool: Spiderpool,
    /// What pods reach through this node.
    pub surroundings: Surroundings,
    /// What is known of the granules.
    pub ledger: Arc<Ledger>,
    /// Where addresses are had.
    pub desk: Desk,
    /// What is asked on the wire.
    pub probing: Probing,
    /// Records of Whereabouts.
    pub foreign: Foreign,
    /// Whether what lives here stands in the granules.
    pub asserted: watch::Receiver<bool>,
    /// Where failures are told.
    pub events: Events,
    /// Where successes are recorded.
    pub status: Status,
}

impl Decider {
    /// The plan for an ADD, and the pod as the API server knows it.
    pub fn plan(&self, call: &Call, runtime: &Handle) -> Result<(Planned, PodRef), Fault> {
        let asked = pod_of(call)?;
        let policy = self.policy.with_config(&call.config)?;
        let (facts, found) = runtime.block_on(async {
            self.warm().await?;
            let facts = self.pod(asked).await?;
            let found = self.definitions(asked, &facts, &policy, call).await?;
            Ok::<_, Fault>((facts, found))
        })?;
        let pod = settle_uid(asked, &facts)?;
        let (default, networks) = self.chosen(found, call)?;
        let mut devices = self.devices(&pod, &default, &networks, runtime)?;
        let around = match leaves_to_pools(&default, &networks) {
            true => Some(runtime.block_on(self.spiderpool.around(&pod.namespace, homes(&policy)))?),
            false => None,
        };
        let none = Map::new();
        let legacy = Legacy::read(self.host.root(), self.foreign.taken());
        let mut given = Given {
            pod: &pod,
            facts: &facts,
            container: &call.container,
            ifname: &call.ifname,
            default: &default,
            runtime_config: call.config.get("runtimeConfig").and_then(|c| c.as_object()).unwrap_or(&none),
            networks: &networks,
            around: around.as_ref(),
            legacy: &legacy,
        };
        let reread;
        let mut planned = match make(&given, &mut devices.clone()) {
            Err(fault) if fault.code == FaultCode::NoPool && around.is_some() => {
                reread = runtime
                    .block_on(self.spiderpool.reread(around.clone().unwrap_or_default()))
                    .map_err(|_| fault)?;
                given.around = Some(&reread);
                make(&given, &mut devices)?
            }
            made => made?,
        };
        for warning in planned.wanted.iter().flat_map(|wanted| wanted.ipam.warnings()) {
            warn!(%warning, "in an ipam object");
        }
        self.check_parents(&planned.plan)?;
        planned.plan.membership = self.membership.begin(&planned.plan, &call.container)?;
        Ok((planned, PodRef { uid: facts.uid.clone(), ..pod }))
    }

    /// A parent that is missing is told before anything is made.
    fn check_parents(&self, plan: &Plan) -> Result<(), Fault> {
        for attachment in &plan.attachments {
            for step in &attachment.steps {
                if let Doer::Ipoib { child, .. } = &step.by {
                    let parent = self.host.ipoib_parent(&child.parent);
                    parent.map_err(|e| within(&attachment.network, self.with_choice(e.fault())))?;
                }
            }
        }
        Ok(())
    }

    /// A name that is wrong is best mended by seeing the right ones.
    fn with_choice(&self, fault: Fault) -> Fault {
        if fault.code != FaultCode::NoParent {
            return fault;
        }
        let inventory = Inventory::read(self.host.root(), self.host.simulated()).unwrap_or_default();
        let names: Vec<String> = inventory.devices.into_iter().flat_map(|device| device.netdevs).collect();
        if names.is_empty() {
            return fault;
        }
        let remedy = format!("set `master` to an interface that this node has: {}", names.join(", "));
        Fault { remedy, ..fault }
    }

    /// Assign the addresses of a plan. All networks at once: they are one sandbox's, all or none.
    pub fn addresses(
        &self,
        wanted: Vec<Wanted>,
    ) -> impl Future<Output = Result<Vec<Assigned>, Fault>> + use<> {
        let desk = self.desk.clone();
        async move {
            let names: Vec<_> = wanted.iter().map(|wanted| wanted.network.as_str()).collect();
            let what = match names.as_slice() {
                [name] => format!("network {name}"),
                names => format!("networks {}", names.join(", ")),
            };
            let requests = wanted.iter().flat_map(|wanted| wanted.requests.clone()).collect();
            let mut places = desk.assign(what, requests).await?.into_iter();
            let share = |wanted: &Wanted| {
                let places = places.by_ref().take(wanted.requests.len()).collect();
                wanted.assigned(places)
            };
            Ok(wanted.iter().map(share).collect())
        }
    }

    /// Assign the addresses of one interface, for a plugin that delegates to us.
    pub async fn assign(&self, call: &Call) -> Result<Assigned, Fault> {
        let asked = pod_of(call)?;
        self.warm().await?;
        let facts = self.pod(asked).await?;
        let pod = settle_uid(asked, &facts)?;
        let policy = self.policy.with_config(&call.config)?;
        let interface = interface_of(&selections(&facts, &pod.namespace, &policy)?, &call.ifname);
        let none = Map::new();
        let around = match Ipam::needs_pools(call.config.as_object().unwrap_or(&none)) {
            true => Some(self.spiderpool.around(&pod.namespace, homes(&policy)).await?),
            false => None,
        };
        let legacy = Legacy::read(self.host.root(), self.foreign.taken());
        let wanted =
            |around: Option<&Around>| Wanted::of_call(call, &pod, &facts, &interface, around, &legacy);
        let wanted = match (wanted(around.as_ref()), around) {
            (Err(fault), Some(around)) if fault.code == FaultCode::NoPool => {
                let around = self.spiderpool.reread(around).await.map_err(|_| fault)?;
                wanted(Some(&around))?
            }
            (wanted, _) => wanted?,
        };
        let places = self.desk.assign(format!("network {}", wanted.network), wanted.requests.clone()).await?;
        Ok(wanted.assigned(places))
    }

    /// Wait until the ports of a pod are in their partitions. One that is deleted meanwhile waits no more: the kubelet does not
    /// take its sandbox down before this call has ended.
    pub async fn join(&self, plan: &Plan, members: &[Member]) -> Result<(), Fault> {
        let pod = &plan.pod;
        let leaves = |facts: &PodFacts| facts.uid == pod.uid && facts.leaving;
        let leaving = self.pods.cache().await_object(&pod.namespace, &pod.name, FOREVER, leaves);
        tokio::select! {
            joined = self.membership.await_member(plan, members) => joined,
            _ = leaving => Err(Fault::new(
                FaultCode::PodNotFound,
                format!("pod {pod}"),
                "it is deleted while it waits for its partitions",
                "nothing",
            )),
        }
    }

    /// Do what the CNI side must not do itself. "Here" is the host's network namespace.
    pub fn unbroken(&self, work: &Unbroken, sandbox: Option<OwnedFd>) -> Result<(), Fault> {
        let hardware = self.hardware.as_deref().ok_or_else(|| ferroband_kernel::Error::NoRdma.fault())?;
        let sandbox = sandbox.map(Netns::from_fd).transpose().map_err(|e| e.fault())?;
        work.perform(hardware.root(), hardware, sandbox.as_ref()).map_err(|e| e.fault())
    }

    /// Free what a sandbox, or one interface of it, held. A fault means that it is owed.
    pub async fn release(&self, container: String, interface: Option<String>) -> Result<(), Fault> {
        let what = format!("addresses of sandbox {container}");
        self.membership.end(&container, interface.as_deref());
        if self.desk.release(Release { container, interface }, RELEASE).await {
            return Ok(());
        }
        Err(Fault::new(
            FaultCode::ApiUnavailable,
            what,
            "the API server did not take the release in time",
            "nothing: it is done when the API server is back",
        ))
    }

    /// Record on the pod what it got.
    pub async fn record(&self, plan: &Plan, known: &PodRef, outcomes: &[Outcome]) -> Result<(), Fault> {
        let facts =
            self.pods.cache().get(&known.namespace, &known.name).filter(|facts| facts.uid == known.uid);
        let asked = facts.as_ref().and_then(|facts| facts.annotations.get(NETWORKS)).map(String::as_str);
        let marks = self.membership.marks(plan);
        self.status.record(plan, known, outcomes, asked.map(|asked| (asked, marks.as_slice()))).await
    }

    /// Tell the pod's readers what went wrong. Not waited for: the CNI side has the fault already.
    pub fn tell_failure(&self, pod: Option<&PodRef>, fault: &Fault, runtime: &Handle) {
        let Some(pod) = pod.cloned() else { return };
        let known = self.pods.cache().get(&pod.namespace, &pod.name);
        let pod = match known {
            Some(facts) if !facts.uid.is_empty() => PodRef { uid: facts.uid.clone(), ..pod },
            _ => pod,
        };
        runtime.spawn(self.events.clone().warn(pod, fault.clone()));
    }

    /// Whether an ADD could be served.
    pub fn ready(&self) -> Result<(), Fault> {
        let waiting = if !self.pods.cache().is_complete() {
            "the pods of this node"
        } else if !self.networks.cache().is_complete() {
            "the network attachment definitions"
        } else if !self.ledger.is_complete() {
            "the address granules"
        } else if !self.foreign.cache().is_complete() {
            "the records of Whereabouts"
        } else {
            return first(&self.net_d).map(|_| ());
        };
        Err(not_warm(waiting))
    }

    /// Returns once every cache has been filled; also waited for before the runtime is sent to us.
    pub async fn caches_complete(&self) {
        self.pods.cache().complete().await;
        self.networks.cache().complete().await;
        self.ledger.complete().await;
        self.foreign.cache().complete().await;
        // After a restore of etcd, what lives here is written down again before anything new is given out.
        let _ = self.asserted.clone().wait_for(|asserted| *asserted).await;
    }

    async fn warm(&self) -> Result<(), Fault> {
        match timeout(WARM_UP, self.caches_complete()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ready().err().unwrap_or_else(|| not_warm("its objects"))),
        }
    }

    async fn pod(&self, pod: &PodRef) -> Result<Arc<PodFacts>, Fault> {
        let found = self.pods.find(pod).await.map_err(|e| e.fault())?;
        found.ok_or_else(|| {
            Fault::new(
                FaultCode::PodNotFound,
                format!("pod {pod}"),
                "the API server does not know it",
                "nothing if it was just deleted; else check that runtime and daemon use the same cluster",
            )
        })
    }
}

/// Whether a network leaves its addresses to pools that are objects.
fn leaves_to_pools(default: &DefaultChoice, networks: &[Chosen]) -> bool {
    let default = match default {
        DefaultChoice::Chosen(chosen) => Some(chosen.as_ref()),
        DefaultChoice::Wrapped(_) => None,
    };
    let mut all = default.into_iter().chain(networks);
    all.any(|chosen| chosen.config.plugins.iter().any(Ipam::needs_pools))
}

/// Where a network is looked for that a pool names without a namespace.
fn homes(policy: &Policy) -> Vec<String> {
    vec![policy.namespace.clone(), "kube-system".to_owned(), "spiderpool".to_owned()]
}

fn pod_of(call: &Call) -> Result<&PodRef, Fault> {
    call.pod.as_ref().ok_or_else(|| {
        Fault::new(
            FaultCode::BadCall,
            format!("sandbox {}", call.container),
            "CNI_ARGS names no pod (K8S_POD_NAMESPACE, K8S_POD_NAME)",
            "call Ferroband from a Kubernetes runtime",
        )
    })
}

fn not_warm(waiting: &str) -> Fault {
    Fault::new(
        FaultCode::ApiUnavailable,
        "node daemon",
        format!("the API server has not yet sent {waiting}"),
        "the pod is tried again by itself; check that the API server is up and `ferroband crds apply` was run",
    )
}
