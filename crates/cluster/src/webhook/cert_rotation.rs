//! Rotates the webhook's certificate and keeps the MutatingWebhookConfiguration up to date. Runs on the
//! leader.

use super::{NAME, certificate::WebhookCertificate, configuration};
use crate::{ControllerContext, Error, networks::NetworkCaches, object_writes::apply_object};
use ferroband_daemon::{Controller, Reflectors, SharedCache, api_call::with_timeout, named, tasks::TaskSet};
use jiff::Timestamp;
use k8s_openapi::api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::{info, warn};

/// How often the certificate's age is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// How long the MutatingWebhookConfiguration must be missing before it is restored. An uninstallation deletes it shortly
/// before the daemon, and it must not come back then.
const RESTORE_DELAY: Duration = Duration::from_secs(60);

/// Caches of the Secret with the webhook's certificate and of its MutatingWebhookConfiguration.
#[derive(Clone, Default)]
pub struct WebhookObjects {
    pub secret: SharedCache<Secret>,
    /// The field `webhooks` of the MutatingWebhookConfiguration.
    pub configuration: SharedCache<Value>,
}

impl WebhookObjects {
    /// Starts both watches. They run until `tasks` ends.
    pub fn start(client: &Client, namespace: &str, tasks: &mut TaskSet<Error>) -> Self {
        let mut watch = Reflectors { client, tasks };
        let secrets = Api::namespaced(client.clone(), namespace);
        let webhooks = |object: MutatingWebhookConfiguration| {
            Some(serde_json::to_value(object.webhooks.unwrap_or_default()).unwrap_or_default())
        };
        let configurations = Api::all(client.clone());
        Self {
            secret: watch.start("webhook Secret", secrets, named(NAME), Some),
            configuration: watch.start("webhook configuration", configurations, named(NAME), webhooks),
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
    /// Since when the MutatingWebhookConfiguration is missing; `None` if it exists.
    missing_since: Mutex<Option<Instant>>,
}

impl CertRotation {
    pub fn new(context: &ControllerContext, caches: &NetworkCaches, objects: &WebhookObjects) -> Self {
        Self {
            context: context.clone(),
            caches: caches.clone(),
            objects: objects.clone(),
            missing_since: Mutex::default(),
        }
    }

    /// Returns how long to wait until the MutatingWebhookConfiguration is restored. `None` if it exists, or if it has been
    /// missing for [`RESTORE_DELAY`].
    fn restore_wait(&self, exists: bool) -> Option<Duration> {
        let mut missing_since = self.missing_since.lock();
        if exists {
            *missing_since = None;
            return None;
        }
        let since = *missing_since.get_or_insert_with(Instant::now);
        Some(RESTORE_DELAY.saturating_sub(since.elapsed())).filter(|wait| !wait.is_zero())
    }

    /// Applies the webhooks with `ca_bundle` to the MutatingWebhookConfiguration, unless it already contains
    /// them. The manifests create the object. If someone deletes it, it is restored. Returns how long to wait until
    /// then.
    async fn update_configuration(&self, ca_bundle: &str) -> Result<Option<Duration>, Error> {
        let existing = self.objects.configuration.get("", NAME);
        if let Some(wait) = self.restore_wait(existing.is_some()) {
            return Ok(Some(wait));
        }
        let grouped = self.caches.namespace_groups.list().into_iter();
        let mut grouped: Vec<_> =
            grouped.filter(|(_, group)| group.is_some()).map(|((_, name), _)| name).collect();
        grouped.sort();
        let desired = configuration::webhooks(&self.context.settings.namespace, ca_bundle, &grouped);
        if existing.as_ref().is_some_and(|existing| configuration::contains_all(existing, &desired)) {
            return Ok(None);
        }
        let fields =
            json!({"metadata": {"labels": {"app.kubernetes.io/name": "ferroband"}}, "webhooks": desired});
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.context.client.clone());
        apply_object(&api, NAME, fields).await?;
        match existing {
            Some(_) => info!(namespaces = grouped.len(), "webhook configuration updated"),
            None => warn!("webhook configuration restored; it had been deleted"),
        }
        self.restore_wait(true);
        Ok(None)
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
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let (existing, now) = (self.objects.current_secret(), Timestamp::now());
        let current = existing.as_deref().and_then(WebhookCertificate::from_secret);
        let wait = match current.as_ref().filter(|current| !current.is_due_for_renewal(now)) {
            Some(current) => self.update_configuration(&current.ca_bundle).await?,
            None => {
                let host = format!("{NAME}.{}.svc", self.context.settings.namespace);
                let new_certificate = WebhookCertificate::generate(&host, current.as_ref(), now)?;
                // The API server must trust the new certificate before a replica serves it.
                let wait = self.update_configuration(&new_certificate.ca_bundle).await?;
                self.store_certificate(&new_certificate, existing).await?;
                wait
            }
        };
        Ok(Some(wait.unwrap_or(CHECK_INTERVAL)))
    }
}

#[cfg(test)]
mod tests;
