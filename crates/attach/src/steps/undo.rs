//! Teardown of the steps in a journal: in reverse order, continuing after errors, ignoring what is already gone.

use crate::ipc::node_client::NodeClient;
use crate::ipc::plan::StepKind;
use crate::protocol::result::to_prev_result;
use crate::protocol::{CniCommand, CniContext, CniVersion, Error, FailPoint, Invocation, args};
use crate::state::journal::{Journal, JournalEntry, StepState};
use crate::state::pending_release::PendingRelease;
use crate::state::pending_status::PendingStatus;
use crate::state::{Lock, device_info};
use crate::steps::apply::addresses::ipam_stdin;
use crate::steps::delegate::{self, PluginEnv};
use crate::steps::vf::VfTeardown;
use crate::steps::{coordinator, ipoib, rdma};
use ferroband_kernel::Netns;
use std::cell::RefCell;

/// Context for undoing the steps of one journal, in a DEL, in a GC or after a failed ADD.
pub(crate) struct AttachmentTeardown<'a> {
    pub(crate) context: &'a CniContext<'a>,
    pub(crate) lock: &'a Lock,
    /// The sandbox's namespace, if it still exists.
    pub(crate) netns: Option<&'a Netns>,
    /// Value of `CNI_NETNS` for foreign plugins.
    pub(crate) cni_netns: &'a str,
    /// Value of `CNI_PATH` for foreign plugins.
    pub(crate) path: &'a str,
    /// The CNI call that is being served; `None` in a GC, whose call is not for this sandbox.
    pub(crate) call: Option<&'a Invocation>,
    /// An open connection to the daemon, if there is one. It is unusable after a request without a reply.
    pub(crate) daemon: RefCell<Option<NodeClient>>,
}

impl AttachmentTeardown<'_> {
    /// Undo all steps that may have happened, and mark them undone. A step that cannot be undone keeps its
    /// state, and the others are still undone.
    pub(crate) fn run(&self, journal: &mut Journal) -> Vec<Error> {
        let mut errors = Vec::new();
        for position in (0..journal.entries.len()).rev() {
            for step in (0..journal.entries[position].steps.len()).rev() {
                if let Err(error) = self.undo_step(journal, position, step) {
                    errors.push(error.on_network(&journal.entries[position].attachment.network));
                }
                if let Err(error) = self.undo_ipam(journal, position, step) {
                    errors.push(error.on_network(&journal.entries[position].attachment.network));
                }
            }
            let attachment = &journal.entries[position].attachment;
            errors.extend(device_info::remove(self.context.root, &journal.container, attachment).err());
        }
        errors
    }

    fn undo_step(&self, journal: &mut Journal, position: usize, step: usize) -> Result<(), Error> {
        let entry = &journal.entries[position];
        let record = &entry.steps[step];
        if !record.state.is_open() {
            return Ok(());
        }
        match (&entry.attachment.steps[step].kind, &record.interface) {
            (StepKind::Foreign, _) => self.undo_foreign(journal, entry, step)?,
            (StepKind::IbSriov { vf, .. }, _) => {
                let daemon = &mut *self.daemon.borrow_mut();
                VfTeardown { context: self.context, netns: self.netns, daemon: daemon.as_mut() }
                    .run(vf.device, &journal.id().file_stem())?;
            }
            (StepKind::Coordinator(config), identity) => {
                let veth = identity.as_ref().map(|identity| identity.temporary.as_str());
                coordinator::teardown(self.context, self.netns, config, veth)?;
            }
            (StepKind::Rdma { .. }, _) => {
                if let Some(moved) = &record.rdma_device {
                    rdma::undo(self.context, self.netns, moved, self.daemon.borrow_mut().as_mut())?;
                }
            }
            (_, Some(identity)) => {
                ipoib::remove(self.context, self.netns, identity, &entry.attachment.ifname)?;
            }
            (_, None) => {}
        }
        journal.entries[position].steps[step].state = StepState::Undone;
        Ok(())
    }

    /// Run DEL of the IPAM plugin, only after the interface with the address is gone.
    fn undo_ipam(&self, journal: &mut Journal, position: usize, step: usize) -> Result<(), Error> {
        let entry = &journal.entries[position];
        let record = &entry.steps[step];
        if !record.ipam.is_open() || record.state.is_open() {
            return Ok(());
        }
        if let Some(plugin) = entry.attachment.steps[step].interface()?.ipam_plugin {
            let stdin = ipam_stdin(entry, step, journal.plugin_type.is_meta(), self.call);
            delegate::run(plugin, CniCommand::Del, &self.plugin_env(journal, entry), &stdin)?;
            (self.context.fail_point)(FailPoint::PluginExecuted);
        }
        journal.entries[position].steps[step].ipam = StepState::Undone;
        Ok(())
    }

    fn undo_foreign(&self, journal: &Journal, entry: &JournalEntry, step: usize) -> Result<(), Error> {
        let planned = &entry.attachment.steps[step];
        let version = entry.attachment.version()?;
        // Since 0.4.0 DEL gets the result of the whole chain, if there is one.
        let result = entry.result.as_ref().filter(|_| version >= CniVersion::V0_4_0);
        let previous = result.map(|result| to_prev_result(result, version)).transpose()?;
        let stdin = entry.attachment.stdin(planned, previous.as_ref());
        delegate::run(planned.plugin(), CniCommand::Del, &self.plugin_env(journal, entry), &stdin)?;
        (self.context.fail_point)(FailPoint::PluginExecuted);
        Ok(())
    }

    fn plugin_env<'b>(&'b self, journal: &'b Journal, entry: &'b JournalEntry) -> PluginEnv<'b> {
        let of_call = self.call.map(|call| call.args.as_str()).filter(|args| !args.is_empty());
        let args = of_call.unwrap_or(&journal.args);
        PluginEnv {
            container: &journal.container,
            netns: self.cni_netns,
            ifname: &entry.attachment.ifname,
            args: args::append(args, &entry.attachment.args),
            path: self.path,
            lock: Some(self.lock),
        }
    }
}

/// Finish cleanup: release the addresses or queue the release, then remove the journal. If anything is left to undo,
/// keep the journal for the next DEL. Returns the errors.
pub(crate) fn finish_cleanup(
    context: &CniContext<'_>,
    journal: Journal,
    lock: Lock,
    daemon: Option<NodeClient>,
    mut errors: Vec<Error>,
) -> Vec<Error> {
    let id = journal.id();
    if journal.needs_release && journal.interfaces_gone() {
        let release = PendingRelease::new(&id, journal.pod.clone());
        errors.extend(release.send_or_queue(context, daemon).err());
    }
    let closed = match errors.is_empty() {
        true => PendingStatus::new(id.clone())
            .remove(context.root)
            .and_then(|()| Journal::remove(context.root, &id)),
        // Save which steps are undone, so that the next DEL does not undo them again.
        false => journal.save(context.root),
    };
    (context.fail_point)(if errors.is_empty() { FailPoint::JournalRemoved } else { FailPoint::Journaled });
    errors.extend(closed.err());
    if errors.is_empty() {
        lock.release_and_remove();
    }
    errors
}
