//! Definitions of SriovIBNetworks, and their condition.

mod condition;

use super::definition::OWNER_REF;
use super::write::{FIELD_MANAGER, WriteOutcome, delete_definition, write_definition};
use super::{NetworkCaches, ib_definition};
use crate::{Controller, ControllerContext, Error};
use condition::{IbNetworkOutcome, ready_condition};
use ferroband_api::{cncf::NetworkAttachmentDefinition, sriov::SriovIBNetwork};
use ferroband_daemon::api_call::with_timeout;
use ferroband_model::{Fault, FaultCode};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// On the object, where its definition was put.
const LAST_NAMESPACE: &str = "operator.sriovnetwork.openshift.io/last-network-namespace";
/// What the operator that we replace leaves on objects; it has nobody else to take it off.
const FINALIZER: &str = "netattdef.finalizers.sriovnetwork.openshift.io";

/// The work.
pub struct IbNetworkController {
    context: ControllerContext,
    caches: NetworkCaches,
}

impl IbNetworkController {
    /// Of this leader.
    pub fn new(context: &ControllerContext, sources: &NetworkCaches) -> Self {
        Self { context: context.clone(), caches: sources.clone() }
    }

    /// The definitions that name `network` as their origin, but for the one in `target`.
    fn definitions_outside(
        &self,
        reference: &str,
        target: Option<&str>,
    ) -> Vec<Arc<NetworkAttachmentDefinition>> {
        let all = self.caches.definitions.list().into_iter();
        all.filter(|((namespace, _), definition)| {
            definition.annotations().get(OWNER_REF).is_some_and(|named| named == reference)
                && Some(namespace.as_str()) != target
        })
        .map(|(_, definition)| definition)
        .collect()
    }

    async fn reconcile_one(&self, network: &SriovIBNetwork) -> Result<(), Error> {
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let reference = ib_definition::reference(&namespace, &name);
        if network.metadata.deletion_timestamp.is_some() {
            for left in self.definitions_outside(&reference, None) {
                delete_definition(&self.context.client, &left).await?;
            }
            return self.remove_finalizer(network).await;
        }
        let verdict = self.reconcile_definition(network, &reference).await?;
        if let IbNetworkOutcome::Ready { namespace: target } = &verdict
            && network.annotations().get(LAST_NAMESPACE) != Some(target)
        {
            let patch = json!({"metadata": {"annotations": {LAST_NAMESPACE: target}}});
            self.patch(network, &patch).await?;
        }
        let current = network.status.as_ref().map_or(&[][..], |status| &status.conditions);
        if let Some(condition) = ready_condition(&verdict, current, network.metadata.generation) {
            let status = json!({
                "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork",
                "metadata": {"name": name, "namespace": namespace}, "status": {"conditions": [condition]},
            });
            let api: Api<SriovIBNetwork> = Api::namespaced(self.context.client.clone(), &namespace);
            let parameters = PatchParams::apply(FIELD_MANAGER).force();
            with_timeout(api.patch_status(&name, &parameters, &Patch::Apply(&status))).await.map_err(
                Error::api("apply", format!("the condition of SriovIBNetwork {namespace}/{name}")),
            )?;
        }
        Ok(())
    }

    /// Make its definition what it should be, and no other one.
    async fn reconcile_definition(
        &self,
        network: &SriovIBNetwork,
        reference: &str,
    ) -> Result<IbNetworkOutcome, Error> {
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let object = format!("SriovIBNetwork {namespace}/{name}");
        let wanted = super::desired_ib_network(network, &self.context.settings);
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(refused) => return Ok(IbNetworkOutcome::Invalid(refused.fault(&object).to_string())),
        };
        let definition = &wanted.definition;
        for left in self.definitions_outside(reference, Some(&definition.namespace)) {
            delete_definition(&self.context.client, &left).await?;
        }
        if self.caches.namespace_groups.get("", &definition.namespace).is_none() {
            return Ok(IbNetworkOutcome::NamespaceMissing(definition.namespace.clone()));
        }
        let there = self.caches.definitions.get(&definition.namespace, &definition.name);
        match write_definition(&self.context.client, definition, there.as_deref()).await? {
            WriteOutcome::UpToDate => Ok(IbNetworkOutcome::Ready { namespace: definition.namespace.clone() }),
            WriteOutcome::Foreign(owner) => {
                let fault = Fault::new(
                    FaultCode::NameTaken,
                    object,
                    format!("the definition {}/{} belongs to {owner}", definition.namespace, definition.name),
                    "delete one of the two, or give this one another name",
                );
                Ok(IbNetworkOutcome::Invalid(fault.to_string()))
            }
        }
    }

    /// Take off the mark that the operator left, so that the object can go.
    async fn remove_finalizer(&self, network: &SriovIBNetwork) -> Result<(), Error> {
        if !network.finalizers().iter().any(|mark| mark == FINALIZER) {
            return Ok(());
        }
        let others: Vec<_> = network.finalizers().iter().filter(|mark| *mark != FINALIZER).collect();
        let seen = network.resource_version();
        self.patch(network, &json!({"metadata": {"finalizers": others, "resourceVersion": seen}})).await
    }

    async fn patch(&self, network: &SriovIBNetwork, patch: &serde_json::Value) -> Result<(), Error> {
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let api: Api<SriovIBNetwork> = Api::namespaced(self.context.client.clone(), &namespace);
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let answer = with_timeout(api.patch(&name, &parameters, &Patch::Merge(patch))).await;
        answer.map(drop).map_err(Error::api("patch", format!("SriovIBNetwork {namespace}/{name}")))
    }

    /// Delete the definitions whose object is gone.
    async fn delete_orphans(&self) -> Result<(), Error> {
        for (_, definition) in self.caches.definitions.list() {
            let named = definition
                .annotations()
                .get(OWNER_REF)
                .and_then(|named| ib_definition::parse_reference(named));
            if let Some((namespace, name)) = named
                && self.caches.ib_networks.get(namespace, name).is_none()
            {
                delete_definition(&self.context.client, &definition).await?;
            }
        }
        Ok(())
    }
}

impl Controller for IbNetworkController {
    const NAME: &'static str = "SriovIBNetworks";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let sources = &self.caches;
        let complete = sources.definitions.is_synced()
            && sources.ib_networks.is_synced()
            && sources.namespace_groups.is_synced();
        if !complete {
            return Ok(None);
        }
        let mut failed = self.delete_orphans().await.err();
        for (_, network) in sources.ib_networks.list() {
            // One that fails must not keep the others waiting.
            if let Err(e) = self.reconcile_one(&network).await {
                failed = Some(e);
            }
        }
        failed.map_or(Ok(None), Err)
    }
}
