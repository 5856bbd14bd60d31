//! Who the server says it is.

use anyhow::{Context, Result};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::sync::Arc;

/// A certificate and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl TlsIdentity {
    /// A self-signed one for these names.
    pub fn with_names(names: &[&str]) -> Result<Self> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        Ok(Self { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }

    /// A self-signed one with nothing but a common name, as old recipes make them.
    pub fn with_common_name(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        Ok(Self { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    }

    /// The server's side; `clients`: certificates of the clients that need no password.
    pub(super) fn server_config(&self, clients: Option<&str>) -> Result<Arc<ServerConfig>> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = rustls::RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    roots.add(certificate.context("a client's certificate")?)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
            }
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).context("the server's key")?;
        Ok(Arc::new(builder.with_single_cert(chain.context("the server's certificate")?, key)?))
    }
}
