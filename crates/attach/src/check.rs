//! CHECK: is what an ADD brought about still there?

use crate::apply::{ipam_stdin, read_result};
use crate::config::ConfigFields;
use crate::delegate::{self, PluginEnv};
use crate::journal::{Journal, JournalEntry};
use crate::plan::{StepKind, VfStep};
use crate::vf::{self, ObservedVf};
use crate::{
    AttachmentId, CniCommand, CniContext, CniResult, CniVersion, Error, Invocation, Lock, PluginType,
};
use crate::{address, args, chain, coordinator, ipoib, rdma, sandbox};
use ferroband_kernel::rtnetlink::{RouteEntry, RouteSpec};
use ferroband_kernel::{Netns, RouteSocket};

/// Check every attachment of the sandbox, or the one interface of a plugin called by itself.
pub(crate) fn check(machine: &CniContext<'_>, role: PluginType, call: &Invocation) -> Result<(), Error> {
    let netns = sandbox::open(call)?;
    if role == PluginType::Ipoib {
        ipoib::parse_config(call.config.fields())?;
        check_prev_result(call)?;
    }
    let key = AttachmentId::new(role, &call.container, &call.ifname);
    let lock = Lock::acquire(machine.root, &key, machine.timeouts.lock)?;
    let unknown = || Error::NotAttached { container: call.container.clone() };
    let journal = Journal::load(machine.root, &key)?.filter(|journal| journal.attached);
    let journal = journal.ok_or_else(unknown)?;
    if journal.netns_id != netns.id() {
        return Err(unknown());
    }
    let mut inside = RouteSocket::open_in(&netns)?;
    for entry in &journal.entries {
        let around = PluginEnv {
            container: &call.container,
            netns: &journal.netns,
            ifname: &entry.attachment.ifname,
            args: args::append(&call.args, &entry.attachment.args),
            path: &call.path,
            lock: Some(&lock),
        };
        let checked = check_entry(machine, call, &journal, entry, (&netns, &mut inside), &around);
        checked.map_err(|error| error.on_network(&entry.attachment.network))?;
    }
    Ok(())
}

fn check_entry(
    machine: &CniContext<'_>,
    call: &Invocation,
    journal: &Journal,
    entry: &JournalEntry,
    (netns, inside): (&Netns, &mut RouteSocket),
    around: &PluginEnv<'_>,
) -> Result<(), Error> {
    let attachment = &entry.attachment;
    if attachment.unchecked {
        return Ok(());
    }
    let version = attachment.version()?;
    for (position, step) in attachment.steps.iter().enumerate() {
        match &step.kind {
            StepKind::Foreign if version < CniVersion::V0_4_0 => {}
            StepKind::Foreign => {
                let result = entry.result.as_ref();
                let previous = result.map(|result| chain::to_prev_result(result, version)).transpose()?;
                let stdin = chain::build_stdin(attachment, step, previous.as_ref());
                delegate::run(step.plugin(), CniCommand::Check, around, &stdin)?;
            }
            StepKind::Coordinator(_) => {
                let trace = entry.steps[position].interface.as_ref();
                coordinator::check(inside, trace.map(|trace| trace.temporary.as_str()))?;
            }
            StepKind::Rdma { .. } => rdma::check(machine, netns, entry.steps[position].rdma_device.as_ref())?,
            StepKind::IbSriov { vf, .. } if !has_interface(machine, vf)? => {
                vf::check_attached(machine, &journal.id().file_stem(), vf, netns, &attachment.ifname)?;
            }
            StepKind::Ipoib { daemon_ipam: addressed, .. }
            | StepKind::IbSriov { daemon_ipam: addressed, .. } => {
                if let StepKind::IbSriov { vf, .. } = &step.kind {
                    vf::check_attached(machine, &journal.id().file_stem(), vf, netns, &attachment.ifname)?;
                }
                let coordinated =
                    attachment.steps.iter().any(|step| matches!(step.kind, StepKind::Coordinator(_)));
                check_interface(machine, inside, &attachment.ifname, &read_result(entry)?, coordinated)?;
                if let Some(plugin) = ConfigFields(&step.config).ipam_type()?
                    && !addressed
                {
                    let stdin = ipam_stdin(entry, position, journal.plugin_type.is_meta(), Some(call));
                    delegate::run(plugin, CniCommand::Check, around, &stdin)?;
                }
            }
        }
    }
    Ok(())
}

/// A function of vfio-pci has none.
fn has_interface(machine: &CniContext<'_>, vf: &VfStep) -> Result<bool, Error> {
    Ok(!ObservedVf::get(machine.require_hardware()?, vf.device)?.is_vfio())
}

/// A later plugin of the chain may have added to it; what we made must be there.
fn check_interface(
    machine: &CniContext<'_>,
    inside: &mut RouteSocket,
    ifname: &str,
    result: &CniResult,
    coordinated: bool,
) -> Result<(), Error> {
    let link = ipoib::find_link(inside, ifname, "the sandbox")?;
    if link.ipoib.is_none() && !machine.host.is_simulated() {
        return Err(Error::WrongKind { ifname: ifname.to_owned(), kind: link.kind_or_type() });
    }
    let present = inside.addresses(link.index)?;
    for ip in &result.ips {
        if !present.contains(&ip.address) {
            return Err(Error::AddressMissing { ifname: ifname.to_owned(), address: ip.address });
        }
    }
    let present = inside.all_routes()?;
    for route in &result.routes {
        let wanted = address::route_spec(result, route)?;
        let table = wanted.table.unwrap_or(RouteSpec::MAIN_TABLE);
        // Of default routes only the destination is compared, as upstream does.
        let same = |entry: &RouteEntry| {
            entry.interface == Some(link.index)
                && entry.route.table == Some(table)
                && entry.route.destination == route.dst.trunc()
                && (route.dst.prefix_len() == 0 || entry.route.gateway == wanted.gateway)
        };
        // A coordinator later in the chain may have given the interface a table of its own.
        let moved = |entry: &RouteEntry| {
            entry.interface == Some(link.index) && entry.route.destination == route.dst.trunc()
        };
        let there = present.iter().any(same) || coordinated && present.iter().any(moved);
        if !there {
            return Err(Error::RouteMissing { ifname: ifname.to_owned(), dst: route.dst });
        }
    }
    Ok(())
}

/// The result that the runtime remembers must name this interface in this sandbox.
fn check_prev_result(call: &Invocation) -> Result<(), Error> {
    let previous = call.config.fields().get("prevResult").ok_or(Error::NoPreviousResult)?;
    let result = CniResult::read(previous, call.version)?;
    let sandbox = call.netns.as_deref().unwrap_or_default();
    let known = result.interfaces.iter().any(|one| one.name == call.ifname && one.sandbox == sandbox);
    let unknown = || Error::NoInterface { ifname: call.ifname.clone(), place: "prevResult".to_owned() };
    known.then_some(()).ok_or_else(unknown)
}
