//! GUIDs of a range, claimed in the API server before a function gets one: those that pods ask for, which are given back, and
//! those that functions keep, where the administrator has named a range.

use super::guid_leases::GuidLease;
use crate::api_call::{ApiFailure, classify, with_timeout};
use ferroband_api::ferroband::{GuidBlock, GuidBlockSpec, GuidClaim, NodePartitions};
use ferroband_model::{Fault, FaultCode, Guid, PciAddress};
use ferroband_partition::{
    ClusterSlice, GuidBlockClaims, GuidBlockUpdate, GuidOwner, GuidRange, PartitionSettings, block_name,
    block_start, choose_guid, claim_guid, parse_guid, release_guid,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use std::collections::BTreeMap;

/// How often two who want the same granule try.
const MAX_ATTEMPTS: usize = 8;

/// Claims of this node.
#[derive(Clone)]
pub struct GuidClaimClient {
    client: Client,
    node: String,
}

impl GuidClaimClient {
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
        let range = self.guid_range().await?;
        if !range.contains(guid) {
            return Err(refuse(format!("GUID {guid} is not among {} to {}", range.first, range.last)));
        }
        let mine = GuidOwner { node: self.node.clone(), device: function.to_string() };
        if let Some(owner) = self.find_function_with(guid, &mine).await? {
            return Err(refuse(format!("GUID {guid} is that of {owner}")));
        }
        let share = ClusterSlice::new(range, &self.cluster_uid().await?);
        for _ in 0..MAX_ATTEMPTS {
            let found = self.get_block(guid).await.map_err(|error| self.api_fault(&error))?;
            let granules =
                found.iter().map(|object| (block_start(guid), block_from_spec(&object.spec))).collect();
            let draft = match claim_guid(&share, &granules, guid, &mine) {
                Some(Ok(_)) => return Ok(()),
                Some(Err(draft)) => draft,
                None => {
                    let owner = found.as_ref().and_then(|object| describe_owner(&object.spec, guid));
                    let owner = owner.unwrap_or_else(|| "another function".to_owned());
                    return Err(refuse(format!("GUID {guid} is claimed by {owner}")));
                }
            };
            if self.write_block(found, &draft).await? {
                return Ok(());
            }
        }
        Err(refuse(format!("GUID {guid} is wanted by too many at once")))
    }

    /// The GUID that a function of this node has for its own: the one that it has claimed, else a new one of the share.
    pub async fn claim_own_guid(&self, share: &ClusterSlice, device: &str) -> Result<Guid, Fault> {
        let mine = GuidOwner { node: self.node.clone(), device: device.to_owned() };
        let none = |cause: &str, remedy: &str| {
            let about = format!("GUIDs from {} to {}", share.range.first, share.range.last);
            Fault::new(FaultCode::InvalidConfig, about, cause, remedy)
        };
        for _ in 0..MAX_ATTEMPTS {
            let mut objects = self.list_blocks().await.map_err(|error| self.api_fault(&error))?;
            let granules =
                objects.iter().map(|(first, object)| (*first, block_from_spec(&object.spec))).collect();
            let draft = match choose_guid(share, &granules, &mine) {
                Some(Ok(guid)) => return Ok(guid),
                Some(Err(draft)) => draft,
                None => {
                    return Err(none(
                        "all of them are taken",
                        "make the range in ib-kubernetes-config larger",
                    ));
                }
            };
            if self.write_block(objects.remove(&draft.first), &draft).await? {
                return Ok(draft.guid);
            }
        }
        Err(none("too many nodes want some at once", "nothing: it is tried again"))
    }

    /// The range that GUIDs lie in: ib-kubernetes' ConfigMap says so, else the daemon's environment.
    pub async fn guid_range(&self) -> Result<GuidRange, Fault> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), PartitionSettings::NAMESPACE);
        let found = with_timeout(api.get_opt(PartitionSettings::CONFIG_MAP))
            .await
            .map_err(|error| self.api_fault(&error))?;
        let told = found.and_then(|map| map.data).unwrap_or_default();
        let of = |name: &str| told.get(name).cloned().or_else(|| std::env::var(name).ok());
        PartitionSettings::read_guid_range(of).map_err(|problem| problem.fault())
    }

    fn api(&self) -> Api<GuidBlock> {
        Api::all(self.client.clone())
    }

    /// All granules by their first GUID.
    async fn list_blocks(&self) -> kube::Result<BTreeMap<u64, GuidBlock>> {
        let all = with_timeout(self.api().list(&ListParams::default())).await?;
        let named = |object: GuidBlock| Some((u64::from_str_radix(&object.name_any(), 16).ok()?, object));
        Ok(all.into_iter().filter_map(named).collect())
    }

    /// The one that a GUID is in.
    async fn get_block(&self, guid: Guid) -> kube::Result<Option<GuidBlock>> {
        with_timeout(self.api().get_opt(&block_name(block_start(guid)))).await
    }

    /// Writes a claim down. Says whether nobody was faster.
    async fn write_block(&self, found: Option<GuidBlock>, draft: &GuidBlockUpdate) -> Result<bool, Fault> {
        let (api, name, spec) = (self.api(), block_name(draft.first), spec_from_block(&draft.block));
        let written = match found {
            Some(mut object) => {
                object.spec = spec;
                with_timeout(api.replace(&name, &PostParams::default(), &object)).await
            }
            None => with_timeout(api.create(&PostParams::default(), &GuidBlock::new(&name, spec))).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if classify(&error) == ApiFailure::Conflict => Ok(false),
            Err(error) => Err(self.api_fault(&error)),
        }
    }

    /// What this node has claimed for pods. A function's own GUID is claimed by its adapter and number.
    pub async fn list_node_leases(&self) -> kube::Result<Vec<GuidLease>> {
        let mut found = Vec::new();
        for (first, object) in self.list_blocks().await? {
            for (offset, claim) in block_from_spec(&object.spec).claims {
                if let (true, Ok(pci)) = (claim.node == self.node, claim.device.parse()) {
                    found.push((pci, Guid::new(first + u64::from(offset))));
                }
            }
        }
        Ok(found)
    }

    /// Gives a claim back. One that is not there any more, or has changed hands, is nothing.
    pub async fn release(&self, (function, guid): GuidLease) -> kube::Result<()> {
        let mine = GuidOwner { node: self.node.clone(), device: function.to_string() };
        let Some(mut object) = self.get_block(guid).await? else { return Ok(()) };
        let Some(left) = release_guid(&block_from_spec(&object.spec), guid, &mine) else { return Ok(()) };
        object.spec = spec_from_block(&left);
        with_timeout(self.api().replace(&object.name_any(), &PostParams::default(), &object)).await?;
        Ok(())
    }

    /// The function of any node that has this GUID already.
    async fn find_function_with(&self, guid: Guid, mine: &GuidOwner) -> Result<Option<String>, Fault> {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        let all =
            with_timeout(api.list(&ListParams::default())).await.map_err(|error| self.api_fault(&error))?;
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
    pub async fn cluster_uid(&self) -> Result<String, Fault> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let found = with_timeout(api.get("kube-system")).await.map_err(|error| self.api_fault(&error))?;
        Ok(found.uid().unwrap_or_default())
    }

    fn api_fault(&self, error: &kube::Error) -> Fault {
        Fault::new(
            FaultCode::ApiUnavailable,
            format!("GUIDs of node {}", self.node),
            crate::error::error_chain(error),
            "nothing: it is tried again",
        )
    }
}

/// Who has claimed a GUID, for an error.
fn describe_owner(spec: &GuidBlockSpec, guid: Guid) -> Option<String> {
    let claim = spec.claims.get(&(guid.value() - block_start(guid)).to_string())?;
    Some(if claim.node.is_empty() {
        claim.device.clone()
    } else {
        format!("{} on {}", claim.device, claim.node)
    })
}

fn block_from_spec(spec: &GuidBlockSpec) -> GuidBlockClaims {
    let claim = |(offset, claim): (&String, &GuidClaim)| {
        Some((offset.parse().ok()?, GuidOwner { node: claim.node.clone(), device: claim.device.clone() }))
    };
    GuidBlockClaims { node: spec.node.clone(), claims: spec.claims.iter().filter_map(claim).collect() }
}

fn spec_from_block(granule: &GuidBlockClaims) -> GuidBlockSpec {
    let claim = |(offset, claim): (&u8, &GuidOwner)| {
        (offset.to_string(), GuidClaim { node: claim.node.clone(), device: claim.device.clone() })
    };
    let claims: BTreeMap<String, GuidClaim> = granule.claims.iter().map(claim).collect();
    GuidBlockSpec { node: granule.node.clone(), claims }
}
