//! Reads journals that this release cannot use as a whole, such as those of a newer release after a rollback.
//!
//! Only foreign plugins know where their leases are, so their DEL must not be skipped. What Ferroband itself created is
//! found without the journal, too.

use super::{Journal, JournalEntry, SCHEMA, StepRecord, StepState, path};
use crate::ipc::plan::{Attachment, PlanStep, StepKind};
use crate::protocol::{AttachmentId, PluginType};
use crate::state::state_file;
use ferroband_kernel::{NetnsId, Root};
use serde::de::DeserializeOwned;
use serde_json::Value;

impl Journal {
    /// Read every part of a damaged or newer journal that this release understands. There are no entries if it
    /// understands nothing.
    pub(crate) fn salvage(root: &Root, id: &AttachmentId) -> Self {
        let value: Value = state_file::read(&path(root, id)).ok().flatten().unwrap_or_default();
        let entries = value["entries"].as_array().into_iter().flatten();
        Self {
            schema: SCHEMA,
            plugin_type: id.plugin_type().unwrap_or(PluginType::Ferroband),
            boot: parse(&value["boot"]),
            container: id.container().to_owned(),
            ifname: id.ifname().map_or_else(|| parse(&value["ifname"]), str::to_owned),
            network: parse(&value["network"]),
            netns: parse(&value["netns"]),
            // No namespace has this identity.
            netns_id: serde_json::from_value(value["netns_id"].clone())
                .unwrap_or(NetnsId { dev: 0, inode: 0 }),
            args: parse(&value["args"]),
            pod: parse(&value["pod"]),
            needs_release: true,
            attached: false,
            entries: entries.map(salvage_entry).filter(|entry| !entry.steps.is_empty()).collect(),
            assigned: Vec::new(),
        }
    }
}

fn salvage_entry(value: &Value) -> JournalEntry {
    let attachment = &value["attachment"];
    let records = value["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let steps = attachment["steps"].as_array().into_iter().flatten().enumerate();
    let (planned, records) = steps
        .filter_map(|(position, step)| Some((salvage_step(step)?, salvage_record(records.get(position)))))
        .unzip();
    JournalEntry {
        attachment: Attachment {
            network: parse(&attachment["network"]),
            name: parse(&attachment["name"]),
            cni_version: parse(&attachment["cni_version"]),
            ifname: parse(&attachment["ifname"]),
            default: parse(&attachment["default"]),
            steps: planned,
            device: parse(&attachment["device"]),
            args: parse(&attachment["args"]),
            ..Attachment::default()
        },
        steps: records,
        result: value.get("result").filter(|result| result.is_object()).cloned(),
    }
}

/// A step whose kind is unknown is read from its plugin configuration. `None` if that is unknown as well.
fn salvage_step(value: &Value) -> Option<PlanStep> {
    let config = value["config"].as_object()?.clone();
    let kind =
        serde_json::from_value(value["by"].clone()).ok().or_else(|| StepKind::from_config(&config).ok())?;
    Some(PlanStep { config, kind })
}

/// A step whose progress is unknown may have happened.
fn salvage_record(value: Option<&Value>) -> StepRecord {
    let happened = StepRecord { state: StepState::Done, ipam: StepState::Done, ..StepRecord::default() };
    value.and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or(happened)
}

/// Parse a value, or return the default if it is absent or has another format.
fn parse<T: DeserializeOwned + Default>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn salvage(text: &str) -> Journal {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let id = AttachmentId::new(PluginType::Ferroband, "c1", "eth0");
        std::fs::create_dir_all(root.state("journal")).unwrap();
        std::fs::write(root.state("journal/c1.json"), text).unwrap();
        Journal::salvage(&root, &id)
    }

    #[test]
    fn nothing_is_read_from_damaged_files() {
        for text in ["", "{", "[]", "5", "null", r#"{"entries":{}}"#, r#"{"entries":[1,{"attachment":[]}]}"#]
        {
            let journal = salvage(text);
            assert_eq!((journal.entries.len(), journal.container.as_str()), (0, "c1"), "{text}");
        }
    }

    #[test]
    fn steps_of_unknown_kind_are_read_from_their_configuration() {
        let steps = json!([
            {"config": {"type": "macvlan"}, "by": {"kind": "later"}},
            {"config": {"type": "ipoib"}, "by": {"kind": "later"}},
            {"config": {"type": "rdma"}, "by": {"kind": "foreign"}},
            {"later": true},
        ]);
        let entry = json!({"attachment": {"ifname": "net1", "steps": steps},
            "steps": [{"state": "undone"}, {}, {"state": "later"}]});
        let journal = salvage(&json!({"schema": 7, "network": "n", "entries": [entry]}).to_string());
        assert_eq!((journal.network.as_str(), journal.entries[0].attachment.ifname.as_str()), ("n", "net1"));
        let kinds: Vec<_> =
            journal.entries[0].attachment.steps.iter().map(|step| step.kind.clone()).collect();
        assert_eq!(kinds, [StepKind::Foreign, StepKind::Foreign], "ipoib has no master, so it is unknown");
        let states: Vec<_> = journal.entries[0].steps.iter().map(|record| record.state).collect();
        assert_eq!(states, [StepState::Undone, StepState::Done]);
    }
}
