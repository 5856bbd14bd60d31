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
const DAYS: i64 = 365;
/// How long before its end the next one is made.
const AHEAD: i64 = 120;
/// On the Secret: when the certificate ends.
const UNTIL: &str = "ferroband.io/until";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
/// All certificates that the API server is to trust.
const TRUSTED: &str = "ca.crt";

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// In PEM.
    pub certificate: String,
    /// In PEM.
    pub key: String,
    /// All that are to be trusted, in PEM; this one and the one before.
    pub trusted: String,
    /// The day it ends.
    pub until: Date,
}

impl Certificate {
    /// A new one for the host `name`, after `before`.
    pub fn make(name: &str, before: Option<&Self>, now: Timestamp) -> Result<Self, Error> {
        let day = now.to_zoned(TimeZone::UTC).date();
        let failed = |source| Error::Certificate { source };
        let moment = |day: Date| {
            date_time_ymd(i32::from(day.year()), day.month().unsigned_abs(), day.day().unsigned_abs())
        };
        let (from, until) = (day.saturating_sub(1.day()), day.saturating_add(DAYS.days()));
        let mut wanted = CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
        wanted.distinguished_name = DistinguishedName::new();
        wanted.distinguished_name.push(DnType::CommonName, name);
        wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        wanted.not_before = moment(from);
        wanted.not_after = moment(until);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = wanted.self_signed(&key).map_err(failed)?.pem();
        let still = before.filter(|before| before.until >= day).map(|before| before.certificate.as_str());
        Ok(Self {
            trusted: format!("{certificate}{}", still.unwrap_or_default()),
            certificate,
            key: key.serialize_pem(),
            until,
        })
    }

    /// Whether the next one is due.
    pub fn is_old(&self, now: Timestamp) -> bool {
        self.until.saturating_sub(AHEAD.days()) <= now.to_zoned(TimeZone::UTC).date()
    }

    /// The one in a Secret, if all of it is there.
    pub fn of(secret: &Secret) -> Option<Self> {
        let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
        let certificate = text(CERTIFICATE)?;
        Some(Self {
            trusted: text(TRUSTED).filter(|trusted| trusted.contains(&certificate))?,
            certificate,
            key: text(KEY)?,
            until: secret.metadata.annotations.as_ref()?.get(UNTIL)?.parse().ok()?,
        })
    }

    /// Into a Secret.
    pub fn put(&self, secret: &mut Secret) {
        let data = [(CERTIFICATE, &self.certificate), (KEY, &self.key), (TRUSTED, &self.trusted)];
        let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
        secret.data = Some(BTreeMap::from(data));
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(UNTIL.to_owned(), self.until.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_is_made_in_time_and_both_are_trusted_meanwhile() {
        let begin: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let after = |days: i64| begin + (days * 24).hours();
        let first = Certificate::make("a.b.svc", None, begin).unwrap();
        assert!(!first.is_old(after(244)) && first.is_old(after(246)));
        let second = Certificate::make("a.b.svc", Some(&first), after(246)).unwrap();
        assert!(second.trusted.contains(&first.certificate) && second.trusted.contains(&second.certificate));
        let third = Certificate::make("a.b.svc", Some(&first), after(400)).unwrap();
        assert_eq!(third.trusted, third.certificate, "the first one has ended");
    }

    #[test]
    fn a_secret_that_lacks_anything_holds_none() {
        let made = Certificate::make("a.b.svc", None, Timestamp::now()).unwrap();
        let mut secret = Secret::default();
        made.put(&mut secret);
        assert!(Certificate::of(&secret).as_ref() == Some(&made));
        for key in [CERTIFICATE, KEY, TRUSTED] {
            let mut broken = secret.clone();
            broken.data.as_mut().unwrap().remove(key);
            assert!(Certificate::of(&broken).is_none(), "{key}");
        }
        secret.metadata.annotations = None;
        assert!(Certificate::of(&secret).is_none());
    }
}
