//! TLS identity of the simulated UFM.

use anyhow::{Context, Result};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::sync::Arc;

/// A certificate and its private key, as PEM.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    pub certificate: String,
    pub key: String,
}

impl TlsIdentity {
    /// Creates a self-signed certificate with these subject alternative names.
    pub fn with_names(names: &[&str]) -> Result<Self> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        Ok(Self { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }

    /// Creates a self-signed certificate with only a common name, as old instructions do.
    pub fn with_common_name(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(Self { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }

    /// Server configuration. `clients` are the certificates, as PEM, of clients that need no password.
    pub(super) fn server_config(&self, clients: Option<&str>) -> Result<Arc<ServerConfig>> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = rustls::RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    roots.add(certificate.context("invalid client certificate")?)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
            }
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).context("invalid server key")?;
        Ok(Arc::new(builder.with_single_cert(chain.context("invalid server certificate")?, key)?))
    }
}
