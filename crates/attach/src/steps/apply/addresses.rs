//! Getting the addresses of an attachment and configuring them.

use super::AddOperation;
use crate::ipc::message::{DaemonReply, DaemonRequest};
use crate::ipc::plan::{AssignedAddresses, StepKind};
use crate::protocol::result::{ResultIp, ResultRoute};
use crate::protocol::{CniResult, CniVersion, Error, FailPoint, Invocation};
use crate::state::journal::{JournalEntry, StepState};
use crate::steps::{delegate, interface_addresses};
use serde_json::{Map, Value};

impl AddOperation<'_> {
    /// Get addresses from the step's foreign IPAM plugin, if it has one, and configure them.
    pub(super) fn delegate_ipam(&mut self, position: usize, step: usize) -> Result<(), Error> {
        let planned = &self.entry(position).attachment.steps[step];
        let Some(plugin) = planned.interface()?.ipam_plugin.map(str::to_owned) else {
            return Ok(());
        };
        delegate::find_plugin(&plugin, &self.call.path)?;
        self.journal.entries[position].steps[step].ipam = StepState::Intended;
        self.save()?;
        let entry = self.entry(position);
        let stdin = ipam_stdin(entry, step, self.journal.plugin_type.is_meta(), Some(self.call));
        let result = delegate::add(&plugin, &self.plugin_env(position), &stdin)?;
        (self.context.fail_point)(FailPoint::PluginExecuted);
        let ipam = CniResult::read(&result, entry.attachment.version()?)?;
        self.journal.entries[position].steps[step].ipam = StepState::Done;
        if ipam.ips.is_empty() {
            return Err(Error::NoAddress { plugin, ifname: self.entry(position).attachment.ifname.clone() });
        }
        self.merge_ipam_result(position, ipam)?;
        self.configure_interfaces(&[position])
    }

    /// Request the addresses of the attachments at `positions` from the daemon and configure them.
    pub(super) fn configure_assigned(&mut self, positions: &[usize]) -> Result<(), Error> {
        if positions.is_empty() {
            return Ok(());
        }
        self.request_addresses()?;
        for &position in positions {
            let ipam = self.assigned_result(position)?;
            self.merge_ipam_result(position, ipam)?;
        }
        self.configure_interfaces(positions)
    }

    /// Request the assigned addresses from the daemon, unless they are already known.
    fn request_addresses(&mut self) -> Result<(), Error> {
        if !self.journal.assigned.is_empty() {
            return Ok(());
        }
        let unreached = Error::UnexpectedReply { expected: "a plan before the addresses request" };
        let daemon = self.daemon.as_mut().ok_or(unreached)?;
        match daemon.request(self.context, &DaemonRequest::Addresses)? {
            DaemonReply::Addresses(assigned) => self.journal.assigned = assigned,
            _ => return Err(Error::UnexpectedReply { expected: "addresses" }),
        }
        Ok(())
    }

    /// The addresses assigned to the attachment at `position`, as a CNI result. Fails if the daemon assigned
    /// none.
    pub(crate) fn assigned_result(&self, position: usize) -> Result<CniResult, Error> {
        let attachment = &self.entry(position).attachment;
        let assigned = self.journal.assigned.iter().find(|assigned| assigned.attachment == position);
        match assigned.filter(|assigned| !assigned.ips.is_empty()) {
            Some(assigned) => Ok(result_from_assigned(assigned)),
            None => Err(Error::NoAddress {
                plugin: "ferroband (node daemon)".to_owned(),
                ifname: attachment.ifname.clone(),
            }
            .on_network(&attachment.network)),
        }
    }

    /// Merge the IPAM result into an attachment's result. The DNS settings of the configuration are kept,
    /// except for `ib-sriov`.
    fn merge_ipam_result(&mut self, position: usize, ipam: CniResult) -> Result<(), Error> {
        let entry = &mut self.journal.entries[position];
        let mut result = entry.cni_result()?;
        result.ips = ipam.ips.into_iter().map(|ip| ResultIp { interface: Some(0), ..ip }).collect();
        result.routes = ipam.routes;
        // Unlike upstream's ipoib, upstream's ib-sriov returns the DNS settings of IPAM.
        if entry.attachment.steps.iter().any(|step| matches!(step.kind, StepKind::IbSriov { .. })) {
            result.dns = ipam.dns;
        }
        entry.result = Some(result.write(CniVersion::NEWEST)?);
        Ok(())
    }

    fn configure_interfaces(&mut self, positions: &[usize]) -> Result<(), Error> {
        let results = positions.iter().map(|&position| self.entry(position).cni_result());
        let results: Vec<_> = results.collect::<Result<_, _>>()?;
        let names =
            positions.iter().map(|&position| self.journal.entries[position].attachment.ifname.as_str());
        let interfaces: Vec<_> = names.zip(&results).collect();
        interface_addresses::configure(self.context, &self.netns, &mut self.pod_netlink, &interfaces)
    }
}

/// Build standard input for a delegated IPAM plugin. A plugin called on its own forwards the bytes of its own
/// standard input.
pub(crate) fn ipam_stdin(
    entry: &JournalEntry,
    step: usize,
    meta: bool,
    call: Option<&Invocation>,
) -> Vec<u8> {
    match call {
        Some(call) if !meta => call.config.bytes().to_vec(),
        _ => entry.attachment.stdin(&entry.attachment.steps[step], None),
    }
}

fn result_from_assigned(assigned: &AssignedAddresses) -> CniResult {
    let ips = assigned.ips.iter();
    let routes = assigned.routes.iter();
    let dns = assigned.dns.as_ref().and_then(Value::as_object);
    CniResult {
        interfaces: Vec::new(),
        ips: ips.map(|ip| ResultIp { interface: None, address: ip.address, gateway: ip.gateway }).collect(),
        routes: routes.map(|route| ResultRoute { dst: route.dst, gw: route.gw, more: Map::new() }).collect(),
        dns: dns.cloned().unwrap_or_default(),
    }
}
