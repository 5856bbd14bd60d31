//! The webhook's self-signed serving certificate, which the API server trusts through the webhook configuration's
//! caBundle.
//!
//! Because it is self-signed, there is no CA key that could sign anything else. During rotation the caBundle first
//! gets both certificates, then the replicas switch to the new one.

use crate::Error;
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use std::collections::BTreeMap;

const VALIDITY_DAYS: i64 = 365;
/// Number of days before its expiry on which the certificate is renewed.
const RENEW_BEFORE_DAYS: i64 = 120;
/// Annotation of the webhook's Secret that contains the expiry date of the certificate, as YYYY-MM-DD.
const EXPIRY_ANNOTATION: &str = "ferroband.io/until";
const TLS_CERT: &str = "tls.crt";
const TLS_KEY: &str = "tls.key";
/// Key in the webhook's Secret that contains all certificates that the API server trusts.
const CA_BUNDLE: &str = "ca.crt";

/// A self-signed certificate with its private key, as stored in the webhook's Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookCertificate {
    /// The certificate in PEM.
    pub certificate: String,
    /// The private key in PEM.
    pub key: String,
    /// All certificates that the API server trusts, in PEM: this one, and the previous one if it has not expired.
    pub ca_bundle: String,
    /// Last day on which the certificate is valid.
    pub expires: Date,
}

impl WebhookCertificate {
    /// Generates a certificate for the host `name`. `before` is the previous certificate, which stays in the
    /// CA bundle until it expires.
    pub fn generate(name: &str, before: Option<&Self>, now: Timestamp) -> Result<Self, Error> {
        let day = now.to_zoned(TimeZone::UTC).date();
        let failed = |source| Error::Certificate { source };
        let moment = |day: Date| {
            date_time_ymd(i32::from(day.year()), day.month().unsigned_abs(), day.day().unsigned_abs())
        };
        let (from, expires) = (day.saturating_sub(1.day()), day.saturating_add(VALIDITY_DAYS.days()));
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.not_before = moment(from);
        parameters.not_after = moment(expires);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = parameters.self_signed(&key).map_err(failed)?.pem();
        let previous =
            before.filter(|before| before.expires >= day).map(|before| before.certificate.as_str());
        Ok(Self {
            ca_bundle: format!("{certificate}{}", previous.unwrap_or_default()),
            certificate,
            key: key.serialize_pem(),
            expires,
        })
    }

    pub fn is_due_for_renewal(&self, now: Timestamp) -> bool {
        self.expires.saturating_sub(RENEW_BEFORE_DAYS.days()) <= now.to_zoned(TimeZone::UTC).date()
    }

    /// Reads certificate, key, CA bundle and expiry from a Secret; `None` if one of them is missing or
    /// invalid.
    pub fn from_secret(secret: &Secret) -> Option<Self> {
        let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
        let certificate = text(TLS_CERT)?;
        Some(Self {
            ca_bundle: text(CA_BUNDLE).filter(|ca_bundle| ca_bundle.contains(&certificate))?,
            certificate,
            key: text(TLS_KEY)?,
            expires: secret.metadata.annotations.as_ref()?.get(EXPIRY_ANNOTATION)?.parse().ok()?,
        })
    }

    /// Stores the certificate in the data and the expiry annotation of `secret`. Does not send it to the API
    /// server.
    pub fn write_to(&self, secret: &mut Secret) {
        let data = [(TLS_CERT, &self.certificate), (TLS_KEY, &self.key), (CA_BUNDLE, &self.ca_bundle)];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
        secret.data = Some(BTreeMap::from(data));
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(EXPIRY_ANNOTATION.to_owned(), self.expires.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_before_expiry_and_both_are_trusted_meanwhile() {
        let begin: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let after = |days: i64| begin + (days * 24).hours();
        let first = WebhookCertificate::generate("a.b.svc", None, begin).unwrap();
        assert!(!first.is_due_for_renewal(after(244)) && first.is_due_for_renewal(after(246)));
        let second = WebhookCertificate::generate("a.b.svc", Some(&first), after(246)).unwrap();
        assert!(
            second.ca_bundle.contains(&first.certificate) && second.ca_bundle.contains(&second.certificate)
        );
        let third = WebhookCertificate::generate("a.b.svc", Some(&first), after(400)).unwrap();
        assert_eq!(third.ca_bundle, third.certificate, "the first one has expired");
    }

    #[test]
    fn an_incomplete_secret_has_no_certificate() {
        let made = WebhookCertificate::generate("a.b.svc", None, Timestamp::now()).unwrap();
        let mut secret = Secret::default();
        made.write_to(&mut secret);
        assert!(WebhookCertificate::from_secret(&secret).as_ref() == Some(&made));
        for key in [TLS_CERT, TLS_KEY, CA_BUNDLE] {
            let mut broken = secret.clone();
            broken.data.as_mut().unwrap().remove(key);
            assert!(WebhookCertificate::from_secret(&broken).is_none(), "{key}");
        }
        secret.metadata.annotations = None;
        assert!(WebhookCertificate::from_secret(&secret).is_none());
    }
}
