//! Computes the rows of `ferroband partition` from API objects. Does no I/O.

use ferroband_api::ferroband::{Fabric, NodePartitions, Partition, PartitionMode};
use ferroband_partition::RequestedPKey;
use kube::ResourceExt;
use serde::Serialize;
use std::collections::BTreeMap;

/// The API objects from which the tables of `ferroband partition` are computed.
pub struct PartitionView {
    pub nodes: Vec<NodePartitions>,
    pub rules: Vec<Partition>,
    pub fabric: Option<Fabric>,
}

/// One pod interface that is, or should be, a member of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberRow {
    pub pkey: String,
    pub guid: String,
    pub membership: String,
    pub node: String,
    pub device: String,
    pub namespace: String,
    pub pod: String,
    pub interface: String,
    pub network: String,
    /// `programmed`, `pending`, `failing`, `refused`, `unmanaged`, or `unprocessed` if the cluster daemon has not
    /// processed the member yet.
    pub state: String,
    pub why: String,
}

/// One row of `ferroband partition list`: the numbers of desired and programmed members of a partition, and
/// the mode and namespaces of its Partition object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartitionRow {
    pub pkey: String,
    pub desired: usize,
    pub programmed: usize,
    pub mode: String,
    pub namespaces: Vec<String>,
}

impl PartitionView {
    /// Returns the members for which `matches` is true, sorted by partition and GUID.
    pub fn members(&self, matches: impl Fn(&MemberRow) -> bool) -> Vec<MemberRow> {
        let mut rows: Vec<MemberRow> = self.nodes.iter().flat_map(node_members).filter(matches).collect();
        rows.sort_by(|a, b| (&a.pkey, &a.guid, &a.pod).cmp(&(&b.pkey, &b.guid, &b.pod)));
        rows
    }

    /// Returns one row for each P_Key that has members or a Partition object.
    pub fn partitions(&self) -> Vec<PartitionRow> {
        let mut lines: BTreeMap<String, PartitionRow> = BTreeMap::new();
        for rule in &self.rules {
            let Ok(key) = rule.spec.pkey.parse::<RequestedPKey>() else { continue };
            let line = lines.entry(key.to_string()).or_default();
            line.mode = mode(rule).to_owned();
            line.namespaces.clone_from(&rule.spec.namespaces);
        }
        for row in self.members(|_| true) {
            let line = lines.entry(row.pkey).or_default();
            line.desired += 1;
            line.programmed += usize::from(row.state == "programmed");
        }
        for (pkey, line) in &mut lines {
            line.pkey.clone_from(pkey);
            if line.mode.is_empty() {
                line.mode = "-".to_owned();
            }
        }
        lines.into_values().collect()
    }

    /// Partition members whose GUID is in this cluster's range but is assigned to no node, as `<pkey> <guid>`.
    pub fn orphans(&self) -> Vec<String> {
        let status = self.fabric.as_ref().and_then(|fabric| fabric.status.as_ref());
        status.map(|status| status.orphans.clone()).unwrap_or_default()
    }

    /// Returns the lines above the table of `ferroband partition`: the subnet manager in use, and the reason
    /// and message of each failed condition of the Fabric object.
    pub fn heading(&self) -> String {
        let Some(status) = self.fabric.as_ref().and_then(|fabric| fabric.status.as_ref()) else {
            return "subnet manager: unknown, the Fabric has no status yet; check the cluster daemon\n"
                .to_owned();
        };
        let mut text = format!("subnet manager: {}\n", status.manager);
        for condition in status.conditions.iter().filter(|condition| condition.status == "False") {
            text.push_str(&format!("{}: {}\n", condition.reason, condition.message));
        }
        text
    }

    /// Returns a line that says which namespaces may use the partition `key`.
    pub fn describe_partition(&self, key: RequestedPKey) -> String {
        let rule = self.rules.iter().find(|rule| rule.spec.pkey.parse() == Ok(key));
        match rule {
            None => format!("partition {key}: open to all namespaces (no Partition object)\n"),
            Some(rule) => format!(
                "partition {key}: Partition {} allows namespaces {} (mode {})\n",
                rule.name_any(),
                rule.spec.namespaces.join(", "),
                mode(rule)
            ),
        }
    }
}

fn mode(rule: &Partition) -> &'static str {
    match rule.spec.mode {
        PartitionMode::Warn => "warn",
        PartitionMode::Enforce => "enforce",
    }
}

fn node_members(object: &NodePartitions) -> Vec<MemberRow> {
    let status = object.status.as_ref();
    let current = status.is_some_and(|status| Some(status.observed_generation) == object.metadata.generation);
    let row = |(name, member): (&String, &ferroband_api::ferroband::NodeMember)| {
        let waiting = status.and_then(|status| status.waiting.get(name));
        let state = match waiting {
            Some(waiting) if waiting.refused => "refused",
            Some(waiting) if waiting.attempts > 0 => "failing",
            Some(_) => "pending",
            None if status.is_some_and(|status| status.unmanaged) => "unmanaged",
            None if current => "programmed",
            None => "unprocessed",
        };
        MemberRow {
            pkey: member.pkey.clone(),
            guid: member.guid.clone(),
            membership: if member.limited { "limited" } else { "full" }.to_owned(),
            node: object.name_any(),
            device: member.device.clone(),
            namespace: member.namespace.clone(),
            pod: member.pod.clone(),
            interface: name.split_once('.').map_or("", |(_, interface)| interface).to_owned(),
            network: member.network.clone(),
            state: state.to_owned(),
            why: waiting.map(|waiting| waiting.message.clone()).unwrap_or_default(),
        }
    };
    object.spec.members.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_api::ferroband::{
        NodeMember, NodePartitionsSpec, NodePartitionsStatus, PartitionSpec, WaitingMember,
    };

    fn member(pkey: &str, guid: &str) -> NodeMember {
        NodeMember {
            pkey: pkey.into(),
            guid: guid.into(),
            namespace: "a".into(),
            pod: "p".into(),
            ..NodeMember::default()
        }
    }

    // Case: partitions 84
    #[test]
    fn pending_member_is_shown_with_the_last_error() {
        let members = [("c.net1", member("0x0005", "1")), ("d.net1", member("0x0005", "2"))];
        let members = members.map(|(name, member)| (name.to_owned(), member)).into();
        let mut node =
            NodePartitions::new("n1", NodePartitionsSpec { members, ..NodePartitionsSpec::default() });
        node.metadata.generation = Some(3);
        let waiting = WaitingMember { attempts: 2, message: "connection refused".into(), refused: false };
        node.status = Some(NodePartitionsStatus {
            observed_generation: 3,
            waiting: [("d.net1".to_owned(), waiting)].into(),
            ..NodePartitionsStatus::default()
        });
        let rule = PartitionSpec {
            pkey: "5".into(),
            namespaces: vec!["a".into()],
            mode: PartitionMode::Enforce,
            ..PartitionSpec::default()
        };
        let view =
            PartitionView { nodes: vec![node], rules: vec![Partition::new("five", rule)], fabric: None };
        let rows = view.members(|_| true);
        let states: Vec<_> = rows.iter().map(|row| (row.state.as_str(), row.why.as_str())).collect();
        assert_eq!(states, [("programmed", ""), ("failing", "connection refused")]);
        let lines = view.partitions();
        assert_eq!((lines[0].desired, lines[0].programmed, lines[0].mode.as_str()), (2, 1, "enforce"));
        assert_eq!(
            view.describe_partition(RequestedPKey::new(5).unwrap()),
            "partition 0x0005: Partition five allows namespaces a (mode enforce)\n"
        );
    }
}
