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
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long a claim that was listed is known to exist.
const MAX_LIST_AGE: Duration = Duration::from_secs(60);
/// How many times a claim is tried if other nodes write the same GuidBlock at the same time.
const MAX_ATTEMPTS: usize = 8;

/// Claims and releases GUIDs for the virtual functions of this node.
#[derive(Clone)]
pub struct GuidClaimClient {
    client: Client,
    node: String,
    /// The GuidBlocks as they were listed for the first permanent GUID, and changed since then. A node may need a
    /// hundred GUIDs, and a fabric may have a hundred thousand.
    known_blocks: Arc<Mutex<Option<KnownGuidBlocks>>>,
}

struct KnownGuidBlocks {
    by_first_guid: BTreeMap<u64, GuidBlock>,
    listed_at: Instant,
}

impl KnownGuidBlocks {
    fn set(&mut self, first: u64, object: Option<GuidBlock>) {
        match object {
            Some(object) => drop(self.by_first_guid.insert(first, object)),
            None => drop(self.by_first_guid.remove(&first)),
        }
    }
}

impl GuidClaimClient {
    pub fn new(client: Client, node: String) -> Self {
        Self { client, node, known_blocks: Arc::default() }
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
            if self.write_block(found, &update).await?.is_some() {
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
        let mut known = self.known_blocks.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            if known.is_none() {
                let by_first_guid = self.list_blocks().await.map_err(|error| self.api_fault(&error))?;
                *known = Some(KnownGuidBlocks { by_first_guid, listed_at: Instant::now() });
            }
            let Some(known) = known.as_mut() else { break };
            let blocks = known.by_first_guid.iter();
            let blocks = blocks.map(|(first, object)| (*first, block_from_spec(&object.spec))).collect();
            let first = match choose_guid(slice, &blocks, &requester) {
                Some(Ok(guid)) if known.listed_at.elapsed() < MAX_LIST_AGE => return Ok(guid),
                // The leader removes the claims of a node that was deleted for a while.
                Some(Ok(guid)) => {
                    let object = self.get_block(guid).await.map_err(|error| self.api_fault(&error))?;
                    let is_same = known.by_first_guid.get(&block_start(guid)) == object.as_ref();
                    known.set(block_start(guid), object);
                    if is_same {
                        return Ok(guid);
                    }
                    continue;
                }
                Some(Err(update)) => {
                    let existing = known.by_first_guid.get(&update.first).cloned();
                    if let Some(written) = self.write_block(existing, &update).await? {
                        known.set(update.first, Some(written));
                        return Ok(update.guid);
                    }
                    update.first
                }
                None => {
                    return Err(fault(
                        "all GUIDs of the range are claimed",
                        "enlarge the range in the ConfigMap ib-kubernetes-config",
                    ));
                }
            };
            let changed = self.get_block(Guid::new(first)).await.map_err(|error| self.api_fault(&error))?;
            known.set(first, changed);
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
                Some(Err(update)) if self.write_block(found, &update).await?.is_some() => return Ok(true),
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

    /// Creates or replaces a GuidBlock object with the content of `update`. Returns the object, or `None` if another
    /// client wrote it since it was read.
    async fn write_block(
        &self,
        existing: Option<GuidBlock>,
        update: &GuidBlockUpdate,
    ) -> Result<Option<GuidBlock>, Fault> {
        let (api, name, spec) = (self.api(), block_name(update.first), spec_from_block(&update.block));
        let written = match existing {
            Some(mut object) => {
                object.spec = spec;
                with_timeout(api.replace(&name, &PostParams::default(), &object)).await
            }
            None => with_timeout(api.create(&PostParams::default(), &GuidBlock::new(&name, spec))).await,
        };
        match written {
            Ok(object) => Ok(Some(object)),
            Err(error) if classify(&error) == ApiFailure::Conflict => Ok(None),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;
    use serde_json::json;

    const PATH: &str = "/apis/ferroband.io/v1alpha1/guidblocks";

    #[tokio::test]
    async fn guid_blocks_are_listed_once_for_all_functions_of_a_node() {
        let api = FakeApi::default();
        api.insert_object(PATH, json!({"metadata": {"resourceVersion": "1"}, "items": []}));
        let claims = GuidClaimClient::new(api.client(), "n1".into());
        let slice = ClusterSlice::new(GuidRange::DEFAULT, "uid");
        let mut guids = std::collections::BTreeSet::new();
        for number in 0..128 {
            guids.insert(claims.clone().claim_own_guid(&slice, &format!("mlx5_0 {number}")).await.unwrap());
        }
        assert_eq!(guids.len(), 128);
        let lists = api.list_calls().into_iter().filter(|call| *call == format!("GET {PATH}")).count();
        assert_eq!((lists, api.list_calls().len()), (1, 129), "one list, and one write for each GUID");
        let again = claims.claim_own_guid(&slice, "mlx5_0 0").await.unwrap();
        assert!(guids.contains(&again) && api.list_calls().len() == 129);

        // Another node wrote the block meanwhile.
        let name = block_name(block_start(again));
        let mut block = api.get_object(&format!("{PATH}/{name}")).unwrap();
        block["metadata"]["resourceVersion"] = json!("1000");
        block["spec"]["claims"]["255"] = json!({"node": "n2", "device": "x"});
        api.insert_object(&format!("{PATH}/{name}"), block);
        let more = claims.claim_own_guid(&slice, "mlx5_0 128").await.unwrap();
        assert!(!guids.contains(&more));
        let stored = api.get_object(&format!("{PATH}/{name}")).unwrap();
        assert_eq!(stored["spec"]["claims"]["255"]["node"], "n2", "it keeps its claim");
    }
}
