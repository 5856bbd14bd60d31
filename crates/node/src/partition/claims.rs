//! GUIDs of a range, claimed in the API server before a function gets one: those that pods ask for, which are given back, and
//! those that functions keep, where the administrator has named a range.

use super::holdings::Holding;
use crate::call::{Failure, bounded, failure};
use ferroband_api::ferroband::{GuidClaim, GuidGranule, GuidGranuleSpec, NodePartitions};
use ferroband_model::{Fault, FaultCode, Guid, PciAddress};
use ferroband_partition::{
    Claim, Draft, Granule, GuidRange, Settings, Share, choose, claim, granule_of, name_of, parse_guid,
    without,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use std::collections::BTreeMap;

/// How often two who want the same granule try.
const ATTEMPTS: usize = 8;

/// Claims of this node.
#[derive(Clone)]
pub struct Claims {
    client: Client,
    node: String,
}

impl Claims {
    /// By way of `client`.
    pub fn new(client: Client, node: String) -> Self {
        Self { client, node }
    }

    /// Claims `guid` for a function. It must lie in the pool's range and be nobody else's.
    pub async fn claim(&self, network: &str, guid: Guid, function: PciAddress) -> Result<(), Fault> {
        let refuse = |cause: String| {
            Fault::new(
                FaultCode::InvalidConfig,
                format!("network {network}"),
                cause,
                "leave the GUID out of the annotation: every function has one",
            )
        };
        let range = self.range().await?;
        if !range.contains(guid) {
            return Err(refuse(format!("GUID {guid} is not among {} to {}", range.first, range.last)));
        }
        let mine = Claim { node: self.node.clone(), device: function.to_string() };
        if let Some(owner) = self.function_with(guid, &mine).await? {
            return Err(refuse(format!("GUID {guid} is that of {owner}")));
        }
        let share = Share::of(range, &self.cluster().await?);
        for _ in 0..ATTEMPTS {
            let found = self.granule(guid).await.map_err(|error| self.away(&error))?;
            let granules = found.iter().map(|object| (granule_of(guid), granule(&object.spec))).collect();
            let draft = match claim(&share, &granules, guid, &mine) {
                Some(Ok(_)) => return Ok(()),
                Some(Err(draft)) => draft,
                None => {
                    let owner = found.as_ref().and_then(|object| owner(&object.spec, guid));
                    let owner = owner.unwrap_or_else(|| "another function".to_owned());
                    return Err(refuse(format!("GUID {guid} is claimed by {owner}")));
                }
            };
            if self.write(found, &draft).await? {
                return Ok(());
            }
        }
        Err(refuse(format!("GUID {guid} is wanted by too many at once")))
    }

    /// The GUID that a function of this node has for its own: the one that it has claimed, else a new one of the share.
    pub async fn own(&self, share: &Share, device: &str) -> Result<Guid, Fault> {
        let mine = Claim { node: self.node.clone(), device: device.to_owned() };
        let none = |cause: &str, remedy: &str| {
            let about = format!("GUIDs from {} to {}", share.range.first, share.range.last);
            Fault::new(FaultCode::InvalidConfig, about, cause, remedy)
        };
        for _ in 0..ATTEMPTS {
            let mut objects = self.all().await.map_err(|error| self.away(&error))?;
            let granules = objects.iter().map(|(first, object)| (*first, granule(&object.spec))).collect();
            let draft = match choose(share, &granules, &mine) {
                Some(Ok(guid)) => return Ok(guid),
                Some(Err(draft)) => draft,
                None => {
                    return Err(none(
                        "all of them are taken",
                        "make the range in ib-kubernetes-config larger",
                    ));
                }
            };
            if self.write(objects.remove(&draft.first), &draft).await? {
                return Ok(draft.guid);
            }
        }
        Err(none("too many nodes want some at once", "nothing: it is tried again"))
    }

    /// The range that GUIDs lie in: ib-kubernetes' ConfigMap says so, else the daemon's environment.
    pub async fn range(&self) -> Result<GuidRange, Fault> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), Settings::NAMESPACE);
        let found = bounded(api.get_opt(Settings::CONFIG_MAP)).await.map_err(|error| self.away(&error))?;
        let told = found.and_then(|map| map.data).unwrap_or_default();
        let of = |name: &str| told.get(name).cloned().or_else(|| std::env::var(name).ok());
        Settings::guids(of).map_err(|problem| problem.fault())
    }

    fn api(&self) -> Api<GuidGranule> {
        Api::all(self.client.clone())
    }

    /// All granules by their first GUID.
    async fn all(&self) -> kube::Result<BTreeMap<u64, GuidGranule>> {
        let all = bounded(self.api().list(&ListParams::default())).await?;
        let named = |object: GuidGranule| Some((u64::from_str_radix(&object.name_any(), 16).ok()?, object));
        Ok(all.into_iter().filter_map(named).collect())
    }

    /// The one that a GUID is in.
    async fn granule(&self, guid: Guid) -> kube::Result<Option<GuidGranule>> {
        bounded(self.api().get_opt(&name_of(granule_of(guid)))).await
    }

    /// Writes a claim down. Says whether nobody was faster.
    async fn write(&self, found: Option<GuidGranule>, draft: &Draft) -> Result<bool, Fault> {
        let (api, name, spec) = (self.api(), name_of(draft.first), spec(&draft.granule));
        let written = match found {
            Some(mut object) => {
                object.spec = spec;
                bounded(api.replace(&name, &PostParams::default(), &object)).await
            }
            None => bounded(api.create(&PostParams::default(), &GuidGranule::new(&name, spec))).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if failure(&error) == Failure::Conflict => Ok(false),
            Err(error) => Err(self.away(&error)),
        }
    }

    /// What this node has claimed for pods. A function's own GUID is claimed by its adapter and number.
    pub async fn of_node(&self) -> kube::Result<Vec<Holding>> {
        let mut found = Vec::new();
        for (first, object) in self.all().await? {
            for (offset, claim) in granule(&object.spec).claims {
                if let (true, Ok(pci)) = (claim.node == self.node, claim.device.parse()) {
                    found.push((pci, Guid::new(first + u64::from(offset))));
                }
            }
        }
        Ok(found)
    }

    /// Gives a claim back. One that is not there any more, or has changed hands, is nothing.
    pub async fn give_back(&self, (function, guid): Holding) -> kube::Result<()> {
        let mine = Claim { node: self.node.clone(), device: function.to_string() };
        let Some(mut object) = self.granule(guid).await? else { return Ok(()) };
        let Some(left) = without(&granule(&object.spec), guid, &mine) else { return Ok(()) };
        object.spec = spec(&left);
        bounded(self.api().replace(&object.name_any(), &PostParams::default(), &object)).await?;
        Ok(())
    }

    /// The function of any node that has this GUID already.
    async fn function_with(&self, guid: Guid, mine: &Claim) -> Result<Option<String>, Fault> {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        let all = bounded(api.list(&ListParams::default())).await.map_err(|error| self.away(&error))?;
        for object in all {
            for (device, text) in &object.spec.functions {
                let same = object.name_any() == mine.node && *device == mine.device;
                if parse_guid(text) == Some(guid) && !same {
                    return Ok(Some(format!("{device} on {}", object.name_any())));
                }
            }
        }
        Ok(None)
    }

    /// What tells this cluster from others: the UID of its first namespace.
    pub async fn cluster(&self) -> Result<String, Fault> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = bounded(api.get("kube-system")).await.map_err(|error| self.away(&error))?;
        Ok(found.uid().unwrap_or_default())
    }

    fn away(&self, error: &kube::Error) -> Fault {
        Fault::new(
            FaultCode::ApiUnavailable,
            format!("GUIDs of node {}", self.node),
            crate::error::chain(error),
            "nothing: it is tried again",
        )
    }
}

/// Who has claimed a GUID, for an error.
fn owner(spec: &GuidGranuleSpec, guid: Guid) -> Option<String> {
    let claim = spec.claims.get(&(guid.value() - granule_of(guid)).to_string())?;
    Some(if claim.node.is_empty() {
        claim.device.clone()
    } else {
        format!("{} on {}", claim.device, claim.node)
    })
}

fn granule(spec: &GuidGranuleSpec) -> Granule {
    let claim = |(offset, claim): (&String, &GuidClaim)| {
        Some((offset.parse().ok()?, Claim { node: claim.node.clone(), device: claim.device.clone() }))
    };
    Granule { node: spec.node.clone(), claims: spec.claims.iter().filter_map(claim).collect() }
}

fn spec(granule: &Granule) -> GuidGranuleSpec {
    let claim = |(offset, claim): (&u8, &Claim)| {
        (offset.to_string(), GuidClaim { node: claim.node.clone(), device: claim.device.clone() })
    };
    let claims: BTreeMap<String, GuidClaim> = granule.claims.iter().map(claim).collect();
    GuidGranuleSpec { node: granule.node.clone(), claims }
}
