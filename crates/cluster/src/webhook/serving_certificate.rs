//! The certificate that is shown now; it changes while connections come in.

use super::certificate::WebhookCertificate;
use crate::Reflector;
use k8s_openapi::api::core::v1::Secret;
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::sync::{Arc, PoisonError, RwLock};
use tracing::{info, warn};

/// The certificate, once there is one.
#[derive(Debug, Default)]
pub struct ServingCertificate(RwLock<Option<Arc<CertifiedKey>>>);

impl ServingCertificate {
    /// Whether there is one.
    pub fn is_loaded(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Show what the Secret holds, for ever.
pub async fn follow_secret(secret: Reflector<Secret>, identity: Arc<ServingCertificate>) {
    let mut changes = secret.changes();
    let mut shown = None;
    loop {
        changes.mark_unchanged();
        let held = secret.list().into_iter().find_map(|(_, secret)| WebhookCertificate::from_secret(&secret));
        if let Some(held) = held.filter(|held| shown.as_ref() != Some(held)) {
            match parse_certificate(&held) {
                Ok(key) => {
                    info!(until = %held.expires, "certificate");
                    identity.set(key);
                }
                Err(e) => warn!(error = %e, "the certificate in the Secret cannot be used"),
            }
            shown = Some(held);
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn parse_certificate(
    held: &WebhookCertificate,
) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
    let chain = CertificateDer::pem_slice_iter(held.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(held.key.as_bytes())?;
    Ok(CertifiedKey::new(chain, any_supported_type(&key)?))
}
