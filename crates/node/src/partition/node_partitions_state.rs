//! What this node's object says: its functions, and the members of its sandboxes. Pure.

use ferroband_api::ferroband::{NodeMember, NodePartitions, NodePartitionsSpec};
use ferroband_model::{Guid, PciAddress};
use std::collections::{BTreeMap, BTreeSet};

/// The book.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePartitionsState {
    functions: BTreeMap<String, String>,
    members: BTreeMap<String, NodeMember>,
    /// The generation of the object in which a member stood first.
    first_generations: BTreeMap<String, i64>,
}

impl NodePartitionsState {
    /// The name of a member.
    pub fn member_name(container: &str, ifname: &str) -> String {
        format!("{container}.{ifname}")
    }

    /// Whether a member is of a sandbox, and if an interface is named, that one.
    pub fn is_member_of(name: &str, container: &str, ifname: Option<&str>) -> bool {
        match ifname {
            Some(ifname) => name == Self::member_name(container, ifname),
            None => name.split('.').next() == Some(container),
        }
    }

    /// Takes over what stood in the object when the daemon started: members of sandboxes that still exist. Nothing
    /// that was entered meanwhile is lost.
    pub fn restore(&mut self, object: &NodePartitions, alive: &BTreeSet<String>) {
        for (name, member) in &object.spec.members {
            let container = name.split('.').next().unwrap_or_default();
            if alive.contains(container) {
                self.members.entry(name.clone()).or_insert_with(|| member.clone());
            }
        }
        for (pci, guid) in &object.spec.functions {
            self.functions.entry(pci.clone()).or_insert_with(|| guid.clone());
        }
    }

    /// What functions there are now, each with the GUID that it shows. One that the host cannot see (it is in a pod) keeps the
    /// one it had, one that shows zeros has none. Says whether anything changed.
    pub fn update_functions(&mut self, seen: &BTreeMap<PciAddress, Option<Guid>>) -> bool {
        let before = self.functions.clone();
        let there = |pci: &String| pci.parse::<PciAddress>().is_ok_and(|pci| seen.contains_key(&pci));
        let held: BTreeSet<String> = self.members.values().map(|member| member.device.clone()).collect();
        // One that a sandbox is recorded to have is not forgotten because it cannot be seen for a moment.
        self.functions.retain(|pci, _| there(pci) || held.contains(pci));
        for (pci, guid) in seen {
            match guid {
                Some(guid) if !guid.is_unset() => {
                    self.functions.insert(pci.to_string(), guid.to_string());
                }
                // A driver that is being bound shows zeros, too.
                Some(_) if !held.contains(&pci.to_string()) => {
                    self.functions.remove(&pci.to_string());
                }
                _ => {}
            }
        }
        self.functions != before
    }

    /// Enters a member. Says whether it is new.
    pub fn add_member(&mut self, name: &str, member: NodeMember) -> bool {
        if self.members.get(name) == Some(&member) {
            return false;
        }
        if !member.shared {
            self.functions.insert(member.device.clone(), member.guid.clone());
        }
        self.first_generations.remove(name);
        self.members.insert(name.to_owned(), member);
        true
    }

    /// A sandbox, or one interface of it, is gone. Says whether it had members.
    pub fn remove_members(&mut self, container: &str, ifname: Option<&str>) -> bool {
        let before = self.members.len();
        self.members.retain(|name, _| !Self::is_member_of(name, container, ifname));
        self.first_generations.retain(|name, _| !Self::is_member_of(name, container, ifname));
        self.members.len() != before
    }

    /// What the object should say.
    pub fn spec(&self) -> NodePartitionsSpec {
        NodePartitionsSpec { functions: self.functions.clone(), members: self.members.clone() }
    }

    /// The object says this, in this generation.
    pub fn record_written(&mut self, spec: &NodePartitionsSpec, generation: i64) {
        for (name, member) in &spec.members {
            if self.members.get(name) == Some(member) {
                // An object that was made anew counts from the beginning.
                let first = self.first_generations.entry(name.clone()).or_insert(generation);
                *first = generation.min(*first);
            }
        }
    }

    /// The generation in which a member stood first, once it is written.
    pub fn first_generation(&self, name: &str) -> Option<i64> {
        self.first_generations.get(name).copied()
    }

    /// The sandboxes that have members, each with its pod's UID.
    pub fn list_sandboxes(&self) -> Vec<(String, String)> {
        let container = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
        self.members.iter().map(|(name, member)| (container(name), member.uid.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(device: &str, guid: &str) -> NodeMember {
        NodeMember {
            device: device.into(),
            guid: guid.into(),
            pkey: "0x0005".into(),
            ..NodeMember::default()
        }
    }

    #[test]
    fn case_67_members_come_and_go_with_their_sandboxes_and_a_second_del_is_nothing() {
        let mut book = NodePartitionsState::default();
        assert!(book.add_member("c1.net1", member("0000:3b:00.2", "02:00:00:00:00:00:00:01")));
        assert!(
            !book.add_member("c1.net1", member("0000:3b:00.2", "02:00:00:00:00:00:00:01")),
            "twice is once"
        );
        book.add_member("c1.net2", member("0000:3b:00.3", "02:00:00:00:00:00:00:02"));
        book.add_member("c10.net1", member("0000:3b:00.4", "02:00:00:00:00:00:00:03"));
        let spec = book.spec();
        book.record_written(&spec, 7);
        assert_eq!(book.first_generation("c1.net1"), Some(7));
        assert!(book.remove_members("c1", Some("net1")) && !book.remove_members("c1", Some("net1")));
        assert!(book.remove_members("c1", None));
        assert_eq!(book.spec().members.keys().collect::<Vec<_>>(), ["c10.net1"]);
        assert_eq!(book.spec().functions.len(), 3, "functions keep their GUIDs");
        assert!(!book.remove_members("never heard of", None));
    }

    #[test]
    fn after_a_restart_only_what_lives_is_taken_over() {
        let mut object = NodePartitions::new("n", NodePartitionsSpec::default());
        object.spec.members.insert("alive.net1".into(), member("0000:3b:00.2", "02:00:00:00:00:00:00:01"));
        object.spec.members.insert("dead.net1".into(), member("0000:3b:00.3", "02:00:00:00:00:00:00:02"));
        let mut book = NodePartitionsState::default();
        book.add_member("new.net1", member("0000:3b:00.4", "02:00:00:00:00:00:00:03"));
        book.restore(&object, &BTreeSet::from(["alive".to_owned()]));
        assert_eq!(book.spec().members.keys().collect::<Vec<_>>(), ["alive.net1", "new.net1"]);
    }

    #[test]
    fn a_function_in_a_pod_keeps_its_guid_and_one_that_is_gone_does_not() {
        let (here, gone): (PciAddress, PciAddress) =
            ("0000:3b:00.2".parse().unwrap(), "0000:3b:00.3".parse().unwrap());
        let guid = Guid::new(0x0200_0000_0000_0001);
        let mut book = NodePartitionsState::default();
        assert!(book.update_functions(&BTreeMap::from([(here, Some(guid)), (gone, Some(Guid::new(2)))])));
        assert!(book.update_functions(&BTreeMap::from([(here, None)])));
        assert_eq!(book.spec().functions, BTreeMap::from([(here.to_string(), guid.to_string())]));
        assert!(!book.update_functions(&BTreeMap::from([(here, None)])));
        book.add_member("c1.net1", member("0000:3b:00.2", &guid.to_string()));
        assert!(
            !book.update_functions(&BTreeMap::from([(here, Some(Guid::new(0)))])),
            "a sandbox is getting it"
        );
        book.remove_members("c1", None);
        assert!(book.update_functions(&BTreeMap::from([(here, Some(Guid::new(0)))])));
        assert!(book.spec().functions.is_empty(), "it was given back and has none of its own");
    }
}
