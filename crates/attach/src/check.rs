//! CHECK: is what an ADD brought about still there?

use crate::apply::{ipam_stdin, read_result};
use crate::config::Fields;
use crate::delegate::{self, Surroundings};
use crate::journal::{Entry, Journal};
use crate::plan::{Doer, VfStep};
use crate::vf::{self, Function};
use crate::{CniResult, Command, Error, Invocation, Key, Lock, Machine, Role, Version};
use crate::{address, args, chain, coordinator, ipoib, rdma, sandbox};
use ferroband_kernel::route::{RouteEntry, RouteSpec};
use ferroband_kernel::{Netns, Route};

/// Check every attachment of the sandbox, or the one interface of a plugin called by itself.
pub(crate) fn check(machine: &Machine<'_>, role: Role, call: &Invocation) -> Result<(), Error> {
    let netns = sandbox::open(call)?;
    if role == Role::Ipoib {
        ipoib::of_config(call.config.fields())?;
        previous(call)?;
    }
    let key = Key::new(role, &call.container, &call.ifname);
    let lock = Lock::take(machine.root, &key, machine.patience.lock)?;
    let unknown = || Error::NotAttached { container: call.container.clone() };
    let journal = Journal::load(machine.root, &key)?.filter(|journal| journal.attached);
    let journal = journal.ok_or_else(unknown)?;
    if journal.netns_id != netns.id() {
        return Err(unknown());
    }
    let mut inside = Route::inside(&netns)?;
    for entry in &journal.entries {
        let around = Surroundings {
            container: &call.container,
            netns: &journal.netns,
            ifname: &entry.attachment.ifname,
            args: args::with(&call.args, &entry.attachment.args),
            path: &call.path,
            lock: Some(&lock),
        };
        let checked = check_entry(machine, call, &journal, entry, (&netns, &mut inside), &around);
        checked.map_err(|error| error.on(&entry.attachment.network))?;
    }
    Ok(())
}

fn check_entry(
    machine: &Machine<'_>,
    call: &Invocation,
    journal: &Journal,
    entry: &Entry,
    (netns, inside): (&Netns, &mut Route),
    around: &Surroundings<'_>,
) -> Result<(), Error> {
    let attachment = &entry.attachment;
    if attachment.unchecked {
        return Ok(());
    }
    let version = attachment.version()?;
    for (position, step) in attachment.steps.iter().enumerate() {
        match &step.by {
            Doer::Foreign if version < Version::V0_4_0 => {}
            Doer::Foreign => {
                let result = entry.result.as_ref();
                let previous = result.map(|result| chain::previous(result, version)).transpose()?;
                let stdin = chain::stdin(attachment, step, previous.as_ref());
                delegate::run(step.plugin(), Command::Check, around, &stdin)?;
            }
            Doer::Coordinator(_) => {
                let trace = entry.steps[position].trace.as_ref();
                coordinator::check(inside, trace.map(|trace| trace.temporary.as_str()))?;
            }
            Doer::Rdma { .. } => rdma::check(machine, netns, entry.steps[position].rdma.as_ref())?,
            Doer::IbSriov { vf, .. } if !has_interface(machine, vf)? => {
                vf::verify(machine, &journal.key().stem(), vf, netns, &attachment.ifname)?;
            }
            Doer::Ipoib { addressed, .. } | Doer::IbSriov { addressed, .. } => {
                if let Doer::IbSriov { vf, .. } = &step.by {
                    vf::verify(machine, &journal.key().stem(), vf, netns, &attachment.ifname)?;
                }
                let coordinated = attachment.steps.iter().any(|step| matches!(step.by, Doer::Coordinator(_)));
                check_interface(machine, inside, &attachment.ifname, &read_result(entry)?, coordinated)?;
                if let Some(plugin) = Fields(&step.config).ipam_type()?
                    && !addressed
                {
                    let stdin = ipam_stdin(entry, position, journal.role.is_meta(), Some(call));
                    delegate::run(plugin, Command::Check, around, &stdin)?;
                }
            }
        }
    }
    Ok(())
}

/// A function of vfio-pci has none.
fn has_interface(machine: &Machine<'_>, vf: &VfStep) -> Result<bool, Error> {
    Ok(!Function::get(machine.adapters()?, vf.device)?.is_vfio())
}

/// A later plugin of the chain may have added to it; what we made must be there.
fn check_interface(
    machine: &Machine<'_>,
    inside: &mut Route,
    ifname: &str,
    result: &CniResult,
    coordinated: bool,
) -> Result<(), Error> {
    let link = ipoib::find(inside, ifname, "the sandbox")?;
    if link.ipoib.is_none() && !machine.host.simulated() {
        return Err(Error::OtherKind { ifname: ifname.to_owned(), kind: link.kind_or_type() });
    }
    let present = inside.addresses(link.index)?;
    for ip in &result.ips {
        if !present.contains(&ip.address) {
            return Err(Error::AddressGone { ifname: ifname.to_owned(), address: ip.address });
        }
    }
    let present = inside.all_routes()?;
    for route in &result.routes {
        let wanted = address::spec(result, route)?;
        let table = wanted.table.unwrap_or(RouteSpec::MAIN);
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
            return Err(Error::RouteGone { ifname: ifname.to_owned(), dst: route.dst });
        }
    }
    Ok(())
}

/// The result that the runtime remembers must name this interface in this sandbox.
fn previous(call: &Invocation) -> Result<(), Error> {
    let previous = call.config.fields().get("prevResult").ok_or(Error::NoPreviousResult)?;
    let result = CniResult::read(previous, call.version)?;
    let sandbox = call.netns.as_deref().unwrap_or_default();
    let known = result.interfaces.iter().any(|one| one.name == call.ifname && one.sandbox == sandbox);
    let unknown = || Error::NoInterface { ifname: call.ifname.clone(), place: "prevResult".to_owned() };
    known.then_some(()).ok_or_else(unknown)
}
