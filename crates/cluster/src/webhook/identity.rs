//! The certificate that is shown now; it changes while connections come in.

use super::certificate::Certificate;
use crate::Watched;
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
pub struct Identity(RwLock<Option<Arc<CertifiedKey>>>);

impl Identity {
    /// Whether there is one.
    pub fn is_known(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Show what the Secret holds, for ever.
pub async fn follow(secret: Watched<Secret>, identity: Arc<Identity>) {
    let mut changes = secret.changes();
    let mut shown = None;
    loop {
        changes.mark_unchanged();
        let held = secret.all().into_iter().find_map(|(_, secret)| Certificate::of(&secret));
        if let Some(held) = held.filter(|held| shown.as_ref() != Some(held)) {
            match load(&held) {
                Ok(key) => {
                    info!(until = %held.until, "certificate");
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

fn load(held: &Certificate) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
    let chain = CertificateDer::pem_slice_iter(held.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(held.key.as_bytes())?;
    Ok(CertifiedKey::new(chain, any_supported_type(&key)?))
}
