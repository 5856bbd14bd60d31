//! Reconciles SriovIBNetworks: writes their NetworkAttachmentDefinitions and their Ready condition.

use super::definition::{OWNER_REF, is_generated};
use super::write::{WriteOutcome, delete_definition, rejected_definition, write_definition};
use super::{NetworkCaches, ib_definition};
use crate::{
    ControllerContext, Error,
    object_writes::{FIELD_MANAGER, apply_object_status},
};
use ferroband_api::{cncf::NetworkAttachmentDefinition, sriov::SriovIBNetwork};
use ferroband_daemon::{Controller, api_call::with_timeout, catch_panic_async, condition};
use ferroband_model::{Fault, FaultCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Annotation of a SriovIBNetwork: the namespace in which its NetworkAttachmentDefinition was last written.
const LAST_NAMESPACE: &str = "operator.sriovnetwork.openshift.io/last-network-namespace";
/// The SR-IOV operator's finalizer. Ferroband removes it from SriovIBNetworks that are being deleted, because
/// the operator no longer runs.
const FINALIZER: &str = "netattdef.finalizers.sriovnetwork.openshift.io";

pub struct IbNetworkController {
    context: ControllerContext,
    caches: NetworkCaches,
}

impl IbNetworkController {
    pub fn new(context: &ControllerContext, caches: &NetworkCaches) -> Self {
        Self { context: context.clone(), caches: caches.clone() }
    }

    /// Returns the NetworkAttachmentDefinitions that were written for `network`, except the one in namespace
    /// `target`: by Ferroband, or by the SR-IOV operator in the namespace that it recorded on the network. Other
    /// definitions are left alone, even if their owner-ref annotation is `reference`.
    fn definitions_outside(
        &self,
        network: &SriovIBNetwork,
        reference: &str,
        target: Option<&str>,
    ) -> Vec<Arc<NetworkAttachmentDefinition>> {
        let all = self.caches.definitions.list().into_iter();
        all.filter(|((namespace, name), definition)| {
            let is_recorded =
                *name == network.name_any() && network.annotations().get(LAST_NAMESPACE) == Some(namespace);
            definition.annotations().get(OWNER_REF).is_some_and(|owner_ref| owner_ref == reference)
                && Some(namespace.as_str()) != target
                && (is_generated(definition) || is_recorded)
        })
        .map(|(_, definition)| definition)
        .collect()
    }

    async fn reconcile_one(&self, network: &SriovIBNetwork) -> Result<(), Error> {
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let reference = ib_definition::reference(&namespace, &name);
        if network.metadata.deletion_timestamp.is_some() {
            for stale in self.definitions_outside(network, &reference, None) {
                delete_definition(&self.context.client, &stale).await?;
            }
            return self.remove_finalizer(network).await;
        }
        let (target, reason, message) = self.reconcile_definition(network, &reference).await?;
        if let Some(target) = &target
            && network.annotations().get(LAST_NAMESPACE) != Some(target)
        {
            let patch = json!({"metadata": {"annotations": {LAST_NAMESPACE: target}}});
            self.patch(network, &patch).await?;
        }
        let current = network.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let ready = condition(current, "Ready", Some(target.is_some()), reason, message);
        let ready = Condition { observed_generation: network.metadata.generation, ..ready };
        if !current.contains(&ready) {
            let api: Api<SriovIBNetwork> = Api::namespaced(self.context.client.clone(), &namespace);
            apply_object_status(&api, &name, &json!({"conditions": [ready]})).await?;
        }
        Ok(())
    }

    /// Writes the NetworkAttachmentDefinition of a network, and deletes those of the same network in other
    /// namespaces. Returns the namespace of the definition if it exists and is up to date, and reason and message of the
    /// network's condition Ready.
    async fn reconcile_definition(
        &self,
        network: &SriovIBNetwork,
        reference: &str,
    ) -> Result<(Option<String>, &'static str, String), Error> {
        const INVALID: &str = "NetworkAttachmentDefinitionInvalid";
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let object = format!("SriovIBNetwork {namespace}/{name}");
        let desired = match super::desired_ib_network(network, &self.context.settings) {
            Ok(desired) => desired,
            Err(error) => return Ok((None, INVALID, error.fault(&object).to_string())),
        };
        let definition = &desired.definition;
        for stale in self.definitions_outside(network, reference, Some(&definition.namespace)) {
            delete_definition(&self.context.client, &stale).await?;
        }
        if self.caches.namespace_groups.get("", &definition.namespace).is_none() {
            let message = format!(
                "namespace {} does not exist; create it, and the NetworkAttachmentDefinition is created as well",
                definition.namespace
            );
            return Ok((None, "NamespaceNotFound", message));
        }
        let existing = self.caches.definitions.get(&definition.namespace, &definition.name);
        match write_definition(&self.context.client, definition, existing.as_deref()).await? {
            WriteOutcome::UpToDate => {
                let namespace = definition.namespace.clone();
                let message = format!("the NetworkAttachmentDefinition exists in namespace {namespace}");
                Ok((Some(namespace), "NetworkReady", message))
            }
            WriteOutcome::Rejected(reason) => {
                Ok((None, INVALID, rejected_definition(&object, &reason).to_string()))
            }
            WriteOutcome::Foreign(owner) => {
                let fault = Fault::new(
                    FaultCode::NameTaken,
                    object,
                    format!(
                        "NetworkAttachmentDefinition {}/{} belongs to {owner}",
                        definition.namespace, definition.name
                    ),
                    "delete that NetworkAttachmentDefinition, or rename this network",
                );
                Ok((None, INVALID, fault.to_string()))
            }
        }
    }

    /// Removes the SR-IOV operator's finalizer from a SriovIBNetwork that is being deleted.
    async fn remove_finalizer(&self, network: &SriovIBNetwork) -> Result<(), Error> {
        if !network.finalizers().iter().any(|mark| mark == FINALIZER) {
            return Ok(());
        }
        let others: Vec<_> = network.finalizers().iter().filter(|mark| *mark != FINALIZER).collect();
        let version = network.resource_version();
        self.patch(network, &json!({"metadata": {"finalizers": others, "resourceVersion": version}})).await
    }

    async fn patch(&self, network: &SriovIBNetwork, patch: &serde_json::Value) -> Result<(), Error> {
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let api: Api<SriovIBNetwork> = Api::namespaced(self.context.client.clone(), &namespace);
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let result = with_timeout(api.patch(&name, &parameters, &Patch::Merge(patch))).await;
        result.map(drop).map_err(Error::api("patch", format!("SriovIBNetwork {namespace}/{name}")))
    }

    /// Deletes the NetworkAttachmentDefinitions that Ferroband wrote and whose SriovIBNetwork is gone.
    async fn delete_orphans(&self) -> Result<(), Error> {
        let mut failed = None;
        for (_, definition) in self.caches.definitions.list() {
            let owner_ref = definition
                .annotations()
                .get(OWNER_REF)
                .and_then(|owner_ref| ib_definition::parse_reference(owner_ref));
            if let Some((namespace, name)) = owner_ref
                && is_generated(&definition)
                && self.caches.ib_networks.get(namespace, name).is_none()
                && let Err(e) = delete_definition(&self.context.client, &definition).await
            {
                failed = Some(e);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Controller for IbNetworkController {
    const NAME: &'static str = "SriovIBNetworks";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let mut failed = self.delete_orphans().await.err();
        for ((namespace, name), network) in self.caches.ib_networks.list() {
            // Continue after a failure or a panic: one network must not block the others.
            let result = catch_panic_async(self.reconcile_one(&network)).await;
            let object = || format!("SriovIBNetwork {namespace}/{name}");
            let result = result.map_err(|source| Error::Panic { object: object(), source });
            if let Err(e) = result.flatten() {
                failed = Some(e);
            }
        }
        failed.map_or(Ok(None), Err)
    }
}

#[cfg(test)]
mod tests;
