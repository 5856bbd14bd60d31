//! The leader keeps the certificate fresh and the API server informed.

use super::{NAME, certificate::WebhookCertificate, configuration};
use crate::{Controller, ControllerContext, Error, Reflector, networks::NetworkCaches};
use ferroband_daemon::{api_call::with_timeout, tasks::TaskSet};
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
pub struct WebhookObjects {
    /// The certificate.
    pub secret: Reflector<Secret>,
    /// What the API server is told; the object itself comes with the installation and goes with it.
    pub configuration: Reflector<Value>,
}

impl WebhookObjects {
    /// Watch them.
    pub fn start(client: &Client, namespace: &str, tasks: &mut TaskSet<Error>) -> Self {
        let named = || watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let secrets = Api::namespaced(client.clone(), namespace);
        let webhooks = |object: MutatingWebhookConfiguration| {
            Some(serde_json::to_value(object.webhooks.unwrap_or_default()).unwrap_or_default())
        };
        Self {
            secret: Reflector::start(tasks, "the webhook's certificate", secrets, named(), Some),
            configuration: Reflector::start(
                tasks,
                "the webhook's configuration",
                Api::all(client.clone()),
                named(),
                webhooks,
            ),
        }
    }

    fn current_secret(&self) -> Option<Arc<Secret>> {
        self.secret.list().into_iter().next().map(|(_, secret)| secret)
    }
}

/// The work.
pub struct CertRotation {
    context: ControllerContext,
    caches: NetworkCaches,
    objects: WebhookObjects,
}

impl CertRotation {
    /// Of this leader.
    pub fn new(context: &ControllerContext, sources: &NetworkCaches, kept: &WebhookObjects) -> Self {
        Self { context: context.clone(), caches: sources.clone(), objects: kept.clone() }
    }

    /// Tell the API server whom to trust.
    async fn update_configuration(&self, trusted: &str) -> Result<(), Error> {
        // Without the object nobody asks us anything; it comes with the installation.
        let Some(there) = self.objects.configuration.get("", NAME) else { return Ok(()) };
        let grouped = self.caches.namespace_groups.list().into_iter();
        let mut grouped: Vec<_> =
            grouped.filter(|(_, group)| group.is_some()).map(|((_, name), _)| name).collect();
        grouped.sort();
        let wanted = configuration::webhooks(&self.context.settings.namespace, trusted, &grouped);
        if configuration::contains_all(&there, &wanted) {
            return Ok(());
        }
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME}, "webhooks": wanted,
        });
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.context.client.clone());
        let parameters = PatchParams::apply("ferroband-cluster").force();
        let answer = with_timeout(api.patch(NAME, &parameters, &Patch::Apply(&object))).await;
        answer.map_err(Error::api("apply", format!("MutatingWebhookConfiguration {NAME}")))?;
        info!(namespaces = grouped.len(), "the API server knows the webhook");
        Ok(())
    }

    /// Store the certificate. Of two that do, one succeeds.
    async fn store_certificate(
        &self,
        certificate: &WebhookCertificate,
        there: Option<Arc<Secret>>,
    ) -> Result<(), Error> {
        let namespace = &self.context.settings.namespace;
        let api: Api<Secret> = Api::namespaced(self.context.client.clone(), namespace);
        let parameters = PostParams::default();
        let answer = match there {
            Some(there) => {
                let mut secret = (*there).clone();
                certificate.write_to(&mut secret);
                with_timeout(api.replace(NAME, &parameters, &secret)).await
            }
            None => {
                let label = ("app.kubernetes.io/name".to_owned(), "ferroband".to_owned());
                let metadata = ObjectMeta {
                    name: Some(NAME.to_owned()),
                    labels: Some([label].into()),
                    ..ObjectMeta::default()
                };
                let mut secret = Secret { metadata, ..Secret::default() };
                certificate.write_to(&mut secret);
                with_timeout(api.create(&parameters, &secret)).await
            }
        };
        answer.map(drop).map_err(Error::api("write", format!("Secret {namespace}/{NAME}")))
    }
}

impl Controller for CertRotation {
    const NAME: &'static str = "webhook";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let complete = self.objects.secret.is_synced()
            && self.objects.configuration.is_synced()
            && self.caches.namespace_groups.is_synced();
        if !complete {
            return Ok(None);
        }
        let (there, now) = (self.objects.current_secret(), Timestamp::now());
        let held = there.as_deref().and_then(WebhookCertificate::from_secret);
        match held.as_ref().filter(|held| !held.is_due_for_renewal(now)) {
            Some(held) => self.update_configuration(&held.ca_bundle).await?,
            None => {
                let host = format!("{NAME}.{}.svc", self.context.settings.namespace);
                let made = WebhookCertificate::generate(&host, held.as_ref(), now)?;
                // Trusted before it is shown.
                self.update_configuration(&made.ca_bundle).await?;
                self.store_certificate(&made, there).await?;
            }
        }
        Ok(Some(DAY))
    }
}
