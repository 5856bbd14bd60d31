//! Writes GUIDs and P_Keys back to the annotation `networks`, in the format of ib-kubernetes.
//!
//! ```text
//! ib, other/eth   ──▶   [{"name":"ib","namespace":"default","cni-args":{"guid":"02:…","mellanox.infiniband.app":"configured","pkey":"0x5"}},
//!                        {"name":"eth","namespace":"other"}]
//! ```
//!
//! Other tools read the result. Ferroband never trusts it, because anyone who can edit the pod can forge it.

use super::NetworkSelection;
use crate::Error;
use ferroband_model::config_object::{get_key, remove_key, set_key};
use serde_json::{Map, Value, json};

/// The `cni-args` key that marks a network as configured.
const CONFIGURED_KEY: &str = "mellanox.infiniband.app";
/// Key order of network-attachment-definition-client's `NetworkSelectionElement`. Other keys are preserved and follow.
const KEY_ORDER: [&str; 10] = [
    "name",
    "namespace",
    "ips",
    "mac",
    "infiniband-guid",
    "interface",
    "portMappings",
    "bandwidth",
    "cni-args",
    "default-route",
];

/// The values that [`mark_configured`] writes into one element of the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IbKubernetesMark {
    /// Index of the element in the annotation, from 0. A mark beyond the last element is ignored.
    pub position: usize,
    /// Assigned GUID, eight colon-separated bytes.
    pub guid: String,
    /// The P_Key as written in the network configuration; empty if it has none.
    pub pkey: String,
    /// Whether the network declares the capability `infinibandGUID`. If so, the GUID goes into `infiniband-guid`.
    pub has_guid_capability: bool,
}

/// Returns the annotation with the marks applied, or `None` if it already contains them.
pub fn mark_configured(
    text: &str,
    namespace: &str,
    marks: &[IbKubernetesMark],
) -> Result<Option<String>, Error> {
    let mut elements = elements(text, namespace)?;
    for mark in marks {
        if let Some(element) = elements.get_mut(mark.position) {
            apply_mark(element, mark);
        }
    }
    let elements: Vec<String> = elements.iter().map(render_element).collect();
    let whole = format!("[{}]", elements.join(","));
    let same = |text: &str| serde_json::from_str::<Value>(text).ok() == serde_json::from_str(&whole).ok();
    Ok(Some(whole.clone()).filter(|_| !marks.is_empty() && !same(text)))
}

/// Returns the elements as written, including unknown keys, each with its namespace filled in.
fn elements(text: &str, namespace: &str) -> Result<Vec<Map<String, Value>>, Error> {
    // Return an error for an invalid annotation, which must not be rewritten.
    let read = NetworkSelection::parse_networks(text, namespace)?;
    let written: Option<Vec<Map<String, Value>>> = serde_json::from_str(text).ok();
    let plain = |selection: &NetworkSelection| {
        let mut element = Map::new();
        element.insert("name".to_owned(), json!(selection.name));
        if let Some(interface) = &selection.interface {
            element.insert("interface".to_owned(), json!(interface));
        }
        element
    };
    let written = written.filter(|written| written.len() == read.len());
    let mut elements = written.unwrap_or_else(|| read.iter().map(plain).collect());
    for (element, selection) in elements.iter_mut().zip(&read) {
        element.insert("namespace".to_owned(), json!(selection.namespace));
    }
    Ok(elements)
}

fn apply_mark(element: &mut Map<String, Value>, mark: &IbKubernetesMark) {
    // If the user requested this GUID, keep the spelling of the user.
    let is_requested = |value: Option<&Value>| {
        let bare = |text: &str| text.replace([':', '-', '.'], "").to_lowercase();
        value.and_then(Value::as_str).is_some_and(|text| bare(text) == bare(&mark.guid))
    };
    let mut args = match element.remove("cni-args") {
        Some(Value::Object(args)) => args,
        _ => Map::new(),
    };
    if mark.has_guid_capability {
        if !is_requested(element.get("infiniband-guid")) {
            element.insert("infiniband-guid".to_owned(), json!(mark.guid));
        }
        remove_key(&mut args, "guid");
    } else if !is_requested(get_key(&args, "guid")) {
        set_key(&mut args, "guid", json!(mark.guid));
    }
    args.insert(CONFIGURED_KEY.to_owned(), json!("configured"));
    // The value must be a string: ib-sriov-cni cannot parse other types.
    set_key(&mut args, "pkey", json!(mark.pkey));
    element.insert("cni-args".to_owned(), Value::Object(args));
}

/// Serializes an element with the keys in the order of [`KEY_ORDER`], then all other keys.
fn render_element(element: &Map<String, Value>) -> String {
    let known = KEY_ORDER.iter().filter_map(|key| Some((*key, element.get(*key)?)));
    let unknown = element.iter().filter(|(key, _)| !KEY_ORDER.contains(&key.as_str()));
    let pairs = known.chain(unknown.map(|(key, value)| (key.as_str(), value)));
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUID: &str = "02:00:00:00:00:00:00:00";

    fn mark(position: usize) -> IbKubernetesMark {
        IbKubernetesMark { position, guid: GUID.into(), pkey: "0x5".into(), has_guid_capability: false }
    }

    fn marked(text: &str, marks: &[IbKubernetesMark]) -> String {
        mark_configured(text, "default", marks).unwrap().expect("a change")
    }

    /// The exact output of ib-kubernetes for a single network.
    const FIRST: &str = r#"[{"name":"ib","namespace":"default","cni-args":{"guid":"02:00:00:00:00:00:00:00","mellanox.infiniband.app":"configured","pkey":"0x5"}}]"#;

    // Case: partitions 19
    #[test]
    fn single_network_is_written_as_ib_kubernetes_writes_it() {
        assert_eq!(marked(r#"[{"name":"ib"}]"#, &[mark(0)]), FIRST);
        let without = IbKubernetesMark { pkey: String::new(), ..mark(0) };
        assert_eq!(marked(r#"[{"name":"ib"}]"#, &[without]), FIRST.replace("0x5", ""));
    }

    // Case: partitions 14
    #[test]
    fn all_annotation_forms_give_the_same_result() {
        for form in ["ib", "default/ib", r#"[{"name":"ib"}]"#, r#"[{"name":"ib","namespace":"default"}]"#] {
            assert_eq!(marked(form, &[mark(0)]), FIRST, "{form}");
        }
        let named = marked("default/ib@net7", &[mark(0)]);
        assert_eq!(named, FIRST.replace(r#""default","#, r#""default","interface":"net7","#));
    }

    // Case: partitions 20
    #[test]
    fn guid_capability_fills_infiniband_guid() {
        let capable = IbKubernetesMark { has_guid_capability: true, ..mark(0) };
        assert_eq!(
            marked("default/ib@net7", &[capable]),
            r#"[{"name":"ib","namespace":"default","infiniband-guid":"02:00:00:00:00:00:00:00","interface":"net7","cni-args":{"mellanox.infiniband.app":"configured","pkey":"0x5"}}]"#
        );
    }

    // Case: partitions 22
    #[test]
    fn requested_guid_keeps_its_spelling() {
        let upper = "02:00:00:00:00:00:00:AB";
        let text = format!(r#"[{{"name":"ib","cni-args":{{"guid":"{upper}"}}}}]"#);
        let mark = IbKubernetesMark { guid: upper.to_lowercase(), ..mark(0) };
        assert!(marked(&text, &[mark]).contains(&format!(r#""guid":"{upper}""#)));
    }

    // Case: partitions 16
    #[test]
    fn configured_annotation_is_not_rewritten() {
        assert_eq!(mark_configured(FIRST, "default", &[mark(0)]).unwrap(), None);
        assert_eq!(mark_configured("eth", "default", &[]).unwrap(), None);
    }

    // Case: partitions 17, partitions 24
    #[test]
    fn other_networks_and_unknown_keys_are_preserved() {
        let text = r#"[{"name":"eth","vendor.io/x":{"y":[1]}},{"name":"ib","deviceID":"0000:01:00.2","cni-args":{"a":"b"}}]"#;
        let written: Value = serde_json::from_str(&marked(text, &[mark(1)])).unwrap();
        assert_eq!(written[0], json!({"name": "eth", "namespace": "default", "vendor.io/x": {"y": [1]}}));
        assert_eq!(
            (&written[1]["deviceID"], &written[1]["cni-args"]["a"]),
            (&json!("0000:01:00.2"), &json!("b"))
        );
        assert_eq!(written[1]["cni-args"]["mellanox.infiniband.app"], "configured");
    }

    // Case: partitions 15
    #[test]
    fn invalid_json_is_an_error() {
        assert!(mark_configured(r#"[{"name":"#, "default", &[mark(0)]).is_err());
    }

    // Case: partitions 26
    #[test]
    fn same_network_twice_gets_two_guids() {
        let second = IbKubernetesMark { position: 1, guid: "02:00:00:00:00:00:00:01".into(), ..mark(1) };
        let written: Value = serde_json::from_str(&marked("ib,ib", &[mark(0), second])).unwrap();
        assert_ne!(written[0]["cni-args"]["guid"], written[1]["cni-args"]["guid"]);
    }
}
