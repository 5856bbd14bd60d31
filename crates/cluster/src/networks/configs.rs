//! Definitions of SpiderMultusConfigs.

use super::write::{Written, put};
use super::{Sources, spider, told::Told};
use crate::{Context, Error, Work};
use ferroband_api::spiderpool::SpiderMultusConfig;
use ferroband_model::{Fault, FaultCode};
use kube::{ResourceExt, runtime::events::EventType};
use std::{collections::HashSet, time::Duration};

/// The work.
pub struct Configs {
    context: Context,
    sources: Sources,
    told: Told,
}

impl Configs {
    /// Of this leader.
    pub fn new(context: &Context, sources: &Sources) -> Self {
        Self { context: context.clone(), sources: sources.clone(), told: Told::default() }
    }

    async fn one(&self, config: &SpiderMultusConfig) -> Result<(), Error> {
        let object =
            format!("SpiderMultusConfig {}/{}", config.namespace().unwrap_or_default(), config.name_any());
        let wanted = match spider::wanted(config) {
            Ok(wanted) => wanted,
            Err(refused) => {
                self.tell(config, EventType::Warning, &refused.fault(&object)).await;
                return Ok(());
            }
        };
        let definition = &wanted.definition;
        let there = self.sources.definitions.get(&definition.namespace, &definition.name);
        match put(&self.context.client, definition, there.as_deref()).await? {
            Written::Foreign(owner) => {
                let fault = Fault::new(
                    FaultCode::NameTaken,
                    &object,
                    format!("the definition {} belongs to {owner}", definition.name),
                    "delete one of the two, or name the definition in the annotation multus.spidernet.io/cr-name",
                );
                self.tell(config, EventType::Warning, &fault).await;
            }
            Written::Good if wanted.warnings.is_empty() => self.told.well(&config.uid().unwrap_or_default()),
            Written::Good => {
                let note = wanted.warnings.join("; ");
                if self.told.is_news(&config.uid().unwrap_or_default(), &note) {
                    self.context.event(config, EventType::Normal, "ReadAsMeant", note).await;
                }
            }
        }
        Ok(())
    }

    async fn tell(&self, config: &SpiderMultusConfig, kind: EventType, fault: &Fault) {
        let note = fault.to_string();
        if self.told.is_news(&config.uid().unwrap_or_default(), &note) {
            self.context.event(config, kind, fault.code.reason(), note).await;
        }
    }
}

impl Work for Configs {
    const NAME: &'static str = "SpiderMultusConfigs";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        // Without the definitions' list, one that is there would look absent.
        if !self.sources.definitions.is_complete() || !self.sources.configs.is_complete() {
            return Ok(None);
        }
        let mut failed = None;
        let mut known = HashSet::new();
        for (_, config) in self.sources.configs.all() {
            known.extend(config.uid());
            if config.metadata.deletion_timestamp.is_some() {
                continue;
            }
            // One that fails must not keep the others waiting.
            if let Err(e) = self.one(&config).await {
                failed = Some(e);
            }
        }
        self.told.keep(&known);
        failed.map_or(Ok(None), Err)
    }
}
