//! Definitions of SriovIBNetworks, and their condition.

mod condition;

use super::definition::OWNER;
use super::write::{MANAGER, Written, delete, put};
use super::{Sources, ib};
use crate::{Context, Error, Work};
use condition::{Verdict, ready};
use ferroband_api::{cncf::NetworkAttachmentDefinition, sriov::SriovIBNetwork};
use ferroband_daemon::call::bounded;
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
pub struct IbNetworks {
    context: Context,
    sources: Sources,
}

impl IbNetworks {
    /// Of this leader.
    pub fn new(context: &Context, sources: &Sources) -> Self {
        Self { context: context.clone(), sources: sources.clone() }
    }

    /// The definitions that name `network` as their origin, but for the one in `target`.
    fn elsewhere(&self, reference: &str, target: Option<&str>) -> Vec<Arc<NetworkAttachmentDefinition>> {
        let all = self.sources.definitions.all().into_iter();
        all.filter(|((namespace, _), definition)| {
            definition.annotations().get(OWNER).is_some_and(|named| named == reference)
                && Some(namespace.as_str()) != target
        })
        .map(|(_, definition)| definition)
        .collect()
    }

    async fn one(&self, network: &SriovIBNetwork) -> Result<(), Error> {
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let reference = ib::reference(&namespace, &name);
        if network.metadata.deletion_timestamp.is_some() {
            for left in self.elsewhere(&reference, None) {
                delete(&self.context.client, &left).await?;
            }
            return self.let_go(network).await;
        }
        let verdict = self.definition(network, &reference).await?;
        if let Verdict::Ready { namespace: target } = &verdict
            && network.annotations().get(LAST_NAMESPACE) != Some(target)
        {
            let patch = json!({"metadata": {"annotations": {LAST_NAMESPACE: target}}});
            self.patch(network, &patch).await?;
        }
        let current = network.status.as_ref().map_or(&[][..], |status| &status.conditions);
        if let Some(condition) = ready(&verdict, current, network.metadata.generation) {
            let status = json!({
                "apiVersion": "sriovnetwork.openshift.io/v1", "kind": "SriovIBNetwork",
                "metadata": {"name": name, "namespace": namespace}, "status": {"conditions": [condition]},
            });
            let api: Api<SriovIBNetwork> = Api::namespaced(self.context.client.clone(), &namespace);
            let parameters = PatchParams::apply(MANAGER).force();
            bounded(api.patch_status(&name, &parameters, &Patch::Apply(&status))).await.map_err(
                Error::api("apply", format!("the condition of SriovIBNetwork {namespace}/{name}")),
            )?;
        }
        Ok(())
    }

    /// Make its definition what it should be, and no other one.
    async fn definition(&self, network: &SriovIBNetwork, reference: &str) -> Result<Verdict, Error> {
        let (namespace, name) = (network.namespace().unwrap_or_default(), network.name_any());
        let object = format!("SriovIBNetwork {namespace}/{name}");
        let wanted = super::ib_wanted(network, &self.context.settings);
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(refused) => return Ok(Verdict::Invalid(refused.fault(&object).to_string())),
        };
        let definition = &wanted.definition;
        for left in self.elsewhere(reference, Some(&definition.namespace)) {
            delete(&self.context.client, &left).await?;
        }
        if self.sources.namespaces.get("", &definition.namespace).is_none() {
            return Ok(Verdict::NoNamespace(definition.namespace.clone()));
        }
        let there = self.sources.definitions.get(&definition.namespace, &definition.name);
        match put(&self.context.client, definition, there.as_deref()).await? {
            Written::Good => Ok(Verdict::Ready { namespace: definition.namespace.clone() }),
            Written::Foreign(owner) => {
                let fault = Fault::new(
                    FaultCode::NameTaken,
                    object,
                    format!("the definition {}/{} belongs to {owner}", definition.namespace, definition.name),
                    "delete one of the two, or give this one another name",
                );
                Ok(Verdict::Invalid(fault.to_string()))
            }
        }
    }

    /// Take off the mark that the operator left, so that the object can go.
    async fn let_go(&self, network: &SriovIBNetwork) -> Result<(), Error> {
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
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let answer = bounded(api.patch(&name, &parameters, &Patch::Merge(patch))).await;
        answer.map(drop).map_err(Error::api("patch", format!("SriovIBNetwork {namespace}/{name}")))
    }

    /// Delete the definitions whose object is gone.
    async fn orphans(&self) -> Result<(), Error> {
        for (_, definition) in self.sources.definitions.all() {
            let named = definition.annotations().get(OWNER).and_then(|named| ib::referenced(named));
            if let Some((namespace, name)) = named
                && self.sources.ib_networks.get(namespace, name).is_none()
            {
                delete(&self.context.client, &definition).await?;
            }
        }
        Ok(())
    }
}

impl Work for IbNetworks {
    const NAME: &'static str = "SriovIBNetworks";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        let sources = &self.sources;
        let complete = sources.definitions.is_complete()
            && sources.ib_networks.is_complete()
            && sources.namespaces.is_complete();
        if !complete {
            return Ok(None);
        }
        let mut failed = self.orphans().await.err();
        for (_, network) in sources.ib_networks.all() {
            // One that fails must not keep the others waiting.
            if let Err(e) = self.one(&network).await {
                failed = Some(e);
            }
        }
        failed.map_or(Ok(None), Err)
    }
}
