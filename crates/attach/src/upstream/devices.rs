//! Functions and RDMA devices that upstream's `ib-sriov` and `rdma` gave away.
//!
//! ```text
//! var/lib/cni/ib-sriov/<container>-<interface>           the function, and what it was called and like before
//! var/lib/cni/rdma/<network>-<container>-<interface>     the RDMA device
//! ```
//!
//! A file that cannot be understood counts as absent, as it does for them.

use crate::config::Fields;
use crate::journal::RdmaTrace;
use crate::vf::{Before, Held, Owner, Restoring, lock};
use crate::{Error, Invocation, Machine, record};
use ferroband_kernel::{Netns, boot_id};
use ferroband_model::{Guid, PciAddress};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// Take back the function that upstream's `ib-sriov` gave the interface of the call.
pub(crate) fn function(machine: &Machine<'_>, call: &Invocation, netns: Option<&Netns>) -> Result<(), Error> {
    let name = format!("{}-{}", call.container, call.ifname);
    let path = machine.root.path("var/lib/cni/ib-sriov").join(name);
    if let Some(state) = object(&path)
        && let Some(held) = held(machine, call, Fields(&state))?
    {
        let lock = lock(machine.root, held.function, machine.patience.lock)?;
        // Given to somebody else since then, by us: no longer ours to touch.
        if Held::load(machine.root, held.function)?.is_none() {
            // Ours from here on, so that what fails half-way is known the next time.
            held.save(machine.root)?;
            Restoring { machine, netns, daemon: None }.restore(&held, &lock)?;
            lock.retire();
        }
    }
    record::remove(&path)
}

/// Take back the RDMA device that upstream's `rdma` moved for the interface of the call.
pub(crate) fn rdma(machine: &Machine<'_>, call: &Invocation, netns: Option<&Netns>) -> Result<(), Error> {
    let name = format!("{}-{}-{}", call.config.name()?, call.container, call.ifname);
    let path = machine.root.path("var/lib/cni/rdma").join(name);
    if let Some(state) = object(&path) {
        let fields = Fields(&state);
        if let (Some(device), Some(on)) = (text(fields, "containerRdmaDevName"), text(fields, "deviceID")) {
            let trace = RdmaTrace { device, on };
            crate::rdma::undo(machine, netns, &trace, None)?;
        }
    }
    record::remove(&path)
}

/// The function as its file describes it.
fn held(machine: &Machine<'_>, call: &Invocation, state: Fields<'_>) -> Result<Option<Held>, Error> {
    let function = text(state, "deviceID").and_then(|device| device.parse::<PciAddress>().ok());
    let Some(function) = function else { return Ok(None) };
    let own = text(state, "HostIFGUID");
    let guid = |text: Option<String>| text.and_then(|text| text.parse::<Guid>().ok());
    let before = guid(own.clone()).filter(|guid| !guid.is_unset());
    let runtime = state.object("runtimeConfig").ok().flatten();
    let args = state.object("args").ok().flatten().and_then(|args| args.object("cni").ok().flatten());
    let given = guid(runtime.and_then(|runtime| text(runtime, "infinibandGUID")))
        .or_else(|| guid(args.and_then(|args| text(args, "guid"))));
    let rdma = state.object("RdmaNetState").ok().flatten();
    let isolated = state.flag("rdmaIsolation").unwrap_or_default();
    let owner = Owner {
        stem: crate::Key::new(crate::Role::IbSriov, &call.container, &call.ifname).stem(),
        container: call.container.clone(),
        ifname: call.ifname.clone(),
        boot: boot_id(machine.root)?,
        netns: call.netns.clone().unwrap_or_default(),
        netns_id: Netns::current()?.id(),
    };
    Ok(Some(Held {
        function,
        owner,
        before: Before {
            name: text(state, "HostIFNames").unwrap_or_default(),
            // It remembers one for both.
            node_guid: before,
            port_guid: before,
            ..Before::default()
        },
        guid: given.filter(|_| own.is_some()),
        state: text(state, "link_state").is_some(),
        rdma: rdma.filter(|_| isolated).and_then(|rdma| text(rdma, "containerRdmaDevName")),
        vfio: state.flag("vfioPciMode").unwrap_or_default(),
    }))
}

fn text(fields: Fields<'_>, key: &str) -> Option<String> {
    fields.text(key).ok().flatten().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn object(path: &Path) -> Option<Map<String, Value>> {
    serde_json::from_slice(&fs::read(PathBuf::from(path)).ok()?).ok()
}
