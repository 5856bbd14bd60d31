//! CNI configurations as the controllers generate them. Their JSON keys are in the order in which Spiderpool
//! and the SR-IOV operator write them.

use ferroband_api::spiderpool::{CoordinatorSpec, IpPools, PoolRoute};
use serde::Serialize;
use serde_json::value::RawValue;

/// A CNI configuration list with one entry for each plugin of the chain.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedConfList<'a> {
    pub cni_version: &'a str,
    pub name: &'a str,
    pub plugins: Vec<GeneratedPlugin<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum GeneratedPlugin<'a> {
    IbSriov(IbSriovEntry<'a>),
    Ipoib(IpoibEntry<'a>),
    Sriov(SriovEntry<'a>),
    Macvlan(MacvlanEntry<'a>),
    Coordinator(Box<CoordinatorEntry<'a>>),
    Rdma(RdmaEntry),
    Tuning(TuningEntry),
    /// Plugin configuration that is copied unchanged from the source object.
    Verbatim(Box<RawValue>),
}

#[derive(Serialize)]
pub struct IbSriovEntry<'a> {
    pub r#type: &'static str,
    pub pkey: String,
    pub link_state: &'a str,
    /// If absent, the node's RDMA netns mode decides whether the RDMA device is isolated.
    #[serde(rename = "rdmaIsolation", skip_serializing_if = "Option::is_none")]
    pub rdma_isolation: Option<bool>,
    #[serde(rename = "ibKubernetesEnabled")]
    pub ib_kubernetes_enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipam: Option<SpiderpoolIpamEntry<'a>>,
}

#[derive(Serialize)]
pub struct IpoibEntry<'a> {
    pub r#type: &'static str,
    pub master: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipam: Option<SpiderpoolIpamEntry<'a>>,
}

#[derive(Serialize)]
pub struct SriovEntry<'a> {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tx_rate: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tx_rate: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipam: Option<SpiderpoolIpamEntry<'a>>,
}

#[derive(Serialize)]
pub struct MacvlanEntry<'a> {
    pub r#type: &'static str,
    pub master: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipam: Option<SpiderpoolIpamEntry<'a>>,
}

#[derive(Serialize)]
pub struct RdmaEntry {
    pub r#type: &'static str,
}

#[derive(Serialize)]
pub struct TuningEntry {
    pub r#type: &'static str,
    pub mtu: i32,
}

#[derive(Serialize)]
pub struct SpiderpoolIpamEntry<'a> {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub default_ipv4_ippool: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub default_ipv6_ippool: &'a [String],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub match_master_subnet: bool,
}

impl<'a> SpiderpoolIpamEntry<'a> {
    /// Builds an IPAM section that uses `pools`. `match_master_subnet` is set only for the plugin `sriov`.
    pub fn from_pools(pools: Option<&'a IpPools>, sriov: bool) -> Self {
        Self {
            r#type: "spiderpool",
            default_ipv4_ippool: pools.map_or(&[], |pools| &pools.ipv4),
            default_ipv6_ippool: pools.map_or(&[], |pools| &pools.ipv6),
            match_master_subnet: sriov && pools.is_some_and(|pools| pools.match_master_subnet),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorEntry<'a> {
    tx_queue_len: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    veth_link_address: Option<&'a str>,
    #[serde(rename = "vethMTU", skip_serializing_if = "Option::is_none")]
    veth_mtu: Option<i64>,
    tune_pod_routes: bool,
    #[serde(rename = "podMACPrefix", skip_serializing_if = "Option::is_none")]
    pod_mac_prefix: Option<&'a str>,
    mode: &'a str,
    r#type: &'static str,
    // The key in the CNI configuration ends in `Nic`, but the field of SpiderMultusConfig ends in `NIC`.
    #[serde(rename = "podDefaultRouteNic", skip_serializing_if = "Option::is_none")]
    pod_default_route_nic: Option<&'a str>,
    #[serde(rename = "podRPFilter", skip_serializing_if = "Option::is_none")]
    pod_rp_filter: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_rule_table: Option<i64>,
    #[serde(rename = "hijackCIDR", skip_serializing_if = "<[_]>::is_empty")]
    hijack_cidr: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    policy_routes: &'a [PoolRoute],
}

impl<'a> CoordinatorEntry<'a> {
    /// Builds the coordinator entry of a network. Optional fields that `spec` does not set are omitted, so that the
    /// cluster's SpiderCoordinator applies.
    pub fn from_spec(spec: Option<&'a CoordinatorSpec>) -> Self {
        let text = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
        Self {
            tx_queue_len: spec.map_or(0, |spec| spec.tx_queue_len),
            veth_link_address: spec.and_then(|spec| text(&spec.veth_link_address)),
            veth_mtu: spec.and_then(|spec| spec.veth_mtu),
            tune_pod_routes: spec.is_none_or(|spec| spec.tune_pod_routes),
            pod_mac_prefix: spec.and_then(|spec| text(&spec.pod_mac_prefix)),
            mode: spec.map_or("auto", |spec| &spec.mode),
            r#type: "coordinator",
            pod_default_route_nic: spec.and_then(|spec| text(&spec.pod_default_route_nic)),
            pod_rp_filter: spec.map(|spec| spec.pod_rp_filter).filter(|filter| *filter != 0),
            host_rule_table: spec.map(|spec| spec.host_rule_table).filter(|table| *table != 500),
            hijack_cidr: spec.map_or(&[], |spec| &spec.hijack_cidr),
            policy_routes: spec.map_or(&[], |spec| &spec.policy_routes),
        }
    }
}
