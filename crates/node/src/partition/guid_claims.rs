//! Claims GUIDs in GuidBlock objects before virtual functions get them. There are two kinds of claims. The
//! claim on a GUID that a pod requests is released after the pod is gone. The claim on a function's own GUID
//! is permanent, and is made only if the administrator has configured a GUID range.

use super::guid_leases::GuidLease;
use crate::api_call::{ApiFailure, classify, with_timeout};
use ferroband_api::ferroband::{FabricName, GuidBlock, GuidBlockSpec, GuidClaim, NodePartitions};
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

/// How many times a claim is tried if other nodes write the same GuidBlock at the same time.
const MAX_ATTEMPTS: usize = 8;

/// Claims and releases GUIDs for the virtual functions of this node.
#[derive(Clone)]
pub struct GuidClaimClient {
    client: Client,
    node: String,
}

impl GuidClaimClient {
    pub fn new(client: Client, node: String) -> Self {
        Self { client, node }
    }

    /// Claims the GUID that a pod requests for a virtual function. The GUID must be in the configured range
    /// and unused.
    pub async fn claim(&self, network: &str, guid: Guid, function: PciAddress) -> Result<(), Fault> {
        let refuse = |cause: String| {
            Fault::new(
                FaultCode::InvalidConfig,
                format!("network {network}"),
                cause,
                "remove the GUID from the pod's annotation; the virtual function then keeps its own GUID",
            )
        };
        let range = self.guid_range().await?;
        if !range.contains(guid) {
            return Err(refuse(format!(
                "GUID {guid} is outside the configured range {} to {}",
                range.first, range.last
            )));
        }
        let requester = GuidOwner { node: self.node.clone(), device: function.to_string() };
        if let Some(owner) = self.find_function_with(guid, &requester).await? {
            return Err(refuse(format!("GUID {guid} is used by {owner}")));
        }
        let slice = ClusterSlice::new(range, &self.cluster_uid().await?);
        for _ in 0..MAX_ATTEMPTS {
            let found = self.get_block(guid).await.map_err(|error| self.api_fault(&error))?;
            let blocks =
                found.iter().map(|object| (block_start(guid), block_from_spec(&object.spec))).collect();
            let update = match claim_guid(&slice, &blocks, guid, &requester) {
                Some(Ok(_)) => return Ok(()),
                Some(Err(update)) => update,
                None => {
                    let owner = found.as_ref().and_then(|object| describe_owner(&object.spec, guid));
                    let owner = owner.unwrap_or_else(|| "another function".to_owned());
                    return Err(refuse(format!("GUID {guid} is claimed by {owner}")));
                }
            };
            if self.write_block(found, &update).await? {
                return Ok(());
            }
        }
        Err(refuse(format!("cannot claim GUID {guid}: other nodes keep changing the same GuidBlock")))
    }

    /// Returns the permanent GUID of a function. If the function has not claimed one yet, claims a free GUID
    /// of `slice`, which is this cluster's part of the configured GUID range.
    pub async fn claim_own_guid(&self, slice: &ClusterSlice, device: &str) -> Result<Guid, Fault> {
        let requester = GuidOwner { node: self.node.clone(), device: device.to_owned() };
        let fault = |cause: &str, remedy: &str| {
            let thing = format!("GUIDs from {} to {}", slice.range.first, slice.range.last);
            Fault::new(FaultCode::InvalidConfig, thing, cause, remedy)
        };
        for _ in 0..MAX_ATTEMPTS {
            let mut objects = self.list_blocks().await.map_err(|error| self.api_fault(&error))?;
            let blocks =
                objects.iter().map(|(first, object)| (*first, block_from_spec(&object.spec))).collect();
            let update = match choose_guid(slice, &blocks, &requester) {
                Some(Ok(guid)) => return Ok(guid),
                Some(Err(update)) => update,
                None => {
                    return Err(fault(
                        "all GUIDs of the range are claimed",
                        "enlarge the range in the ConfigMap ib-kubernetes-config",
                    ));
                }
            };
            if self.write_block(objects.remove(&update.first), &update).await? {
                return Ok(update.guid);
            }
        }
        Err(fault(
            "cannot claim a GUID: other nodes keep changing the same GuidBlock",
            "no action needed; retried automatically",
        ))
    }

    /// Claims the GUID with which a function was found, as its permanent GUID. Returns `false` if another function has
    /// claimed it.
    pub async fn claim_found_guid(
        &self,
        slice: &ClusterSlice,
        device: &str,
        guid: Guid,
    ) -> Result<bool, Fault> {
        let owner = GuidOwner { node: self.node.clone(), device: device.to_owned() };
        for _ in 0..MAX_ATTEMPTS {
            let found = self.get_block(guid).await.map_err(|error| self.api_fault(&error))?;
            let blocks =
                found.iter().map(|object| (block_start(guid), block_from_spec(&object.spec))).collect();
            match claim_guid(slice, &blocks, guid, &owner) {
                Some(Ok(_)) => return Ok(true),
                Some(Err(update)) if self.write_block(found, &update).await? => return Ok(true),
                Some(Err(_)) => {}
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Reads the GUID range from ib-kubernetes' ConfigMap, or else from the daemon's environment.
    pub async fn guid_range(&self) -> Result<GuidRange, Fault> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), PartitionSettings::NAMESPACE);
        let found = with_timeout(api.get_opt(PartitionSettings::CONFIG_MAP))
            .await
            .map_err(|error| self.api_fault(&error))?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        let value = |name: &str| data.get(name).cloned().or_else(|| std::env::var(name).ok());
        PartitionSettings::read_guid_range(value).map_err(|problem| problem.fault())
    }

    fn api(&self) -> Api<GuidBlock> {
        Api::all(self.client.clone())
    }

    /// Lists all GuidBlock objects, keyed by the first GUID of each block.
    async fn list_blocks(&self) -> kube::Result<BTreeMap<u64, GuidBlock>> {
        let objects = with_timeout(self.api().list(&ListParams::default())).await?;
        let by_first_guid =
            |object: GuidBlock| Some((u64::from_str_radix(&object.name_any(), 16).ok()?, object));
        Ok(objects.into_iter().filter_map(by_first_guid).collect())
    }

    /// Returns the GuidBlock object that covers a GUID, or `None` if it does not exist yet.
    async fn get_block(&self, guid: Guid) -> kube::Result<Option<GuidBlock>> {
        with_timeout(self.api().get_opt(&block_name(block_start(guid)))).await
    }

    /// Creates or replaces a GuidBlock object with the content of `update`. Returns `false` if another client
    /// wrote the object since it was read.
    async fn write_block(
        &self,
        existing: Option<GuidBlock>,
        update: &GuidBlockUpdate,
    ) -> Result<bool, Fault> {
        let (api, name, spec) = (self.api(), block_name(update.first), spec_from_block(&update.block));
        let written = match existing {
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

    /// Lists the GUIDs that are claimed for pods on this node. Permanent GUIDs are not included: their claims
    /// name the adapter and the function's number instead of a PCI address.
    pub async fn list_node_leases(&self) -> kube::Result<Vec<GuidLease>> {
        let mut leases = Vec::new();
        for (first, object) in self.list_blocks().await? {
            for (offset, claim) in block_from_spec(&object.spec).claims {
                if let (true, Ok(pci)) = (claim.node == self.node, claim.device.parse()) {
                    leases.push((pci, Guid::new(first + u64::from(offset))));
                }
            }
        }
        Ok(leases)
    }

    /// Releases the claim on the GUID of a lease. Does nothing if the claim is gone or belongs to another
    /// function.
    pub async fn release(&self, (function, guid): GuidLease) -> kube::Result<()> {
        let owner = GuidOwner { node: self.node.clone(), device: function.to_string() };
        let Some(mut object) = self.get_block(guid).await? else { return Ok(()) };
        let Some(remaining) = release_guid(&block_from_spec(&object.spec), guid, &owner) else {
            return Ok(());
        };
        object.spec = spec_from_block(&remaining);
        with_timeout(self.api().replace(&object.name_any(), &PostParams::default(), &object)).await?;
        Ok(())
    }

    /// Describes another function, on any node, that already has this GUID; `None` if there is none.
    async fn find_function_with(&self, guid: Guid, requester: &GuidOwner) -> Result<Option<String>, Fault> {
        let api: Api<NodePartitions> = Api::all(self.client.clone());
        let objects =
            with_timeout(api.list(&ListParams::default())).await.map_err(|error| self.api_fault(&error))?;
        for object in objects {
            for (device, text) in &object.spec.functions {
                let is_requester = object.name_any() == requester.node && *device == requester.device;
                if parse_guid(text) == Some(guid) && !is_requester {
                    return Ok(Some(format!("{device} on {}", object.name_any())));
                }
            }
        }
        Ok(None)
    }

    /// Returns the UID of the namespace kube-system, which identifies this cluster.
    pub async fn cluster_uid(&self) -> Result<String, Fault> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let namespace = with_timeout(api.get("kube-system")).await.map_err(|error| self.api_fault(&error))?;
        Ok(namespace.uid().unwrap_or_default())
    }

    fn api_fault(&self, error: &kube::Error) -> Fault {
        Fault::new(
            FaultCode::ApiUnavailable,
            format!("GUIDs of node {}", self.node),
            crate::error::error_chain(error),
            "no action needed; retried automatically",
        )
    }
}

/// Describes the owner of a GUID for an error message; `None` if the GUID is not claimed.
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

fn spec_from_block(block: &GuidBlockClaims) -> GuidBlockSpec {
    let claim = |(offset, claim): (&u8, &GuidOwner)| {
        (offset.to_string(), GuidClaim { node: claim.node.clone(), device: claim.device.clone() })
    };
    let claims: BTreeMap<String, GuidClaim> = block.claims.iter().map(claim).collect();
    GuidBlockSpec { fabric: FabricName::Default, node: block.node.clone(), claims }
}
