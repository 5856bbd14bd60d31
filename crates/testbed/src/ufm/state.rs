//! The partitions of the simulated UFM, and its REST handlers.

use super::http::HttpRequest;
use super::injected_fault::PendingFault;
use super::version_quirks::{MissingPartitionReply, VersionQuirks};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ferroband_model::Guid;
use ferroband_partition::parse_guid;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Membership of a GUID in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedMember {
    /// True for a full member, false for a limited one.
    pub full: bool,
    /// Whether the P_Key is at index 0 of the port's P_Key table.
    pub index0: bool,
}

/// A logged addition or removal of a member. [`crate::audit`] evaluates these events after a test.
#[derive(Clone, Debug, PartialEq)]
pub struct MembershipEvent {
    pub at: Instant,
    pub key: u16,
    pub guid: Guid,
    /// True if the GUID was added, false if it was removed.
    pub member: bool,
}

/// A request that the UFM received.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    pub at: Instant,
    /// Method and path, separated by a space.
    pub request: String,
    pub body: Value,
    /// Response status; 0 for a closed connection.
    pub status: u16,
}

#[derive(Default)]
pub(super) struct UfmSimulatorState {
    pub(super) partitions: BTreeMap<u16, BTreeMap<Guid, SimulatedMember>>,
    pub(super) events: Vec<MembershipEvent>,
    pub(super) calls: Vec<RecordedCall>,
    pub(super) faults: Vec<PendingFault>,
    pub(super) quirks: VersionQuirks,
    pub(super) down: bool,
    /// Incremented when the UFM goes down; connections of an earlier generation are closed.
    pub(super) generation: u64,
}

impl UfmSimulatorState {
    /// Processes a request and returns status and body.
    pub(super) fn handle(&mut self, request: &HttpRequest, has_certificate: bool) -> (u16, String) {
        let Some(path) = self.authorized_path(request, has_certificate) else {
            return (401, "{\"error\": \"Unauthorized\"}".to_owned());
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["app", "ufm_version"]) => (200, json!({"ufm_release_version": "6.22.0 build 1"}).to_string()),
            ("GET", ["app", "smconf"]) => {
                (200, json!({"subnet_prefix": "0xfe80000000000000", "m_key": "0x0", "sm_key": "0x1", "sa_key": "0x1", "m_key_per_port": false}).to_string())
            }
            ("GET", ["resources", "pkeys"]) if query.contains("guids_data=true") => (200, self.list_partitions().to_string()),
            ("GET", ["resources", "pkeys"]) => (200, json!(self.partitions.keys().map(|k| format!("{k:#x}")).collect::<Vec<_>>()).to_string()),
            ("GET", ["resources", "pkeys", key]) => self.get_partition(key),
            ("POST", ["resources", "pkeys", "add"]) => self.create_partition(&body),
            ("POST", ["resources", "pkeys"]) => self.add_members(&body),
            ("DELETE", ["resources", "pkeys", key, "guids", guids]) if self.quirks.supports_delete => {
                let guids: Vec<&str> = guids.split(',').collect();
                self.remove_members(key, &guids)
            }
            ("DELETE", ["resources", "pkeys", key]) => {
                let all: Vec<String> = parse_pkey(key)
                    .and_then(|key| self.partitions.get(&key))
                    .map(|members| members.keys().map(|guid| format!("{:016x}", guid.value())).collect())
                    .unwrap_or_default();
                self.remove_members(key, &all.iter().map(String::as_str).collect::<Vec<_>>())
            }
            ("POST", ["actions", "remove_guids_from_pkey"]) => {
                let key = body["pkey"].as_str().unwrap_or_default().to_owned();
                let guids: Vec<&str> = body["guids"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                self.remove_members(&key, &guids)
            }
            _ => (404, "{\"error\": \"unknown resource\"}".to_owned()),
        }
    }

    /// Returns the path without the prefix `/ufmRest` or `/ufmRestV3`, or `None` if the request is not
    /// authorized.
    fn authorized_path<'a>(&self, request: &'a HttpRequest, has_certificate: bool) -> Option<&'a str> {
        let authorization = request.authorization.as_deref().unwrap_or_default();
        if let Some(path) = request.path.strip_prefix("/ufmRestV3") {
            let token = authorization.strip_prefix("Basic ")?;
            return self.quirks.tokens.iter().any(|known| known == token).then_some(path);
        }
        let path = request.path.strip_prefix("/ufmRest")?;
        let (user, password) = &self.quirks.credentials;
        (has_certificate || authorization == format!("Basic {}", BASE64.encode(format!("{user}:{password}"))))
            .then_some(path)
    }

    fn list_partitions(&self) -> Value {
        let mut all = Map::new();
        let mut default = json!({"partition": "management", "ip_over_ib": true, "guids": []});
        if let Some(membership) = self.quirks.default_membership {
            default["membership"] = membership.into();
        }
        all.insert("0x7fff".to_owned(), default);
        for (key, members) in &self.partitions {
            all.insert(format!("{key:#x}"), partition_json(*key, members));
        }
        all.into()
    }

    fn get_partition(&self, key: &str) -> (u16, String) {
        match (
            parse_pkey(key).and_then(|key| Some((key, self.partitions.get(&key)?))),
            self.quirks.missing_partition,
        ) {
            (Some((key, members)), _) => (200, partition_json(key, members).to_string()),
            (None, MissingPartitionReply::EmptyObject) => (200, "{}".to_owned()),
            (None, MissingPartitionReply::NotFound) => (404, "{}".to_owned()),
        }
    }

    fn create_partition(&mut self, body: &Value) -> (u16, String) {
        let Some(key) = body["pkey"].as_str().and_then(parse_pkey) else { return bad_request("pkey") };
        if self.partitions.contains_key(&key) {
            return (self.quirks.exists_status, format!("{{\"error\": \"pkey {key:#x} already exists\"}}"));
        }
        self.partitions.insert(key, BTreeMap::new());
        (self.quirks.success_status, "{}".to_owned())
    }

    fn add_members(&mut self, body: &Value) -> (u16, String) {
        let Some(key) = body["pkey"].as_str().and_then(parse_pkey) else { return bad_request("pkey") };
        let Some(listed) = body["guids"].as_array() else { return bad_request("guids") };
        let guids: Option<Vec<Guid>> = listed.iter().map(|guid| parse_guid(guid.as_str()?)).collect();
        let Some(guids) = guids.filter(|guids| !guids.is_empty()) else { return bad_request("guids") };
        if !self.quirks.add_creates_partition && !self.partitions.contains_key(&key) {
            return (404, "{\"error\": \"pkey not found\"}".to_owned());
        }
        let full = match body["membership"].as_str() {
            None | Some("full") => true,
            Some("limited") => false,
            Some(_) => return bad_request("membership"),
        };
        let member = SimulatedMember { full, index0: body["index0"] == true };
        for guid in guids {
            self.partitions.entry(key).or_default().insert(guid, member);
            self.events.push(MembershipEvent { at: Instant::now(), key, guid, member: true });
        }
        (self.quirks.success_status, "{}".to_owned())
    }

    fn remove_members(&mut self, key: &str, guids: &[&str]) -> (u16, String) {
        let missing = (404, "{\"error\": \"not found\"}".to_owned());
        let Some(key) = parse_pkey(key) else { return bad_request("pkey") };
        let Some(members) = self.partitions.get_mut(&key) else { return missing };
        let mut found = false;
        for guid in guids.iter().filter_map(|guid| parse_guid(guid)) {
            if members.remove(&guid).is_some() {
                found = true;
                self.events.push(MembershipEvent { at: Instant::now(), key, guid, member: false });
            }
        }
        // A partition is deleted with its last member.
        if members.is_empty() {
            self.partitions.remove(&key);
        }
        if found { (self.quirks.success_status, "{}".to_owned()) } else { missing }
    }

    pub(super) fn clear_partitions(&mut self) {
        for (key, members) in std::mem::take(&mut self.partitions) {
            for guid in members.into_keys() {
                self.events.push(MembershipEvent { at: Instant::now(), key, guid, member: false });
            }
        }
    }
}

/// Parses a hexadecimal P_Key strictly between 0 and 0x7fff.
fn parse_pkey(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"))?;
    u16::from_str_radix(digits, 16).ok().filter(|key| (1..0x7fff).contains(key))
}

fn bad_request(field: &str) -> (u16, String) {
    (400, format!("{{\"error\": \"invalid {field}\"}}"))
}

fn partition_json(key: u16, members: &BTreeMap<Guid, SimulatedMember>) -> Value {
    let guid = |(guid, member): (&Guid, &SimulatedMember)| {
        // GUIDs are in upper case, as in some UFM versions.
        json!({
            "guid": format!("{:016X}", guid.value()),
            "index0": member.index0,
            "membership": if member.full { "full" } else { "limited" },
        })
    };
    let guids: Vec<Value> = members.iter().map(guid).collect();
    json!({"partition": format!("pkey_{key:#x}"), "ip_over_ib": true, "guids": guids})
}
