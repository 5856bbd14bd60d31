//! Functions and RDMA devices that upstream's `ib-sriov` and `rdma` gave away.
//!
//! ```text
//! var/lib/cni/ib-sriov/<container>-<interface>           the function, and what it was called and like before
//! var/lib/cni/rdma/<network>-<container>-<interface>     the RDMA device
//! ```
//!
//! A file that cannot be understood counts as absent, as it does for them.

use crate::config::ConfigFields;
use crate::journal::MovedRdmaDevice;
use crate::vf::{SavedVfState, VfLease, VfOwner, VfTeardown, lock_function};
use crate::{CniContext, Error, Invocation, record};
use ferroband_kernel::{Netns, boot_id};
use ferroband_model::{Guid, PciAddress};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// Take back the function that upstream's `ib-sriov` gave the interface of the call.
pub(crate) fn return_vf(
    machine: &CniContext<'_>,
    call: &Invocation,
    netns: Option<&Netns>,
) -> Result<(), Error> {
    let name = format!("{}-{}", call.container, call.ifname);
    let path = machine.root.path("var/lib/cni/ib-sriov").join(name);
    if let Some(state) = read_object(&path)
        && let Some(held) = vf_lease(machine, call, ConfigFields(&state))?
    {
        let lock = lock_function(machine.root, held.function, machine.timeouts.lock)?;
        // Given to somebody else since then, by us: no longer ours to touch.
        if VfLease::load(machine.root, held.function)?.is_none() {
            // Ours from here on, so that what fails half-way is known the next time.
            held.save(machine.root)?;
            VfTeardown { machine, netns, daemon: None }.restore(&held, &lock)?;
            lock.release_and_remove();
        }
    }
    record::remove(&path)
}

/// Take back the RDMA device that upstream's `rdma` moved for the interface of the call.
pub(crate) fn return_rdma_device(
    machine: &CniContext<'_>,
    call: &Invocation,
    netns: Option<&Netns>,
) -> Result<(), Error> {
    let name = format!("{}-{}-{}", call.config.name()?, call.container, call.ifname);
    let path = machine.root.path("var/lib/cni/rdma").join(name);
    if let Some(state) = read_object(&path) {
        let fields = ConfigFields(&state);
        if let (Some(device), Some(on)) = (text(fields, "containerRdmaDevName"), text(fields, "deviceID")) {
            let trace = MovedRdmaDevice { device, parent: on };
            crate::rdma::undo(machine, netns, &trace, None)?;
        }
    }
    record::remove(&path)
}

/// The function as its file describes it.
fn vf_lease(
    machine: &CniContext<'_>,
    call: &Invocation,
    state: ConfigFields<'_>,
) -> Result<Option<VfLease>, Error> {
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
    let owner = VfOwner {
        stem: crate::AttachmentId::new(crate::PluginType::IbSriov, &call.container, &call.ifname).file_stem(),
        container: call.container.clone(),
        ifname: call.ifname.clone(),
        boot: boot_id(machine.root)?,
        netns: call.netns.clone().unwrap_or_default(),
        netns_id: Netns::current()?.id(),
    };
    Ok(Some(VfLease {
        function,
        owner,
        saved: SavedVfState {
            name: text(state, "HostIFNames").unwrap_or_default(),
            // It remembers one for both.
            node_guid: before,
            port_guid: before,
            ..SavedVfState::default()
        },
        guid: given.filter(|_| own.is_some()),
        link_state_set: text(state, "link_state").is_some(),
        rdma: rdma.filter(|_| isolated).and_then(|rdma| text(rdma, "containerRdmaDevName")),
        vfio_bound: state.flag("vfioPciMode").unwrap_or_default(),
    }))
}

fn text(fields: ConfigFields<'_>, key: &str) -> Option<String> {
    fields.text(key).ok().flatten().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn read_object(path: &Path) -> Option<Map<String, Value>> {
    serde_json::from_slice(&fs::read(PathBuf::from(path)).ok()?).ok()
}
