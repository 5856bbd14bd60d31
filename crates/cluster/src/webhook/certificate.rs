//! The certificate that the webhook shows: made here, trusted by the API server because the configuration says so.
//!
//! It signs itself: no key lies about that could sign anything else. When a new one is made, the API server is told to
//! trust both, then the replicas change over.

use crate::Error;
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use std::collections::BTreeMap;

/// How long one lasts.
const VALIDITY_DAYS: i64 = 365;
/// How long before its end the next one is made.
const RENEW_BEFORE_DAYS: i64 = 120;
/// On the Secret: when the certificate ends.
const EXPIRY_ANNOTATION: &str = "ferroband.io/until";
const TLS_CERT: &str = "tls.crt";
const TLS_KEY: &str = "tls.key";
/// All certificates that the API server is to trust.
const CA_BUNDLE: &str = "ca.crt";

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookCertificate {
    /// In PEM.
    pub certificate: String,
    /// In PEM.
    pub key: String,
    /// All that are to be trusted, in PEM; this one and the one before.
    pub ca_bundle: String,
    /// The day it ends.
    pub expires: Date,
}

impl WebhookCertificate {
    /// A new one for the host `name`, after `before`.
    pub fn generate(name: &str, before: Option<&Self>, now: Timestamp) -> Result<Self, Error> {
        let day = now.to_zoned(TimeZone::UTC).date();
        let failed = |source| Error::Certificate { source };
        let moment = |day: Date| {
            date_time_ymd(i32::from(day.year()), day.month().unsigned_abs(), day.day().unsigned_abs())
        };
        let (from, until) = (day.saturating_sub(1.day()), day.saturating_add(VALIDITY_DAYS.days()));
        let mut wanted = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        wanted.distinguished_name = DistinguishedName::new();
        wanted.distinguished_name.push(DnType::CommonName, name);
        wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        wanted.not_before = moment(from);
        wanted.not_after = moment(until);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = wanted.self_signed(&key).map_err(failed)?.pem();
        let still = before.filter(|before| before.expires >= day).map(|before| before.certificate.as_str());
        Ok(Self {
            ca_bundle: format!("{certificate}{}", still.unwrap_or_default()),
            certificate,
            key: key.serialize_pem(),
            expires: until,
        })
    }

    /// Whether the next one is due.
    pub fn is_due_for_renewal(&self, now: Timestamp) -> bool {
        self.expires.saturating_sub(RENEW_BEFORE_DAYS.days()) <= now.to_zoned(TimeZone::UTC).date()
    }

    /// The one in a Secret, if all of it is there.
    pub fn from_secret(secret: &Secret) -> Option<Self> {
        let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
        let certificate = text(TLS_CERT)?;
        Some(Self {
            ca_bundle: text(CA_BUNDLE).filter(|trusted| trusted.contains(&certificate))?,
            certificate,
            key: text(TLS_KEY)?,
            expires: secret.metadata.annotations.as_ref()?.get(EXPIRY_ANNOTATION)?.parse().ok()?,
        })
    }

    /// Into a Secret.
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
    fn the_next_one_is_made_in_time_and_both_are_trusted_meanwhile() {
        let begin: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let after = |days: i64| begin + (days * 24).hours();
        let first = WebhookCertificate::generate("a.b.svc", None, begin).unwrap();
        assert!(!first.is_due_for_renewal(after(244)) && first.is_due_for_renewal(after(246)));
        let second = WebhookCertificate::generate("a.b.svc", Some(&first), after(246)).unwrap();
        assert!(
            second.ca_bundle.contains(&first.certificate) && second.ca_bundle.contains(&second.certificate)
        );
        let third = WebhookCertificate::generate("a.b.svc", Some(&first), after(400)).unwrap();
        assert_eq!(third.ca_bundle, third.certificate, "the first one has ended");
    }

    #[test]
    fn a_secret_that_lacks_anything_holds_none() {
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
