//! CHECK: verifies that the result of an ADD still exists.

use crate::commands::sandbox;
use crate::ipc::plan::StepKind;
use crate::protocol::result::to_prev_result;
use crate::protocol::{
    AttachmentId, CniCommand, CniContext, CniResult, CniVersion, Error, Invocation, PluginType, args,
};
use crate::state::Lock;
use crate::state::journal::{Journal, JournalEntry};
use crate::steps::apply::addresses::{self, ipam_stdin};
use crate::steps::delegate::{self, PluginEnv};
use crate::steps::vf::{self, ObservedVf};
use crate::steps::{coordinator, ipoib, rdma};
use ferroband_config::{IbSriovConfig, IpoibConfig};
use ferroband_kernel::rtnetlink::{RouteEntry, RouteSpec};
use ferroband_kernel::{Netns, RouteSocket};

/// Check every attachment of the sandbox, or the one interface of a plugin called on its own.
pub(crate) fn check(
    context: &CniContext<'_>,
    plugin_type: PluginType,
    call: &Invocation,
) -> Result<(), Error> {
    let netns = sandbox::open(call)?;
    if plugin_type == PluginType::Ipoib {
        IpoibConfig::parse(call.config.fields())?;
        check_prev_result(call)?;
    }
    let id = AttachmentId::new(plugin_type, &call.container, &call.ifname);
    let lock = Lock::acquire(context.root, &id, context.timeouts.lock)?;
    let unknown = || Error::NotAttached { container: call.container.clone() };
    let journal = Journal::load(context.root, &id)?.filter(|journal| journal.attached);
    let journal = journal.ok_or_else(unknown)?;
    if journal.netns_id != netns.id() {
        return Err(unknown());
    }
    let mut pod_netlink = RouteSocket::open_in(&netns)?;
    for entry in &journal.entries {
        let env = PluginEnv {
            container: &call.container,
            netns: &journal.netns,
            ifname: &entry.attachment.ifname,
            args: args::append(&call.args, &entry.attachment.args),
            path: &call.path,
            lock: Some(&lock),
        };
        let checked = check_entry(context, call, &journal, entry, (&netns, &mut pod_netlink), &env);
        checked.map_err(|error| error.on_network(&entry.attachment.network))?;
    }
    Ok(())
}

fn check_entry(
    context: &CniContext<'_>,
    call: &Invocation,
    journal: &Journal,
    entry: &JournalEntry,
    (netns, pod_netlink): (&Netns, &mut RouteSocket),
    env: &PluginEnv<'_>,
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
                let previous = result.map(|result| to_prev_result(result, version)).transpose()?;
                let stdin = attachment.stdin(step, previous.as_ref());
                delegate::run(step.plugin(), CniCommand::Check, env, &stdin)?;
            }
            StepKind::Coordinator(_) => {
                let identity = entry.steps[position].interface.as_ref();
                coordinator::check(pod_netlink, identity.map(|identity| identity.temporary.as_str()))?;
            }
            StepKind::Rdma { .. } => rdma::check(context, netns, entry.steps[position].rdma_device.as_ref())?,
            StepKind::IbSriov { vf, .. } if !has_interface(context, vf)? => {
                vf::check_attached(context, &journal.id().file_stem(), vf, netns, &attachment.ifname)?;
            }
            StepKind::Ipoib { daemon_ipam, .. } | StepKind::IbSriov { daemon_ipam, .. } => {
                if let StepKind::IbSriov { vf, .. } = &step.kind {
                    vf::check_attached(context, &journal.id().file_stem(), vf, netns, &attachment.ifname)?;
                }
                let coordinated =
                    attachment.steps.iter().any(|step| matches!(step.kind, StepKind::Coordinator(_)));
                check_interface(context, pod_netlink, &attachment.ifname, &entry.cni_result()?, coordinated)?;
                if let Some(plugin) = step.interface()?.ipam_plugin
                    && !daemon_ipam
                {
                    let stdin = ipam_stdin(entry, position, journal.plugin_type.is_meta(), Some(call));
                    delegate::run(plugin, CniCommand::Check, env, &stdin)?;
                }
            }
        }
    }
    Ok(())
}

/// Whether the function has a network interface. A function bound to vfio-pci has none.
fn has_interface(context: &CniContext<'_>, vf: &IbSriovConfig) -> Result<bool, Error> {
    Ok(!ObservedVf::get(context.require_hardware()?, vf.device)?.is_vfio())
}

/// Check the interface's addresses and routes. Additional ones, from later plugins of the chain, are fine.
fn check_interface(
    context: &CniContext<'_>,
    pod_netlink: &mut RouteSocket,
    ifname: &str,
    result: &CniResult,
    coordinated: bool,
) -> Result<(), Error> {
    let link = ipoib::find_link(pod_netlink, ifname, "the sandbox")?;
    if link.ipoib.is_none() && !context.host.is_simulated() {
        return Err(Error::WrongKind { ifname: ifname.to_owned(), kind: link.kind_or_type() });
    }
    let present = pod_netlink.addresses(link.index)?;
    for ip in &result.ips {
        if !present.contains(&ip.address) {
            return Err(Error::AddressMissing { ifname: ifname.to_owned(), address: ip.address });
        }
    }
    let present = pod_netlink.all_routes()?;
    for route in &result.routes {
        let expected = addresses::route_spec(result, route)?;
        let table = expected.table.unwrap_or(RouteSpec::MAIN_TABLE);
        // Compare only the destination of default routes, as upstream does.
        let same = |entry: &RouteEntry| {
            entry.interface == Some(link.index)
                && entry.route.table == Some(table)
                && entry.route.destination == route.dst.trunc()
                && (route.dst.prefix_len() == 0 || entry.route.gateway == expected.gateway)
        };
        // A coordinator later in the chain may have moved the routes to a separate routing table.
        let moved = |entry: &RouteEntry| {
            entry.interface == Some(link.index) && entry.route.destination == route.dst.trunc()
        };
        let found = present.iter().any(same) || coordinated && present.iter().any(moved);
        if !found {
            return Err(Error::RouteMissing { ifname: ifname.to_owned(), dst: route.dst });
        }
    }
    Ok(())
}

/// Fail unless the runtime's `prevResult` contains the call's interface in the call's sandbox.
fn check_prev_result(call: &Invocation) -> Result<(), Error> {
    let previous = call.config.prev_result().ok_or(Error::NoPreviousResult)?;
    let result = CniResult::read(previous, call.version)?;
    let sandbox = call.netns.as_deref().unwrap_or_default();
    let known = result.interfaces.iter().any(|one| one.name == call.ifname && one.sandbox == sandbox);
    let unknown = || Error::NoInterface { ifname: call.ifname.clone(), place: "prevResult".to_owned() };
    known.then_some(()).ok_or_else(unknown)
}
