//! Finds the section that is set in the spec of a SpiderMultusConfig (`ibsriov`, `ipoib`, …), and generates
//! the main plugin from it.

use super::super::generated_plugins::{
    CoordinatorEntry, GeneratedPlugin, IbSriovEntry, IpoibEntry, MacvlanEntry, SpiderpoolIpamEntry,
    SriovEntry, TuningEntry,
};
use super::super::{NetworkSpecError, pkey_text};
use ferroband_api::spiderpool::{
    IbSriovSection, IpPools, IpoibSection, OvsSection, SpiderMultusConfigSpec, SriovSection, VlanSection,
};
use ferroband_model::ResourceName;

/// The section in the spec of a SpiderMultusConfig that configures the main plugin.
pub enum SpiderSection<'a> {
    IbSriov(&'a IbSriovSection),
    Ipoib(&'a IpoibSection),
    Sriov(&'a SriovSection),
    Macvlan(&'a VlanSection),
    Ipvlan(&'a VlanSection),
    Vlan(&'a VlanSection),
    Ovs(&'a OvsSection),
    Custom(&'a str),
}

/// Each row is a value of `cniType`, and the name of the section in the spec for this value.
const CNI_TYPES: [(&str, &str); 7] = [
    ("macvlan", "macvlan"),
    ("ipvlan", "ipvlan"),
    ("vlan", "vlan"),
    ("sriov", "sriov"),
    ("ovs", "ovs"),
    ("ib-sriov", "ibsriov"),
    ("ipoib", "ipoib"),
];

impl<'a> SpiderSection<'a> {
    /// Finds the section that is set in `spec`. If `cniType` names another section, `cniType` is ignored with
    /// a warning: published examples have a wrong `cniType`, and the section that is set is unambiguous.
    pub fn from_spec(
        spec: &'a SpiderMultusConfigSpec,
        warnings: &mut Vec<String>,
    ) -> Result<Self, NetworkSpecError> {
        let sections: Vec<Self> = [
            spec.macvlan.as_ref().map(Self::Macvlan),
            spec.ipvlan.as_ref().map(Self::Ipvlan),
            spec.vlan.as_ref().map(Self::Vlan),
            spec.sriov.as_ref().map(Self::Sriov),
            spec.ovs.as_ref().map(Self::Ovs),
            spec.ibsriov.as_ref().map(Self::IbSriov),
            spec.ipoib.as_ref().map(Self::Ipoib),
        ]
        .into_iter()
        .flatten()
        .collect();
        let names = |sections: &[Self]| {
            sections.iter().map(|s| s.cni_type_and_section().1).collect::<Vec<_>>().join(" and ")
        };
        if sections.len() > 1 {
            return Err(NetworkSpecError::SeveralSections(names(&sections)));
        }
        let text = spec.custom_cni.as_deref().unwrap_or_default();
        match (sections.into_iter().next(), spec.cni_type.as_str()) {
            (Some(section), _) if !text.trim().is_empty() => {
                Err(NetworkSpecError::CustomAndSection(section.cni_type_and_section().1))
            }
            (Some(section), cni_type) => {
                let (expected, name) = section.cni_type_and_section();
                if cni_type != expected {
                    warnings.push(format!(
                        "cniType {cni_type} is ignored, because section {name} is set; set cniType: {expected}"
                    ));
                }
                Ok(section)
            }
            (None, "custom") => Ok(Self::Custom(text)),
            (None, cni_type) => match CNI_TYPES.iter().find(|(known, _)| *known == cni_type) {
                Some((_, section)) => {
                    Err(NetworkSpecError::NoSection { cni_type: cni_type.to_owned(), section })
                }
                None => Err(NetworkSpecError::UnknownType(cni_type.to_owned())),
            },
        }
    }

    /// Returns the section's `cniType` value and the name of its field in the spec.
    fn cni_type_and_section(&self) -> (&'static str, &'static str) {
        match self {
            Self::Macvlan(_) => CNI_TYPES[0],
            Self::Ipvlan(_) => CNI_TYPES[1],
            Self::Vlan(_) => CNI_TYPES[2],
            Self::Sriov(_) => CNI_TYPES[3],
            Self::Ovs(_) => CNI_TYPES[4],
            Self::IbSriov(_) => CNI_TYPES[5],
            Self::Ipoib(_) => CNI_TYPES[6],
            Self::Custom(_) => ("custom", "customCNI"),
        }
    }

    /// Whether an interface of the network has a MAC address of its own, which can be changed.
    pub fn has_own_mac(&self) -> bool {
        !matches!(self, Self::IbSriov(_) | Self::Ipoib(_) | Self::Ipvlan(_))
    }

    pub fn pools(&self) -> Option<&'a IpPools> {
        match self {
            Self::IbSriov(section) => section.ippools.as_ref(),
            Self::Ipoib(section) => section.ippools.as_ref(),
            Self::Sriov(section) => section.ippools.as_ref(),
            Self::Macvlan(section) | Self::Ipvlan(section) | Self::Vlan(section) => section.ippools.as_ref(),
            Self::Ovs(section) => section.ippools.as_ref(),
            Self::Custom(_) => None,
        }
    }

    /// Returns the device resource that a pod must request for this network, if any. Fails if a required name is
    /// missing or invalid.
    pub fn resource(&self) -> Result<Option<ResourceName>, NetworkSpecError> {
        let (field, name) = match self {
            Self::IbSriov(section) => ("spec.ibsriov.resourceName", &section.resource_name),
            Self::Sriov(section) => ("spec.sriov.resourceName", &section.resource_name),
            Self::Macvlan(section) | Self::Ipvlan(section) | Self::Vlan(section) => {
                ("rdmaResourceName", &section.rdma_resource_name)
            }
            Self::Ipoib(_) | Self::Ovs(_) | Self::Custom(_) => return Ok(None),
        };
        match name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => {
                Ok(Some(name.parse().map_err(|source| NetworkSpecError::InvalidValue { field, source })?))
            }
            None if matches!(self, Self::IbSriov(_) | Self::Sriov(_)) => {
                Err(NetworkSpecError::MissingField(field))
            }
            None => Ok(None),
        }
    }
}

/// Generates the first plugin of the chain, which creates the interface.
pub(super) fn main_plugin<'a>(
    section: &SpiderSection<'a>,
    spec: &'a SpiderMultusConfigSpec,
    isolated: bool,
    warnings: &mut Vec<String>,
) -> Result<GeneratedPlugin<'a>, NetworkSpecError> {
    let sriov = matches!(section, SpiderSection::Sriov(_));
    let ipam = (!spec.disable_ipam).then(|| SpiderpoolIpamEntry::from_pools(section.pools(), sriov));
    let positive = |mtu: Option<i32>| mtu.filter(|mtu| *mtu > 0);
    Ok(match section {
        SpiderSection::IbSriov(section) => {
            if section.ib_kubernetes_enabled.is_some() {
                warnings.push("ibKubernetesEnabled is deprecated; use enableIbKubernetes".to_owned());
            }
            GeneratedPlugin::IbSriov(IbSriovEntry {
                r#type: "ib-sriov",
                pkey: pkey_text("spec.ibsriov.pkey", section.pkey.as_ref(), warnings)?.unwrap_or_default(),
                link_state: &section.link_state,
                rdma_isolation: if isolated { Some(true) } else { section.rdma_isolation },
                ib_kubernetes_enabled: section.ib_kubernetes_enabled.unwrap_or(section.enable_ib_kubernetes),
                mtu: positive(section.mtu),
                ipam,
            })
        }
        SpiderSection::Ipoib(section) => {
            let master = section.master.as_deref().filter(|master| !master.is_empty());
            let master = master.ok_or(NetworkSpecError::MissingField("spec.ipoib.master"))?;
            GeneratedPlugin::Ipoib(IpoibEntry { r#type: "ipoib", master, mtu: positive(section.mtu), ipam })
        }
        SpiderSection::Sriov(section) => {
            if section.enable_rdma.is_some() {
                warnings.push("enableRdma is deprecated; use rdmaIsolation".to_owned());
            }
            GeneratedPlugin::Sriov(SriovEntry {
                r#type: "sriov",
                vlan: section.vlan_id.filter(|vlan| *vlan != 0),
                min_tx_rate: section.min_tx_rate_mbps,
                max_tx_rate: section.max_tx_rate_mbps,
                ipam,
            })
        }
        SpiderSection::Macvlan(section) => parent_plugin("macvlan", Some("bridge"), section, ipam)?,
        SpiderSection::Ipvlan(section) => parent_plugin("ipvlan", None, section, ipam)?,
        SpiderSection::Vlan(_) => return Err(NetworkSpecError::Unsupported("spec.vlan")),
        SpiderSection::Ovs(_) => return Err(NetworkSpecError::Unsupported("spec.ovs")),
        SpiderSection::Custom(_) => return Err(NetworkSpecError::Unsupported("spec.customCNI")),
    })
}

fn parent_plugin<'a>(
    kind: &'static str,
    mode: Option<&'static str>,
    section: &'a VlanSection,
    ipam: Option<SpiderpoolIpamEntry<'a>>,
) -> Result<GeneratedPlugin<'a>, NetworkSpecError> {
    // Bonds and VLAN interfaces need a plugin that Ferroband does not include.
    let [master] = section.master.as_slice() else {
        return Err(NetworkSpecError::Unsupported("more than one master"));
    };
    if section.bond.is_some() || section.vlan_id.is_some_and(|vlan| vlan != 0) {
        return Err(NetworkSpecError::Unsupported("a bond or vlanID"));
    }
    let mtu = Some(section.mtu).filter(|mtu| *mtu > 0);
    Ok(GeneratedPlugin::Macvlan(MacvlanEntry { r#type: kind, master, mode, mtu, ipam }))
}

pub(super) fn coordinator_plugin(spec: &SpiderMultusConfigSpec) -> Option<GeneratedPlugin<'_>> {
    let entry =
        || GeneratedPlugin::Coordinator(Box::new(CoordinatorEntry::from_spec(spec.coordinator.as_ref())));
    spec.enable_coordinator.then(entry)
}

/// Generates a `tuning` plugin that sets the MTU of an Ethernet VF, because the plugin `sriov` does not set it.
pub(super) fn tuning_plugin(section: &SpiderSection<'_>) -> Option<GeneratedPlugin<'static>> {
    match section {
        SpiderSection::Sriov(section) if section.mtu > 0 => {
            Some(GeneratedPlugin::Tuning(TuningEntry { r#type: "tuning", mtu: section.mtu }))
        }
        _ => None,
    }
}
