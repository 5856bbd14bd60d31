//! The certificate that the HTTPS server uses. It can change while the server is running.

use super::certificate::WebhookCertificate;
use ferroband_daemon::SharedCache;
use k8s_openapi::api::core::v1::Secret;
use parking_lot::RwLock;
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::sync::Arc;
use tracing::{info, warn};

/// The current certificate and key; `None` until one is loaded from the Secret.
#[derive(Debug, Default)]
pub struct ServingCertificate(RwLock<Option<Arc<CertifiedKey>>>);

impl ServingCertificate {
    pub fn is_loaded(&self) -> bool {
        self.0.read().is_some()
    }

    fn set(&self, key: CertifiedKey) {
        *self.0.write() = Some(Arc::new(key));
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// Loads the certificate from the Secret, and loads it again on every change. Never returns.
pub async fn follow_secret(secret: SharedCache<Secret>, serving: Arc<ServingCertificate>) {
    let mut changes = secret.changes();
    let mut loaded = None;
    loop {
        changes.mark_unchanged();
        let certificate =
            secret.list().into_iter().find_map(|(_, secret)| WebhookCertificate::from_secret(&secret));
        if let Some(certificate) = certificate.filter(|certificate| loaded.as_ref() != Some(certificate)) {
            match parse_certificate(&certificate) {
                Ok(key) => {
                    info!(expires = %certificate.expires, "serving certificate loaded");
                    serving.set(key);
                }
                Err(e) => warn!(error = %e, "cannot use the certificate in the Secret ferroband-webhook"),
            }
            loaded = Some(certificate);
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn parse_certificate(
    certificate: &WebhookCertificate,
) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
    let chain =
        CertificateDer::pem_slice_iter(certificate.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes())?;
    Ok(CertifiedKey::new(chain, any_supported_type(&key)?))
}

#[cfg(test)]
impl ServingCertificate {
    /// Uses this certificate.
    pub fn for_test(certificate: &WebhookCertificate) -> Self {
        let serving = Self::default();
        serving.set(parse_certificate(certificate).unwrap());
        serving
    }
}
