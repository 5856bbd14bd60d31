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

pub(crate) use devices::{function, rdma};

use crate::config::{Config, is_identifier};
use crate::delegate::{self, Surroundings};
use crate::plan::{Attachment, Step};
use crate::{Command, Error, Invocation, Machine, Role, Version, chain, del, device_info, record};
use ferroband_kernel::Root;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const FOLDER: &str = "var/lib/cni/multus";

/// What is left of one sandbox.
#[derive(Debug)]
pub(crate) struct Left {
    container: String,
    /// The attachments in the order they were made.
    attached: Vec<Attached>,
    /// The list of delegates, if it is there.
    list: Option<PathBuf>,
}

/// One attachment.
#[derive(Debug, PartialEq)]
struct Attached {
    attachment: Attachment,
    /// The result of its last plugin.
    result: Option<Value>,
    /// `CNI_ARGS` of its ADD, when known.
    args: Option<String>,
    /// The file of libcni's cache.
    cached: Option<PathBuf>,
}

/// The sandboxes that the files are about.
pub(crate) fn containers(root: &Root) -> Vec<String> {
    let entries = fs::read_dir(root.path(FOLDER)).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_identifier(name)).collect()
}

impl Left {
    /// The attachments, default network first.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.attached.iter().map(|one| &one.attachment)
    }

    /// Undo it, in reverse and to the end. The files of what was undone go; the others stay for the next try.
    pub(crate) fn delete(
        &self,
        machine: &Machine<'_>,
        call: &Invocation,
        around: &Surroundings<'_>,
    ) -> Vec<Error> {
        let mut errors = Vec::new();
        for attached in self.attached.iter().rev() {
            let undone = self.undo(machine, call, around, attached);
            errors.extend(undone.into_iter().map(|error| error.on(&attached.attachment.network)));
        }
        if errors.is_empty()
            && let Some(list) = &self.list
        {
            errors.extend(record::remove(list).err());
        }
        errors
    }

    fn undo(
        &self,
        machine: &Machine<'_>,
        call: &Invocation,
        around: &Surroundings<'_>,
        attached: &Attached,
    ) -> Vec<Error> {
        let attachment = &attached.attachment;
        let around = Surroundings {
            container: &self.container,
            ifname: &attachment.ifname,
            args: attached.args.as_deref().map_or(around.args.clone(), Into::into),
            ..around.clone()
        };
        let run = |step: &Step| {
            let version = attachment.version()?;
            let result = attached.result.as_ref().filter(|_| version >= Version::V0_4_0);
            let previous = result.map(|result| chain::previous(result, version)).transpose()?;
            let stdin = chain::stdin(attachment, step, previous.as_ref());
            plugin(machine, call, &around, step, stdin)
        };
        let mut errors: Vec<_> = attachment.steps.iter().rev().filter_map(|step| run(step).err()).collect();
        errors.extend(device_info::remove(machine.root, &self.container, attachment).err());
        if errors.is_empty()
            && let Some(cached) = &attached.cached
        {
            errors.extend(record::remove(cached).err());
        }
        errors
    }
}

/// The plugin that made it; if it is no longer installed and is one that we stand in for, we.
fn plugin(
    machine: &Machine<'_>,
    call: &Invocation,
    around: &Surroundings<'_>,
    step: &Step,
    stdin: Vec<u8>,
) -> Result<(), Error> {
    let ours = Role::of_name(step.plugin()).filter(|role| !role.is_meta());
    match (delegate::find(step.plugin(), around.path), ours) {
        (Err(Error::NoPlugin { .. }), Some(role)) => {
            let config = Config::parse(stdin)?;
            let call = Invocation {
                command: Command::Del,
                container: around.container.to_owned(),
                ifname: around.ifname.to_owned(),
                args: around.args.clone().into_owned(),
                version: config.version()?,
                config,
                ..call.clone()
            };
            del::del(machine, role, &call)
        }
        _ => delegate::run(step.plugin(), Command::Del, around, &stdin).map(drop),
    }
}
