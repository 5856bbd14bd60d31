//! Reconciles SpiderMultusConfigs: writes their NetworkAttachmentDefinitions.

use super::write::{WriteOutcome, rejected_definition, write_definition};
use super::{NetworkCaches, spider_definition};
use crate::{ControllerContext, Error, last_events::LastEvents};
use ferroband_api::spiderpool::SpiderMultusConfig;
use ferroband_daemon::{Controller, catch_panic_async};
use ferroband_model::{Fault, FaultCode};
use kube::{ResourceExt, runtime::events::EventType};
use std::{collections::HashSet, time::Duration};

pub struct SpiderConfigController {
    context: ControllerContext,
    caches: NetworkCaches,
    last_events: LastEvents,
}

impl SpiderConfigController {
    pub fn new(context: &ControllerContext, caches: &NetworkCaches) -> Self {
        Self { context: context.clone(), caches: caches.clone(), last_events: LastEvents::default() }
    }

    async fn reconcile_one(&self, config: &SpiderMultusConfig) -> Result<(), Error> {
        let object =
            format!("SpiderMultusConfig {}/{}", config.namespace().unwrap_or_default(), config.name_any());
        let desired = match spider_definition::desired(config) {
            Ok(desired) => desired,
            Err(error) => {
                self.publish_fault(config, EventType::Warning, &error.fault(&object)).await;
                return Ok(());
            }
        };
        let definition = &desired.definition;
        let existing = self.caches.definitions.get(&definition.namespace, &definition.name);
        match write_definition(&self.context.client, definition, existing.as_deref()).await? {
            WriteOutcome::Foreign(owner) => {
                let fault = Fault::new(
                    FaultCode::NameTaken,
                    &object,
                    format!("NetworkAttachmentDefinition {} belongs to {owner}", definition.name),
                    "delete that NetworkAttachmentDefinition, or set another name with the annotation multus.spidernet.io/cr-name",
                );
                self.publish_fault(config, EventType::Warning, &fault).await;
            }
            WriteOutcome::Rejected(reason) => {
                self.publish_fault(config, EventType::Warning, &rejected_definition(&object, &reason)).await;
            }
            WriteOutcome::UpToDate if desired.warnings.is_empty() => {
                self.last_events.clear(&config.uid().unwrap_or_default());
            }
            WriteOutcome::UpToDate => {
                let note = desired.warnings.join("; ");
                if self.last_events.insert_if_new(&config.uid().unwrap_or_default(), &note) {
                    self.context.events.publish(config, EventType::Normal, "SpellingCorrected", note).await;
                }
            }
        }
        Ok(())
    }

    async fn publish_fault(&self, config: &SpiderMultusConfig, kind: EventType, fault: &Fault) {
        let note = fault.to_string();
        if self.last_events.insert_if_new(&config.uid().unwrap_or_default(), &note) {
            self.context.events.publish(config, kind, fault.code.reason(), note).await;
        }
    }
}

impl Controller for SpiderConfigController {
    const NAME: &'static str = "SpiderMultusConfigs";
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let mut failed = None;
        let mut known = HashSet::new();
        for ((namespace, name), config) in self.caches.spider_configs.list() {
            known.extend(config.uid());
            if config.metadata.deletion_timestamp.is_some() {
                continue;
            }
            // Continue after a failure or a panic: one config must not block the others.
            let result = catch_panic_async(self.reconcile_one(&config)).await;
            let object = || format!("SpiderMultusConfig {namespace}/{name}");
            let result = result.map_err(|source| Error::Panic { object: object(), source });
            if let Err(e) = result.flatten() {
                failed = Some(e);
            }
        }
        self.last_events.retain(&known);
        failed.map_or(Ok(None), Err)
    }
}

#[cfg(test)]
mod tests;
