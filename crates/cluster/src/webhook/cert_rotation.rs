//! Rotates the webhook's certificate and keeps the MutatingWebhookConfiguration up to date. Runs on the
//! leader.

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

/// How often the certificate's age is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// Caches of the Secret with the webhook's certificate and of its MutatingWebhookConfiguration.
#[derive(Clone)]
pub struct WebhookObjects {
    pub secret: Reflector<Secret>,
    /// The field `webhooks` of the MutatingWebhookConfiguration. The manifests create and delete the object itself.
    pub configuration: Reflector<Value>,
}

impl WebhookObjects {
    /// Starts both watches. They run until `tasks` ends.
    pub fn start(client: &Client, namespace: &str, tasks: &mut TaskSet<Error>) -> Self {
        let named = || watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let secrets = Api::namespaced(client.clone(), namespace);
        let webhooks = |object: MutatingWebhookConfiguration| {
            Some(serde_json::to_value(object.webhooks.unwrap_or_default()).unwrap_or_default())
        };
        Self {
            secret: Reflector::start(tasks, "webhook Secret", secrets, named(), Some),
            configuration: Reflector::start(
                tasks,
                "webhook configuration",
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

/// The controller that rotates the webhook's certificate and updates the MutatingWebhookConfiguration.
pub struct CertRotation {
    context: ControllerContext,
    caches: NetworkCaches,
    objects: WebhookObjects,
}

impl CertRotation {
    pub fn new(context: &ControllerContext, caches: &NetworkCaches, objects: &WebhookObjects) -> Self {
        Self { context: context.clone(), caches: caches.clone(), objects: objects.clone() }
    }

    /// Applies the webhooks with `ca_bundle` to the MutatingWebhookConfiguration, unless it already contains
    /// them.
    async fn update_configuration(&self, ca_bundle: &str) -> Result<(), Error> {
        // The manifests create the object. If it does not exist, the webhook is disabled.
        let Some(existing) = self.objects.configuration.get("", NAME) else { return Ok(()) };
        let grouped = self.caches.namespace_groups.list().into_iter();
        let mut grouped: Vec<_> =
            grouped.filter(|(_, group)| group.is_some()).map(|((_, name), _)| name).collect();
        grouped.sort();
        let desired = configuration::webhooks(&self.context.settings.namespace, ca_bundle, &grouped);
        if configuration::contains_all(&existing, &desired) {
            return Ok(());
        }
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": NAME}, "webhooks": desired,
        });
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.context.client.clone());
        let parameters = PatchParams::apply("ferroband-cluster").force();
        let result = with_timeout(api.patch(NAME, &parameters, &Patch::Apply(&object))).await;
        result.map_err(Error::api("apply", format!("MutatingWebhookConfiguration {NAME}")))?;
        info!(namespaces = grouped.len(), "webhook configuration updated");
        Ok(())
    }

    /// Writes the certificate to the Secret. Fails if another leader has written the Secret since it was
    /// read.
    async fn store_certificate(
        &self,
        certificate: &WebhookCertificate,
        existing: Option<Arc<Secret>>,
    ) -> Result<(), Error> {
        let namespace = &self.context.settings.namespace;
        let api: Api<Secret> = Api::namespaced(self.context.client.clone(), namespace);
        let parameters = PostParams::default();
        let result = match existing {
            Some(existing) => {
                let mut secret = (*existing).clone();
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
        result.map(drop).map_err(Error::api("write", format!("Secret {namespace}/{NAME}")))
    }
}

impl Controller for CertRotation {
    const NAME: &'static str = "webhook";

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let synced = self.objects.secret.is_synced()
            && self.objects.configuration.is_synced()
            && self.caches.namespace_groups.is_synced();
        if !synced {
            return Ok(None);
        }
        let (existing, now) = (self.objects.current_secret(), Timestamp::now());
        let current = existing.as_deref().and_then(WebhookCertificate::from_secret);
        match current.as_ref().filter(|current| !current.is_due_for_renewal(now)) {
            Some(current) => self.update_configuration(&current.ca_bundle).await?,
            None => {
                let host = format!("{NAME}.{}.svc", self.context.settings.namespace);
                let new_certificate = WebhookCertificate::generate(&host, current.as_ref(), now)?;
                // The API server must trust the new certificate before a replica serves it.
                self.update_configuration(&new_certificate.ca_bundle).await?;
                self.store_certificate(&new_certificate, existing).await?;
            }
        }
        Ok(Some(CHECK_INTERVAL))
    }
}
