//! Extended resource names.

use crate::MalformedValue;
use crate::macros::string_conversions;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Name of an extended resource: `jarvice.com/rdma`.
///
/// The parts follow the API server's rules for qualified names, so the name is valid in a pod's resource limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName {
    prefix: String,
    name: String,
}

impl ResourceName {
    /// Creates the name `prefix/name`. Returns an error if the API server would reject either part.
    pub fn new(prefix: &str, name: &str) -> Result<Self, MalformedValue> {
        if is_subdomain(prefix) && is_name(name) {
            Ok(Self { prefix: prefix.to_owned(), name: name.to_owned() })
        } else {
            Err(MalformedValue::ResourceName(format!("{prefix}/{name}")))
        }
    }

    /// The part before the slash: `jarvice.com`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The part after the slash: `rdma`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Whether `text` is a DNS subdomain (RFC 1123) of at most 253 characters, in lower case.
fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Whether `text` has at most 63 letters, digits, `-`, `_` and `.`, and starts and ends with a letter or digit.
fn is_name(text: &str) -> bool {
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.prefix, self.name)
    }
}

impl FromStr for ResourceName {
    type Err = MalformedValue;

    fn from_str(text: &str) -> Result<Self, MalformedValue> {
        match text.split_once('/') {
            Some((prefix, name)) => Self::new(prefix, name),
            None => Err(MalformedValue::ResourceName(text.to_owned())),
        }
    }
}

string_conversions!(ResourceName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_resource_names_are_accepted() {
        for text in
            ["jarvice.com/rdma", "spidernet.io/mellanoxibsriov", "rdma/hca_shared_devices_a", "a1.b-c/ib-vfs"]
        {
            let resource: ResourceName = text.parse().unwrap();
            assert_eq!(resource.to_string(), text);
        }
        let resource = ResourceName::new("jarvice.com", "rdma").unwrap();
        assert_eq!((resource.prefix(), resource.name()), ("jarvice.com", "rdma"));
    }

    #[test]
    fn names_that_the_api_server_rejects_are_rejected() {
        let long = format!("a.b/{}", "a".repeat(64));
        for text in [
            "",
            "rdma",
            "/rdma",
            "jarvice.com/",
            "Jarvice.com/rdma",
            "-a.com/rdma",
            "a..b/rdma",
            "a.b/-ib",
            "a.b/ib_",
            "a.b/c/d",
            &long,
        ] {
            assert_eq!(text.parse::<ResourceName>(), Err(MalformedValue::ResourceName(text.to_owned())));
        }
    }

    #[test]
    fn json_is_a_string() {
        let resource: ResourceName = serde_json::from_str("\"jarvice.com/rdma\"").unwrap();
        assert_eq!(serde_json::to_string(&resource).unwrap(), "\"jarvice.com/rdma\"");
        assert!(serde_json::from_str::<ResourceName>("\"rdma\"").is_err());
    }
}
