//! ADD of each plugin type.
//!
//! ```text
//! ferroband    journal ─ plan from the daemon ─ steps ─ addresses from the daemon ─ status on the pod ─ print
//!   plain pod  journal ─ steps of the wrapped network ─ pending status ─────────────────────────────── print
//! ipoib        journal ─ one step ─ addresses from the daemon or an IPAM plugin ────────────────────── print
//!   P_Key      journal ─ permission from the daemon ─ one step ─ partition ─ addresses ────────────── print
//! ib-sriov, rdma, coordinator: like ipoib
//! whereabouts  journal ─ addresses from the daemon ─────────────────────────────────────────────────── print
//! ```
//!
//! While Ferroband is being uninstalled from the node, `ferroband` treats all pods as plain pods.

use crate::commands::{del, sandbox};
use crate::ipc::message::{self, DaemonReply, DaemonRequest};
use crate::ipc::node_client::NodeClient;
use crate::ipc::plan::{Attachment, Plan, PlanStep, StepKind};
use crate::protocol::{
    AttachmentId, CniContext, CniResult, CniVersion, Error, FailPoint, Invocation, PluginType, args,
};
use crate::state::journal::{Journal, JournalEntry};
use crate::state::pending_release::PendingRelease;
use crate::state::pending_status::PendingStatus;
use crate::state::{Lock, PendingUninstall};
use crate::steps::apply::AddOperation;
use ferroband_model::PodRef;
use ferroband_model::config_object::set_key;
use serde_json::Value;
use std::io::Write;

/// Attach the sandbox and print the CNI result to `out`. After a failure all changes are rolled back.
pub(crate) fn add(
    context: &CniContext<'_>,
    plugin_type: PluginType,
    call: &Invocation,
    out: &mut dyn Write,
) -> Result<(), Error> {
    // Parse CNI_ARGS first: a call with invalid CNI_ARGS must fail before anything is changed.
    let pod = match plugin_type {
        PluginType::Ferroband | PluginType::Whereabouts | PluginType::Spiderpool => {
            args::parse_pod(&call.args)?
        }
        // Invalid CNI_ARGS are not an error here, because the upstream plugins ignore CNI_ARGS.
        PluginType::Ipoib | PluginType::IbSriov | PluginType::Rdma | PluginType::Coordinator => {
            args::parse_pod(&call.args).ok().flatten()
        }
    };
    let wrapped_only = plugin_type.is_meta()
        && (sandbox::is_plain(call, pod.as_ref()) || PendingUninstall::load(context.root)?.is_some());
    let single = match plugin_type.is_meta() {
        true => wrapped_only.then(|| sandbox::wrapped_network(call)).transpose()?,
        false => Some(single_attachment(plugin_type, call)?),
    };
    if plugin_type.is_meta() {
        sandbox::wait_until_ready(context, call, context.timeouts.daemon_connect)?;
    }
    let netns = sandbox::open(call)?;

    let id = AttachmentId::new(plugin_type, &call.container, &call.ifname);
    let lock = Lock::acquire(context.root, &id, context.timeouts.lock)?;
    let lock = match Journal::load(context.root, &id) {
        Ok(None) => lock,
        previous => del::clear_previous(context, &id, previous, call, &netns, lock)?,
    };

    let mut journal = Journal::begin(context.root, plugin_type, call, &netns, pod.clone())?;
    let cni_call = call_message(call, pod);
    // Set `needs_release` before the request is sent. The daemon starts assigning addresses as soon as it
    // gets the request, and DEL must release them.
    let needs_permission = sandbox::needs_permission(context.root, plugin_type, &call.config);
    journal.needs_release = match &single {
        None => true,
        Some(attachment) => needs_permission || needs_addresses(plugin_type, attachment),
    };
    journal.set_plan(single.into_iter().collect());
    if plugin_type.is_chained() {
        let previous = call.config.prev_result().ok_or(Error::NoPreviousResult)?;
        journal.entries[0].result = Some(CniResult::read(previous, call.version)?.write(CniVersion::NEWEST)?);
    }
    let mut operation = AddOperation::begin(context, call, journal, netns, lock)?;
    let result = match plugin_type {
        PluginType::Ferroband if wrapped_only => add_wrapped(&mut operation, cni_call),
        PluginType::Ferroband => add_all_networks(&mut operation, cni_call),
        PluginType::Ipoib | PluginType::IbSriov | PluginType::Rdma | PluginType::Coordinator => {
            add_single(&mut operation, cni_call, needs_permission)
        }
        PluginType::Whereabouts | PluginType::Spiderpool => add_addresses_only(&mut operation, cni_call),
    };
    let printed = result.and_then(|result| {
        let text = result.print(call.version)?;
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|source| Error::Stdout { source })
    });
    printed.map_err(|cause| operation.roll_back(cause))
}

/// Get the plan from the daemon, apply it and send the results to the daemon, which records them on the pod.
/// Returns the result of the default network.
fn add_all_networks(
    operation: &mut AddOperation<'_>,
    cni_call: message::CniCall,
) -> Result<CniResult, Error> {
    let plan = match connect_and_request(operation, &DaemonRequest::Add(cni_call))? {
        DaemonReply::Plan(plan) => plan,
        _ => return Err(Error::UnexpectedReply { expected: "a plan" }),
    };
    let Plan { pod, attachments, membership, .. } = plan;
    operation.membership = membership;
    operation.journal.pod = Some(pod);
    operation.journal.set_plan(attachments);
    operation.preflight()?;
    operation.apply()?;

    let default = operation.journal.entries.iter().find(|entry| entry.attachment.default);
    let result = default
        .or(operation.journal.entries.first())
        .map(JournalEntry::cni_result)
        .transpose()?
        .unwrap_or_default();
    // A result that cannot be written in the runtime's version must fail before the pod's status is updated.
    result.write(operation.call.version)?;
    operation.journal.attached = true;
    operation.save()?;
    let attached = DaemonRequest::Attached(operation.journal.outcomes(operation.context.root)?);
    let unreached = Error::UnexpectedReply { expected: "a plan before the attachment results" };
    operation.daemon.as_mut().ok_or(unreached)?.request_done(operation.context, &attached)?;
    Ok(result)
}

/// Attach the network that the configuration wraps, without the daemon.
fn add_wrapped(operation: &mut AddOperation<'_>, cni_call: message::CniCall) -> Result<CniResult, Error> {
    let result = add_single(operation, cni_call, false)?;
    // The pod must start even if its status cannot be written.
    if let Err(error) = PendingStatus::new(operation.journal.id()).write(operation.context.root) {
        eprintln!(
            "ferroband: network-status of container {} is not written: {error}",
            operation.call.container
        );
    }
    (operation.context.fail_point)(FailPoint::StatusQueued);
    Ok(result)
}

/// Apply one attachment without requesting a plan from the daemon: that of a plugin called on its own, or the
/// network that the configuration wraps.
fn add_single(
    operation: &mut AddOperation<'_>,
    cni_call: message::CniCall,
    needs_permission: bool,
) -> Result<CniResult, Error> {
    operation.preflight()?;
    // Ask the daemon before the interface is created. If it is unavailable, there is nothing to undo.
    if needs_permission {
        request_interface_plan(operation, cni_call)?;
    } else if operation.journal.needs_release {
        request_addresses(operation, cni_call)?;
    }
    operation.apply()?;
    save_attached(operation)
}

/// ADD of the IPAM plugins: request addresses from the daemon and return them as the result. No interface is
/// created or configured.
fn add_addresses_only(
    operation: &mut AddOperation<'_>,
    cni_call: message::CniCall,
) -> Result<CniResult, Error> {
    request_addresses(operation, cni_call)?;
    let assigned = operation.assigned_result(0)?;
    operation.journal.entries[0].result = Some(assigned.write(CniVersion::NEWEST)?);
    save_attached(operation)
}

fn save_attached(operation: &mut AddOperation<'_>) -> Result<CniResult, Error> {
    operation.journal.attached = true;
    operation.save()?;
    operation.entry(0).cni_result()
}

/// Ask the daemon whether the pod may use the P_Key or GUID of the configuration. The daemon starts to make the port a
/// member of the partition, and to assign the addresses, which [`AddOperation::apply`] waits for.
fn request_interface_plan(
    operation: &mut AddOperation<'_>,
    mut cni_call: message::CniCall,
) -> Result<(), Error> {
    // The name of the program decides what this plugin does, whatever `type` says.
    if let Value::Object(config) = &mut cni_call.config {
        set_key(config, "type", operation.journal.plugin_type.as_str().into());
    }
    match connect_and_request(operation, &DaemonRequest::AddInterface(cni_call))? {
        DaemonReply::Plan(plan) => {
            operation.membership = plan.membership;
            operation.journal.pod = Some(plan.pod);
            Ok(())
        }
        _ => Err(Error::UnexpectedReply { expected: "a plan" }),
    }
}

fn request_addresses(operation: &mut AddOperation<'_>, cni_call: message::CniCall) -> Result<(), Error> {
    match connect_and_request(operation, &DaemonRequest::Assign(cni_call))? {
        DaemonReply::Addresses(assigned) => operation.journal.assigned = assigned,
        _ => return Err(Error::UnexpectedReply { expected: "addresses" }),
    }
    Ok(())
}

fn connect_and_request(
    operation: &mut AddOperation<'_>,
    request: &DaemonRequest,
) -> Result<DaemonReply, Error> {
    let release = PendingRelease::new(&operation.journal.id(), operation.journal.pod.clone());
    // On disk `needs_release` stays true, in case this process is killed. In memory it is reset, because a
    // failed connection must not queue a release. The client sets it again right before it sends the request.
    operation.journal.needs_release = false;
    let needs_release = &mut operation.journal.needs_release;
    let (daemon, reply) = NodeClient::connect_and_request(
        operation.context,
        |daemon| release.send_pending(operation.context, daemon),
        request,
        &operation.netns,
        needs_release,
    )?;
    operation.daemon = Some(daemon);
    Ok(reply)
}

/// Build the attachment of a plugin called on its own from its configuration. The attachment of an IPAM
/// plugin has no steps.
fn single_attachment(plugin_type: PluginType, call: &Invocation) -> Result<Attachment, Error> {
    let ipam = call.config.interface()?.ipam_plugin;
    // A result of a CNI version before 0.3.0 must contain an address, so such a call needs IPAM.
    if plugin_type.is_interface() && ipam.is_none() && call.version < CniVersion::V0_3_0 {
        return Err(Error::ResultNeedsAddress { version: call.version });
    }
    let steps = match plugin_type {
        PluginType::Ipoib | PluginType::IbSriov | PluginType::Rdma | PluginType::Coordinator => {
            vec![PlanStep {
                config: call.config.map().clone(),
                kind: StepKind::for_plugin(plugin_type, call.config.map())?,
            }]
        }
        PluginType::Ferroband | PluginType::Whereabouts | PluginType::Spiderpool => Vec::new(),
    };
    let name = call.config.name()?.to_owned();
    Ok(Attachment {
        network: name.clone(),
        name,
        cni_version: call.version.as_str().to_owned(),
        ifname: call.ifname.clone(),
        default: false,
        steps,
        ..Attachment::default()
    })
}

fn needs_addresses(plugin_type: PluginType, attachment: &Attachment) -> bool {
    plugin_type.is_ipam() || attachment.steps.iter().any(|step| step.kind.uses_daemon_ipam())
}

fn call_message(call: &Invocation, pod: Option<PodRef>) -> message::CniCall {
    message::CniCall {
        container: call.container.clone(),
        ifname: call.ifname.clone(),
        pod,
        config: Value::Object(call.config.map().clone()),
        ips: args::requested_ips(&call.args),
    }
}
