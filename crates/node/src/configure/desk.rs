//! What touches the machine. It blocks, for seconds when functions are made: only on threads that may.

use super::{
    Adapter, GuidSource, Survey,
    apply::apply,
    due::{Due, due},
    held::{self, holders},
    offer::offer,
    record::Records,
    survey::survey,
    system::{MELLANOX, System, bring},
    want::Wanted,
};
use crate::{
    Error,
    caches::PodOwner,
    pools::{Kind, Pool},
};
use ferroband_api::sriov::Holder;
use ferroband_daemon::watching::Cache;
use ferroband_kernel::{Hardware, firmware::Firmware};
use ferroband_model::{Fault, FaultCode, PciAddress};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::sync::watch;

/// How long the kubelet gets to hear that a function is offered no longer.
const SETTLE: Duration = Duration::from_secs(1);

/// The machine, what is known of it, and whom it is offered to.
pub struct Desk {
    /// The hardware.
    pub hardware: Arc<dyn Hardware>,
    /// Its firmware.
    pub firmware: Arc<dyn Firmware>,
    /// What was before us.
    pub records: Records,
    /// Where GUIDs come from.
    pub guids: Arc<dyn GuidSource>,
    /// The kubelet's folder of device plugins.
    pub kubelet: PathBuf,
    /// The pods of the node.
    pub pods: Arc<Cache<PodOwner>>,
    /// Where the pools go.
    pub pools: watch::Sender<Arc<Vec<Pool>>>,
    /// The prefix of resources.
    pub prefix: String,
}

/// What a look shows.
#[derive(Default)]
pub struct Look {
    /// The hardware.
    pub survey: Survey,
    /// What can be done now.
    pub ready: BTreeMap<PciAddress, Due>,
    /// The pods that keep the rest from being done.
    pub holders: Vec<Holder>,
    /// What cannot be done.
    pub faults: Vec<Fault>,
    /// What comes into force with a reboot only.
    pub reboot: Vec<String>,
}

impl Desk {
    /// More rounds than any change takes: record, count, functions.
    pub const ROUNDS: usize = 6;

    /// Look at everything, and offer what is right.
    pub fn look(&self, wanted: &Wanted) -> Result<Look, Error> {
        let mut survey = survey(self.hardware.as_ref())?;
        let records = self.records.all()?;
        for adapter in &mut survey.adapters {
            if let Some(record) = records.get(&adapter.pci) {
                adapter.told.externally_managed = record.external.then_some(true);
                // An interface that changed its name is still the one that the policy named.
                let known: BTreeSet<_> =
                    adapter.told.name.iter().chain(&adapter.told.alt_names).cloned().collect();
                adapter
                    .told
                    .alt_names
                    .extend(record.names.iter().filter(|name| !known.contains(*name)).cloned());
            }
        }
        let System { reboot, faults: mut of_system } =
            bring(self.hardware.as_ref(), self.firmware.as_ref(), wanted, &survey)?;
        let mut faults = wanted.faults.clone();
        faults.append(&mut of_system);
        let live = self.live();
        let held: BTreeSet<PciAddress> = live.iter().flatten().map(|(pci, _)| *pci).collect();
        let mut dues = BTreeMap::new();
        for adapter in &survey.adapters {
            let (want, record) = (wanted.adapters.get(&adapter.pci), records.get(&adapter.pci));
            match due(want, adapter, record, self.guids.as_ref(), &held) {
                Ok(due) if due.is_nothing() => {}
                Ok(due) => drop(dues.insert(adapter.pci, due)),
                // The firmware was told, or said why not.
                Err(_) if want.is_some_and(|want| want.count > adapter.total) && asked(wanted, adapter) => {}
                Err(fault) => faults.push(fault),
            }
        }
        for pci in
            wanted.adapters.keys().filter(|pci| survey.adapters.iter().all(|adapter| adapter.pci != **pci))
        {
            faults.push(Fault::new(
                FaultCode::NoDevice,
                format!("adapter {pci}"),
                "it is not on this node any more",
                "put it back, or delete the policy",
            ));
        }
        let touched: BTreeSet<PciAddress> = dues.values().flat_map(|due| &due.touches).copied().collect();
        let live = match self.offer(wanted, &survey, &touched) {
            // Somebody may have got one in the last moment.
            true => {
                thread::sleep(SETTLE);
                self.live()
            }
            false => live,
        };
        let busy = |due: &Due| match &live {
            _ if wanted.under_pods => false,
            Some(live) => due.touches.iter().any(|pci| live.contains_key(pci)),
            None => !due.touches.is_empty(),
        };
        let (waiting, ready): (BTreeMap<_, _>, _) = dues.into_iter().partition(|(_, due)| busy(due));
        let waiting: BTreeSet<PciAddress> = waiting.values().flat_map(|due| &due.touches).copied().collect();
        let holders = holders(&live.unwrap_or_default(), &waiting);
        Ok(Look { survey, ready, holders, faults, reboot })
    }

    fn live(&self) -> Option<BTreeMap<PciAddress, Vec<Holder>>> {
        held::notes(&self.kubelet).map(|notes| held::live(&notes, &self.pods))
    }

    /// Offer what is right; whether something that was offered is about to be touched.
    fn offer(&self, wanted: &Wanted, survey: &Survey, touched: &BTreeSet<PciAddress>) -> bool {
        let next = offer(wanted, survey, self.guids.as_ref(), touched, &self.prefix);
        let mut withdrawn = false;
        self.pools.send_if_modified(|known| {
            withdrawn = addresses(known).any(|address| touched.iter().any(|pci| pci.to_string() == *address));
            let changed = **known != next;
            if changed {
                *known = Arc::new(next);
            }
            changed
        });
        withdrawn
    }

    /// Bring the machine to what is wanted as far as it goes now; what does not go.
    pub fn settle(&self, wanted: &Wanted) -> Result<(Look, Vec<Fault>), Error> {
        let mut look = self.look(wanted)?;
        let mut failures = Vec::new();
        for _ in 0..Self::ROUNDS {
            if look.ready.is_empty() || !failures.is_empty() {
                break;
            }
            failures = self.act(&look);
            look = self.look(wanted)?;
        }
        Ok((look, failures))
    }

    /// Do what can be done.
    pub fn act(&self, look: &Look) -> Vec<Fault> {
        let done =
            look.ready.iter().map(|(pci, due)| apply(self.hardware.as_ref(), &self.records, *pci, due));
        done.filter_map(Result::err).map(|e| e.fault()).collect()
    }
}

/// Whether the adapter's firmware is asked for more functions.
fn asked(wanted: &Wanted, adapter: &Adapter) -> bool {
    adapter.vendor == MELLANOX && !wanted.no_firmware
}

fn addresses(pools: &[Pool]) -> impl Iterator<Item = &String> {
    let functions = pools.iter().filter_map(|pool| match &pool.kind {
        Kind::Functions(functions) => Some(functions),
        _ => None,
    });
    functions.flat_map(|functions| &functions.selectors).flat_map(|selector| &selector.pci_addresses)
}
