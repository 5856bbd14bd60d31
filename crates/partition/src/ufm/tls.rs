//! TLS configuration: certificate pinning and client certificates.
//!
//! The certificate that UFM's documentation tells users to create contains no valid host name: its only name is the
//! literal text `${UFM_ADDRESS}`. A configured certificate is therefore first a pin: a server that presents exactly
//! this certificate, and proves to have its key, is accepted. Otherwise it is a CA that must have signed the server's
//! certificate for the server's name.

use super::{UfmClientSettings, UfmLogin};
use crate::SettingError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Checks that the certificates and the key in the settings can be parsed.
pub(super) fn check(settings: &UfmClientSettings) -> Result<(), SettingError> {
    client_config(settings).map(drop)
}

/// Builds the TLS configuration: the server certificates to trust, and the client certificate to present.
pub(super) fn client_config(settings: &UfmClientSettings) -> Result<ClientConfig, SettingError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| certificate_error("UFM_CERTIFICATE", &error))?;
    let builder = match &settings.certificate {
        Some(pem) => {
            let verifier = PinnedCertVerifier::new(parse_certificates("UFM_CERTIFICATE", pem)?, provider)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            builder.with_root_certificates(roots)
        }
    };
    match &settings.login {
        UfmLogin::Certificate { chain, key } => {
            let chain = parse_certificates("UFM_CLIENT_CERTIFICATE", chain)?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|error| certificate_error("UFM_CLIENT_KEY", &error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| certificate_error("UFM_CLIENT_KEY", &error))
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

fn parse_certificates(name: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, SettingError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let parsed = parsed.map_err(|error| certificate_error(name, &error))?;
    if parsed.is_empty() {
        return Err(certificate_error(name, &"it contains no BEGIN CERTIFICATE"));
    }
    Ok(parsed)
}

fn certificate_error(name: &'static str, problem: &dyn ToString) -> SettingError {
    SettingError::Certificate { name, problem: problem.to_string() }
}

/// Accepts the pinned certificates and certificates signed by them.
#[derive(Debug)]
struct PinnedCertVerifier {
    pins: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

impl PinnedCertVerifier {
    fn new(pins: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, SettingError> {
        let mut roots = RootCertStore::empty();
        for pin in &pins {
            roots.add(pin.clone()).map_err(|error| certificate_error("UFM_CERTIFICATE", &error))?;
        }
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| certificate_error("UFM_CERTIFICATE", &error))?;
        Ok(Self { pins, signed, provider })
    }
}

impl ServerCertVerifier for PinnedCertVerifier {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.pins.iter().any(|pin| pin.as_ref() == presented.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        self.signed.verify_server_cert(presented, intermediates, server, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
