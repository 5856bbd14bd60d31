//! The leader keeps the certificate fresh and the API server informed.

use super::{NAME, certificate::Certificate, configuration};
use crate::{Context, Error, Watched, Work, networks::Sources};
use ferroband_daemon::{call::bounded, tasks::Tasks};
use jiff::Timestamp;
use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tracing::info;

/// How often the certificate's age is looked at.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The two objects, as the API server has them.
#[derive(Clone)]
pub struct Kept {
    /// The certificate.
    pub secret: Watched<Secret>,
    /// What the API server is told; the object itself comes with the installation and goes with it.
    pub configuration: Watched<Value>,
}

impl Kept {
    /// Watch them.
    pub fn start(client: &Client, namespace: &str, tasks: &mut Tasks<Error>) -> Self {
        let named = || watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let secrets = Api::namespaced(client.clone(), namespace);
        let webhooks = |object: MutatingWebhookConfiguration| {
            Some(serde_json::to_value(object.webhooks.unwrap_or_default()).unwrap_or_default())
        };
        Self {
            secret: Watched::start(tasks, "the webhook's certificate", secrets, named(), Some),
            configuration: Watched::start(
                tasks,
                "the webhook's configuration",
                Api::all(client.clone()),
                named(),
                webhooks,
            ),
        }
    }

    fn secret(&self) -> Option<Arc<Secret>> {
        self.secret.all().into_iter().next().map(|(_, secret)| secret)
    }
}

/// The work.
pub struct Keep {
    context: Context,
    sources: Sources,
    kept: Kept,
}

impl Keep {
    /// Of this leader.
    pub fn new(context: &Context, sources: &Sources, kept: &Kept) -> Self {
        Self { context: context.clone(), sources: sources.clone(), kept: kept.clone() }
    }

    /// Tell the API server whom to trust.
    async fn inform(&self, trusted: &str) -> Result<(), Error> {
        // Without the object nobody asks us anything; it comes with the installation.
        let Some(there) = self.kept.configuration.get("", NAME) else { return Ok(()) };
        let grouped = self.sources.namespaces.all().into_iter();
        let mut grouped: Vec<_> =
            grouped.filter(|(_, group)| group.is_some()).map(|((_, name), _)| name).collect();
        grouped.sort();
        let wanted = configuration::webhooks(&self.context.settings.namespace, trusted, &grouped);
        if configuration::says(&there, &wanted) {
            return Ok(());
        }
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME}, "webhooks": wanted,
        });
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.context.client.clone());
        let parameters = PatchParams::apply("ferroband-cluster").force();
        let answer = bounded(api.patch(NAME, &parameters, &Patch::Apply(&object))).await;
        answer.map_err(Error::api("apply", format!("MutatingWebhookConfiguration {NAME}")))?;
        info!(namespaces = grouped.len(), "the API server knows the webhook");
        Ok(())
    }

    /// Store the certificate. Of two that do, one succeeds.
    async fn store(&self, certificate: &Certificate, there: Option<Arc<Secret>>) -> Result<(), Error> {
        let namespace = &self.context.settings.namespace;
        let api: Api<Secret> = Api::namespaced(self.context.client.clone(), namespace);
        let parameters = PostParams::default();
        let answer = match there {
            Some(there) => {
                let mut secret = (*there).clone();
                certificate.put(&mut secret);
                bounded(api.replace(NAME, &parameters, &secret)).await
            }
            None => {
                let label = ("app.kubernetes.io/name".to_owned(), "ferroband".to_owned());
                let metadata = ObjectMeta {
                    name: Some(NAME.to_owned()),
                    labels: Some([label].into()),
                    ..ObjectMeta::default()
                };
                let mut secret = Secret { metadata, ..Secret::default() };
                certificate.put(&mut secret);
                bounded(api.create(&parameters, &secret)).await
            }
        };
        answer.map(drop).map_err(Error::api("write", format!("Secret {namespace}/{NAME}")))
    }
}

impl Work for Keep {
    const NAME: &'static str = "webhook";

    async fn pass(&self) -> Result<Option<Duration>, Error> {
        let complete = self.kept.secret.is_complete()
            && self.kept.configuration.is_complete()
            && self.sources.namespaces.is_complete();
        if !complete {
            return Ok(None);
        }
        let (there, now) = (self.kept.secret(), Timestamp::now());
        let held = there.as_deref().and_then(Certificate::of);
        match held.as_ref().filter(|held| !held.is_old(now)) {
            Some(held) => self.inform(&held.trusted).await?,
            None => {
                let host = format!("{NAME}.{}.svc", self.context.settings.namespace);
                let made = Certificate::make(&host, held.as_ref(), now)?;
                // Trusted before it is shown.
                self.inform(&made.trusted).await?;
                self.store(&made, there).await?;
            }
        }
        Ok(Some(DAY))
    }
}
