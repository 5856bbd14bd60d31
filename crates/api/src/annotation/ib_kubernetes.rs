//! The networks of a pod as ib-kubernetes writes them back: which GUID each function has, and in which partition it is.
//!
//! ```text
//! ib, other/eth   ──▶   [{"name":"ib","namespace":"default","cni-args":{"guid":"02:…","mellanox.infiniband.app":"configured","pkey":"0x5"}},
//!                        {"name":"eth","namespace":"other"}]
//! ```
//!
//! For others to read. We never believe it: whoever may write the annotation may write this, too.

use super::NetworkSelection;
use crate::Error;
use serde_json::{Map, Value, json};

/// The key of the mark among the `cni-args`.
const CONFIGURED_KEY: &str = "mellanox.infiniband.app";
/// The order in which the keys of an element are written (network-attachment-definition-client, `NetworkSelectionElement`);
/// those that it does not know come last and are kept.
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

/// What is written about one element of the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IbKubernetesMark {
    /// The element, counted from 0.
    pub position: usize,
    /// The GUID, with colons.
    pub guid: String,
    /// The P_Key as the network's configuration has it; empty for none.
    pub pkey: String,
    /// Whether the network declares the capability `infinibandGUID`, so that the GUID has a key of its own.
    pub has_guid_capability: bool,
}

/// The annotation with the marks in it; nothing if it says all of this already.
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

/// The elements as they were written, each with its namespace; what nobody here understands is still there.
fn elements(text: &str, namespace: &str) -> Result<Vec<Map<String, Value>>, Error> {
    // Also says what is wrong with it, if anything is.
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
    // What the user asked for and got is left as it is spelled.
    let asked = |value: Option<&Value>| {
        let bare = |text: &str| text.replace([':', '-', '.'], "").to_lowercase();
        value.and_then(Value::as_str).is_some_and(|text| bare(text) == bare(&mark.guid))
    };
    let mut args = match element.remove("cni-args") {
        Some(Value::Object(args)) => args,
        _ => Map::new(),
    };
    if mark.has_guid_capability {
        if !asked(element.get("infiniband-guid")) {
            element.insert("infiniband-guid".to_owned(), json!(mark.guid));
        }
        args.remove("guid");
    } else if !asked(args.get("guid")) {
        args.insert("guid".to_owned(), json!(mark.guid));
    }
    args.insert(CONFIGURED_KEY.to_owned(), json!("configured"));
    // Texts only: ib-sriov-cni cannot read anything else.
    args.insert("pkey".to_owned(), json!(mark.pkey));
    element.insert("cni-args".to_owned(), Value::Object(args));
}

/// An element with its keys in upstream's order.
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

    /// Of the contract, 1.12.
    const FIRST: &str = r#"[{"name":"ib","namespace":"default","cni-args":{"guid":"02:00:00:00:00:00:00:00","mellanox.infiniband.app":"configured","pkey":"0x5"}}]"#;

    #[test]
    fn case_19_a_single_network_as_upstream_writes_it() {
        assert_eq!(marked(r#"[{"name":"ib"}]"#, &[mark(0)]), FIRST);
        let without = IbKubernetesMark { pkey: String::new(), ..mark(0) };
        assert_eq!(marked(r#"[{"name":"ib"}]"#, &[without]), FIRST.replace("0x5", ""));
    }

    #[test]
    fn case_14_every_form_comes_to_the_same() {
        for form in ["ib", "default/ib", r#"[{"name":"ib"}]"#, r#"[{"name":"ib","namespace":"default"}]"#] {
            assert_eq!(marked(form, &[mark(0)]), FIRST, "{form}");
        }
        let named = marked("default/ib@net7", &[mark(0)]);
        assert_eq!(named, FIRST.replace(r#""default","#, r#""default","interface":"net7","#));
    }

    #[test]
    fn case_20_the_capability_has_a_key_of_its_own() {
        let capable = IbKubernetesMark { has_guid_capability: true, ..mark(0) };
        assert_eq!(
            marked("default/ib@net7", &[capable]),
            r#"[{"name":"ib","namespace":"default","infiniband-guid":"02:00:00:00:00:00:00:00","interface":"net7","cni-args":{"mellanox.infiniband.app":"configured","pkey":"0x5"}}]"#
        );
    }

    #[test]
    fn case_22_a_guid_that_was_asked_for_is_kept_as_it_is_spelled() {
        let upper = "02:00:00:00:00:00:00:AB";
        let text = format!(r#"[{{"name":"ib","cni-args":{{"guid":"{upper}"}}}}]"#);
        let mark = IbKubernetesMark { guid: upper.to_lowercase(), ..mark(0) };
        assert!(marked(&text, &[mark]).contains(&format!(r#""guid":"{upper}""#)));
    }

    #[test]
    fn case_16_what_is_there_already_is_not_written_again() {
        assert_eq!(mark_configured(FIRST, "default", &[mark(0)]).unwrap(), None);
        assert_eq!(mark_configured("eth", "default", &[]).unwrap(), None);
    }

    #[test]
    fn case_17_and_24_other_networks_and_unknown_keys_survive() {
        let text = r#"[{"name":"eth","vendor.io/x":{"y":[1]}},{"name":"ib","deviceID":"0000:01:00.2","cni-args":{"a":"b"}}]"#;
        let told: Value = serde_json::from_str(&marked(text, &[mark(1)])).unwrap();
        assert_eq!(told[0], json!({"name": "eth", "namespace": "default", "vendor.io/x": {"y": [1]}}));
        assert_eq!((&told[1]["deviceID"], &told[1]["cni-args"]["a"]), (&json!("0000:01:00.2"), &json!("b")));
        assert_eq!(told[1]["cni-args"]["mellanox.infiniband.app"], "configured");
    }

    #[test]
    fn case_15_what_cannot_be_read_is_told() {
        assert!(mark_configured(r#"[{"name":"#, "default", &[mark(0)]).is_err());
    }

    #[test]
    fn case_26_the_same_network_twice_has_two_guids() {
        let second = IbKubernetesMark { position: 1, guid: "02:00:00:00:00:00:00:01".into(), ..mark(1) };
        let told: Value = serde_json::from_str(&marked("ib,ib", &[mark(0), second])).unwrap();
        assert_ne!(told[0]["cni-args"]["guid"], told[1]["cni-args"]["guid"]);
    }
}
