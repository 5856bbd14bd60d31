//! Virtual functions and RDMA devices attached by upstream's `ib-sriov` and `rdma` plugins.
//!
//! ```text
//! var/lib/cni/ib-sriov/<container>-<interface>           the function, its former name and settings
//! var/lib/cni/rdma/<network>-<container>-<interface>     the RDMA device
//! ```
//!
//! A file that cannot be parsed counts as absent, as in the upstream plugins.

use crate::protocol::{AttachmentId, CniContext, ConfigFields, Error, Invocation, PluginType};
use crate::state::journal::MovedRdmaDevice;
use crate::state::state_file;
use crate::steps::rdma;
use crate::steps::vf::{SavedVfState, VfLease, VfOwner, VfTeardown, lock_function};
use ferroband_kernel::{Netns, boot_id};
use ferroband_model::{Guid, PciAddress};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// Restore the function that upstream's `ib-sriov` attached for the call's interface.
pub(crate) fn return_vf(
    context: &CniContext<'_>,
    call: &Invocation,
    netns: Option<&Netns>,
) -> Result<(), Error> {
    let name = format!("{}-{}", call.container, call.ifname);
    let path = context.root.path("var/lib/cni/ib-sriov").join(name);
    if let Some(state) = read_object(&path)
        && let Some(lease) = vf_lease(context, call, ConfigFields(&state))?
    {
        let lock = lock_function(context.root, lease.function, context.timeouts.lock)?;
        // If there is a lease, Ferroband has since attached the function to another sandbox. Leave it alone.
        if VfLease::load(context.root, lease.function)?.is_none() {
            // Save a lease first, so that a teardown that fails half-way is retried.
            lease.save(context.root)?;
            VfTeardown { context, netns, daemon: None }.restore(&lease, &lock)?;
            lock.release_and_remove();
        }
    }
    state_file::remove(&path)
}

/// Move the RDMA device that upstream's `rdma` moved for the call's interface back to the host.
pub(crate) fn return_rdma_device(
    context: &CniContext<'_>,
    call: &Invocation,
    netns: Option<&Netns>,
) -> Result<(), Error> {
    let name = format!("{}-{}-{}", call.config.name()?, call.container, call.ifname);
    let path = context.root.path("var/lib/cni/rdma").join(name);
    if let Some(state) = read_object(&path) {
        let fields = ConfigFields(&state);
        if let (Some(device), Some(parent)) = (text(fields, "containerRdmaDevName"), text(fields, "deviceID"))
        {
            let moved = MovedRdmaDevice { device, parent };
            rdma::undo(context, netns, &moved, None)?;
        }
    }
    state_file::remove(&path)
}

/// Convert upstream's state file into a lease.
fn vf_lease(
    context: &CniContext<'_>,
    call: &Invocation,
    state: ConfigFields<'_>,
) -> Result<Option<VfLease>, Error> {
    let function = text(state, "deviceID").and_then(|device| device.parse::<PciAddress>().ok());
    let Some(function) = function else { return Ok(None) };
    let own = text(state, "HostIFGUID");
    let guid = |text: Option<String>| text.and_then(|text| text.parse::<Guid>().ok());
    let saved_guid = guid(own.clone()).filter(|guid| !guid.is_unset());
    let runtime = state.object("runtimeConfig").ok().flatten();
    let args = state.object("args").ok().flatten().and_then(|args| args.object("cni").ok().flatten());
    let requested = guid(runtime.and_then(|runtime| text(runtime, "infinibandGUID")))
        .or_else(|| guid(args.and_then(|args| text(args, "guid"))));
    let rdma = state.object("RdmaNetState").ok().flatten();
    let isolated = state.flag("rdmaIsolation").unwrap_or_default();
    let owner = VfOwner {
        stem: AttachmentId::new(PluginType::IbSriov, &call.container, &call.ifname).file_stem(),
        container: call.container.clone(),
        ifname: call.ifname.clone(),
        boot: boot_id(context.root)?,
        netns: call.netns.clone().unwrap_or_default(),
        netns_id: Netns::current()?.id(),
    };
    Ok(Some(VfLease {
        function,
        owner,
        saved: SavedVfState {
            name: text(state, "HostIFNames").unwrap_or_default(),
            // Upstream saves a single GUID. Use it as node GUID and as port GUID.
            node_guid: saved_guid,
            port_guid: saved_guid,
            ..SavedVfState::default()
        },
        guid: requested.filter(|_| own.is_some()),
        link_state_set: text(state, "link_state").is_some(),
        rdma: rdma.filter(|_| isolated).and_then(|rdma| text(rdma, "containerRdmaDevName")),
        vfio_bound: state.flag("vfioPciMode").unwrap_or_default(),
    }))
}

fn text(fields: ConfigFields<'_>, key: &str) -> Option<String> {
    fields.non_empty(key).ok().flatten().map(str::to_owned)
}

fn read_object(path: &Path) -> Option<Map<String, Value>> {
    serde_json::from_slice(&fs::read(PathBuf::from(path)).ok()?).ok()
}
