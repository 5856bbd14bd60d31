//! Sandboxes attached by upstream Multus before Ferroband replaced it. Its state files say what DEL has to undo.
//!
//! ```text
//! var/lib/cni/multus/<container>                                   the delegates, in order
//! var/lib/cni/multus/results/<network>-<container>-<interface>     libcni's cache: configuration, result, arguments
//! ```
//!
//! The first file may be missing or damaged (Multus writes it in place, and removes it even when a DEL
//! failed). Then only the cache files show what is left.

mod state_files;
#[cfg(test)]
mod tests;
mod vf_and_rdma;

pub(crate) use vf_and_rdma::{return_rdma_device, return_vf};

use crate::ipc::plan::{Attachment, PlanStep};
use crate::protocol::result::to_prev_result;
use crate::protocol::{CniCommand, CniContext, CniVersion, Error, Invocation, PluginConfig, PluginType};
use crate::state::{device_info, state_file};
use crate::steps::delegate::{self, PluginEnv};
use ferroband_config::is_identifier;
use ferroband_kernel::Root;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const MULTUS_DIR: &str = "var/lib/cni/multus";

/// State that Multus left for one sandbox.
#[derive(Debug)]
pub(crate) struct MultusState {
    container: String,
    /// The sandbox's attachments, in the order in which Multus ran their ADDs.
    attachments: Vec<MultusAttachment>,
    /// Path of Multus' file with the list of delegates, if it exists.
    delegates_file: Option<PathBuf>,
}

#[derive(Debug, PartialEq)]
struct MultusAttachment {
    attachment: Attachment,
    /// CNI result of the attachment's last plugin, if known.
    result: Option<Value>,
    /// `CNI_ARGS` of the ADD, if known.
    args: Option<String>,
    /// Path of the attachment's file in libcni's cache, if it exists.
    cache_file: Option<PathBuf>,
}

/// DEL of a plugin that Ferroband has in place of the original one.
type DelPlugin = fn(&CniContext<'_>, PluginType, &Invocation) -> Result<(), Error>;

/// Container IDs with a Multus state file.
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

    /// Delete all attachments in reverse order, continuing after errors. Files of failed attachments stay for a retry.
    /// `del` is called for plugins whose original is no longer installed.
    pub(crate) fn delete(
        &self,
        context: &CniContext<'_>,
        call: &Invocation,
        env: &PluginEnv<'_>,
        del: DelPlugin,
    ) -> Vec<Error> {
        let mut errors = Vec::new();
        for attached in self.attachments.iter().rev() {
            let undone = self.undo(context, call, env, del, attached);
            errors.extend(undone.into_iter().map(|error| error.on_network(&attached.attachment.network)));
        }
        if errors.is_empty()
            && let Some(list) = &self.delegates_file
        {
            errors.extend(state_file::remove(list).err());
        }
        errors
    }

    fn undo(
        &self,
        context: &CniContext<'_>,
        call: &Invocation,
        env: &PluginEnv<'_>,
        del: DelPlugin,
        attached: &MultusAttachment,
    ) -> Vec<Error> {
        let attachment = &attached.attachment;
        let env = PluginEnv {
            container: &self.container,
            ifname: &attachment.ifname,
            args: attached.args.as_deref().map_or(env.args.clone(), Into::into),
            ..env.clone()
        };
        let run = |step: &PlanStep| {
            let version = attachment.version()?;
            let result = attached.result.as_ref().filter(|_| version >= CniVersion::V0_4_0);
            let previous = result.map(|result| to_prev_result(result, version)).transpose()?;
            let stdin = attachment.stdin(step, previous.as_ref());
            delete_step(context, call, &env, del, step, stdin)
        };
        let mut errors: Vec<_> = attachment.steps.iter().rev().filter_map(|step| run(step).err()).collect();
        errors.extend(device_info::remove(context.root, &self.container, attachment).err());
        if errors.is_empty()
            && let Some(cached) = &attached.cache_file
        {
            errors.extend(state_file::remove(cached).err());
        }
        errors
    }
}

/// Run DEL of the original plugin, or Ferroband's replacement if that plugin is no longer installed.
fn delete_step(
    context: &CniContext<'_>,
    call: &Invocation,
    env: &PluginEnv<'_>,
    del: DelPlugin,
    step: &PlanStep,
    stdin: Vec<u8>,
) -> Result<(), Error> {
    let replaced = PluginType::from_name(step.plugin()).filter(|plugin_type| !plugin_type.is_meta());
    match (delegate::find_plugin(step.plugin(), env.path), replaced) {
        (Err(Error::NoPlugin { .. }), Some(plugin_type)) => {
            let config = PluginConfig::parse(stdin)?;
            let call = Invocation {
                command: CniCommand::Del,
                container: env.container.to_owned(),
                ifname: env.ifname.to_owned(),
                args: env.args.clone().into_owned(),
                version: config.version()?,
                config,
                ..call.clone()
            };
            del(context, plugin_type, &call)
        }
        _ => delegate::run(step.plugin(), CniCommand::Del, env, &stdin).map(drop),
    }
}
