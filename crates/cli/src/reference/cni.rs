//! Generates `cni.md`, the reference of the CNI configuration options, from the types of `ferroband-config`.

use super::{markdown_table, page_header};
use ferroband_config::{
    CoordinatorConfig, IbSriovConfig, InterfaceConfig, IpoibConfig, RdmaConfig, WrapperConfig,
};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

/// Each row is an option of a plugin's CNI configuration, its type and its meaning.
type OptionRows = &'static [(&'static str, &'static str, &'static str)];

const WHEREABOUTS: OptionRows = &[
    ("range", "string", "Subnet, or `A-B/prefix`; host bits are ignored."),
    ("range_start, range_end", "string", "First and last address of the range."),
    ("exclude", "list of string", "Addresses, ranges or subnets that are never assigned."),
    ("ipRanges", "list of object", "Several ranges; an interface gets one address from each."),
    (
        "network_name",
        "string",
        "IP space in which addresses are unique; networks with the same range and different names do not conflict.",
    ),
    (
        "enable_overlapping_ranges",
        "bool",
        "Whether an address is unique across all ranges (the default) or only in its own range.",
    ),
    ("gateway", "string", "Copied to the result."),
    ("routes", "list of object", "`dst` and `gw`, copied to the result."),
    (
        "addresses",
        "list of object",
        "Static addresses that every pod gets in addition; they are not tracked.",
    ),
    ("dns", "object", "Copied to the result."),
];

const SPIDERPOOL: OptionRows = &[
    (
        "default_ipv4_ippool",
        "list of string",
        "IPv4 pools in order of preference, for pods and namespaces that name none themselves.",
    ),
    ("default_ipv6_ippool", "list of string", "IPv6 pools in order of preference."),
    ("clean_gateway", "bool", "The interface gets no default route."),
];

const VARIABLES: OptionRows = &[
    ("FERROBAND_NETWORK_NAMESPACE", "string", "Same as `multusNamespace`."),
    ("FERROBAND_NAMESPACE_ISOLATION", "bool", "Same as `namespaceIsolation`."),
    ("FERROBAND_GLOBAL_NAMESPACES", "string", "Same as `globalNamespaces`."),
    ("FERROBAND_DEFAULT_NETWORKS", "string", "Same as `defaultNetworks`, comma-separated."),
    ("FERROBAND_SYSTEM_NAMESPACES", "string", "Same as `systemNamespaces`, comma-separated."),
];

pub fn page() -> String {
    let mut text = page_header(
        "CNI options",
        "Options of Ferroband's plugin types in `spec.config` of a NetworkAttachmentDefinition, in addition to `type`, \
         `name` and `cniVersion`\n(0.1.0 to 1.1.0). Keys are case-insensitive and `null` counts as absent, \
         as in the Go plugins. Every other\ntype is executed from the node's CNI directory, alone or \
         in a chain (`plugins`).",
    );
    let interface = Section::of::<InterfaceConfig<'_>>("").rows;
    for section in [
        Section::of::<IpoibConfig>("ipoib").with(&interface),
        Section::of::<IbSriovConfig>("ib-sriov").with(&interface),
        Section::of::<RdmaConfig>("rdma"),
        Section::of::<CoordinatorConfig>("coordinator"),
        Section::new("ipam: whereabouts", "Addresses that are unique in the cluster.", WHEREABOUTS),
        Section::new("ipam: spiderpool", "Addresses from SpiderIPPools.", SPIDERPOOL),
        Section::of::<WrapperConfig>("ferroband, multus"),
        Section::new("Environment of the node daemon", "The same settings for all nodes.", VARIABLES),
    ] {
        text.push_str(&format!("\n## {}\n\n{}\n\n", section.title, section.about));
        text.push_str(&markdown_table(["Option", "Type", "Meaning"], section.rows));
    }
    text
}

/// The options of one plugin type.
struct Section {
    title: &'static str,
    about: String,
    rows: Vec<[String; 3]>,
}

impl Section {
    fn new(title: &'static str, about: &str, options: OptionRows) -> Self {
        let row = |(name, kind, says): &(&str, &str, &str)| {
            [format!("`{name}`"), (*kind).to_owned(), (*says).to_owned()]
        };
        Self { title, about: about.to_owned(), rows: options.iter().map(row).collect() }
    }

    /// The options of a type of `ferroband-config`, with its doc comments.
    fn of<T: JsonSchema>(title: &'static str) -> Self {
        let schema = schema_for!(T).to_value();
        let about = |value: &Value| value["description"].as_str().unwrap_or_default().to_owned();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let rows = properties.map(|(name, option)| [format!("`{name}`"), kind_of(option), about(option)]);
        Self { title, about: about(&schema), rows: rows.collect() }
    }

    fn with(mut self, more: &[[String; 3]]) -> Self {
        self.rows.extend_from_slice(more);
        self
    }
}

fn kind_of(option: &Value) -> String {
    // The type of an optional value is a list that contains `null`.
    let kinds = option["type"].as_array().into_iter().flatten().chain([&option["type"]]);
    match kinds.filter_map(Value::as_str).find(|kind| *kind != "null") {
        Some("integer") => "number".to_owned(),
        Some("boolean") => "bool".to_owned(),
        Some("array") => format!("list of {}", kind_of(&option["items"])),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::page;
    use ferroband_config::PluginType;

    #[test]
    fn options_of_a_partition_are_listed_with_their_type() {
        for row in ["| `pkey` | string |", "| `membership` | string |", "| `txQueueLen` | number |"] {
            assert!(page().contains(row), "{row}");
        }
        for row in
            ["| `rdmaIsolation` | bool |", "| `policyRoutes` | list of object |", "| `ipam` | object |"]
        {
            assert!(page().contains(row), "{row}");
        }
    }

    #[test]
    fn every_plugin_type_has_a_section() {
        for role in PluginType::ALL {
            let found = page().lines().any(|line| line.starts_with("## ") && line.contains(role.as_str()));
            assert!(found, "{role}");
        }
    }
}
