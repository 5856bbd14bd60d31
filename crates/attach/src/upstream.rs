//! Sandboxes that upstream Multus attached before we took its place: its files say what a DEL has to undo.
//!
//! ```text
//! var/lib/cni/multus/<container>                                   the delegates, in order
//! var/lib/cni/multus/results/<network>-<container>-<interface>     libcni's cache: configuration, result, arguments
//! ```
//!
//! The first may be absent or damaged (it is written in place, and removed even when a DEL failed); then the second
//! alone names what is left.

mod base64;
mod devices;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use devices::{return_rdma_device, return_vf};

use crate::config::{PluginConfig, is_identifier};
use crate::delegate::{self, PluginEnv};
use crate::plan::{Attachment, PlanStep};
use crate::{
    CniCommand, CniContext, CniVersion, Error, Invocation, PluginType, chain, del, device_info, record,
};
use ferroband_kernel::Root;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const MULTUS_DIR: &str = "var/lib/cni/multus";

/// What is left of one sandbox.
#[derive(Debug)]
pub(crate) struct MultusState {
    container: String,
    /// The attachments in the order they were made.
    attachments: Vec<MultusAttachment>,
    /// The list of delegates, if it is there.
    delegates_file: Option<PathBuf>,
}

/// One attachment.
#[derive(Debug, PartialEq)]
struct MultusAttachment {
    attachment: Attachment,
    /// The result of its last plugin.
    result: Option<Value>,
    /// `CNI_ARGS` of its ADD, when known.
    args: Option<String>,
    /// The file of libcni's cache.
    cache_file: Option<PathBuf>,
}

/// The sandboxes that the files are about.
pub(crate) fn list_containers(root: &Root) -> Vec<String> {
    let entries = fs::read_dir(root.path(MULTUS_DIR)).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_identifier(name)).collect()
}

impl MultusState {
    /// The attachments, default network first.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.iter().map(|one| &one.attachment)
    }

    /// Undo it, in reverse and to the end. The files of what was undone go; the others stay for the next try.
    pub(crate) fn delete(
        &self,
        machine: &CniContext<'_>,
        call: &Invocation,
        around: &PluginEnv<'_>,
    ) -> Vec<Error> {
        let mut errors = Vec::new();
        for attached in self.attachments.iter().rev() {
            let undone = self.undo(machine, call, around, attached);
            errors.extend(undone.into_iter().map(|error| error.on_network(&attached.attachment.network)));
        }
        if errors.is_empty()
            && let Some(list) = &self.delegates_file
        {
            errors.extend(record::remove(list).err());
        }
        errors
    }

    fn undo(
        &self,
        machine: &CniContext<'_>,
        call: &Invocation,
        around: &PluginEnv<'_>,
        attached: &MultusAttachment,
    ) -> Vec<Error> {
        let attachment = &attached.attachment;
        let around = PluginEnv {
            container: &self.container,
            ifname: &attachment.ifname,
            args: attached.args.as_deref().map_or(around.args.clone(), Into::into),
            ..around.clone()
        };
        let run = |step: &PlanStep| {
            let version = attachment.version()?;
            let result = attached.result.as_ref().filter(|_| version >= CniVersion::V0_4_0);
            let previous = result.map(|result| chain::to_prev_result(result, version)).transpose()?;
            let stdin = chain::build_stdin(attachment, step, previous.as_ref());
            delete_step(machine, call, &around, step, stdin)
        };
        let mut errors: Vec<_> = attachment.steps.iter().rev().filter_map(|step| run(step).err()).collect();
        errors.extend(device_info::remove(machine.root, &self.container, attachment).err());
        if errors.is_empty()
            && let Some(cached) = &attached.cache_file
        {
            errors.extend(record::remove(cached).err());
        }
        errors
    }
}

/// The plugin that made it; if it is no longer installed and is one that we stand in for, we.
fn delete_step(
    machine: &CniContext<'_>,
    call: &Invocation,
    around: &PluginEnv<'_>,
    step: &PlanStep,
    stdin: Vec<u8>,
) -> Result<(), Error> {
    let ours = PluginType::from_name(step.plugin()).filter(|role| !role.is_meta());
    match (delegate::find_plugin(step.plugin(), around.path), ours) {
        (Err(Error::NoPlugin { .. }), Some(role)) => {
            let config = PluginConfig::parse(stdin)?;
            let call = Invocation {
                command: CniCommand::Del,
                container: around.container.to_owned(),
                ifname: around.ifname.to_owned(),
                args: around.args.clone().into_owned(),
                version: config.version()?,
                config,
                ..call.clone()
            };
            del::del(machine, role, &call)
        }
        _ => delegate::run(step.plugin(), CniCommand::Del, around, &stdin).map(drop),
    }
}
