//! Connection settings of UFM: the variables of ib-kubernetes and a few extensions.

use crate::SettingError;
use std::fmt;

/// Address and credentials of UFM.
#[derive(Clone, PartialEq)]
pub struct UfmClientSettings {
    /// `http` or `https`.
    pub schema: &'static str,
    /// Host name or IP address of the UFM server.
    pub address: String,
    /// TCP port. The default is 443 for https and 80 for http.
    pub port: u16,
    pub login: UfmLogin,
    /// Trusted certificates in PEM format: UFM's own (pinned) or that of its CA. If absent, the system's
    /// roots are trusted.
    pub certificate: Option<String>,
}

/// How the client authenticates to UFM.
#[derive(Clone, PartialEq)]
pub enum UfmLogin {
    /// HTTP basic authentication with `UFM_USERNAME` and `UFM_PASSWORD`.
    Basic {
        /// Value of `UFM_USERNAME` or `UFM_USER`.
        user: String,
        password: String,
    },
    /// Access token of UFM's REST API (`UFM_TOKEN`).
    Token(String),
    /// TLS client certificate (`UFM_CLIENT_CERTIFICATE` and `UFM_CLIENT_KEY`, in PEM format).
    Certificate {
        /// Certificate of the client, with its chain.
        chain: String,
        /// Private key of the certificate.
        key: String,
    },
}

impl UfmClientSettings {
    /// Parses the settings. `of` returns the value of a variable. An empty value counts as unset.
    pub fn read(of: impl Fn(&str) -> Option<String>) -> Result<Self, SettingError> {
        let of = |name: &str| of(name).filter(|value| !value.trim().is_empty());
        let schema = match of("UFM_HTTP_SCHEMA").map(|schema| schema.to_lowercase()).as_deref() {
            None | Some("https") => "https",
            Some("http") => "http",
            Some(other) => {
                let expected = "http or https";
                return Err(SettingError::Value {
                    name: "UFM_HTTP_SCHEMA",
                    value: other.to_owned(),
                    expected,
                });
            }
        };
        let port = match of("UFM_PORT") {
            None => {
                if schema == "https" {
                    443
                } else {
                    80
                }
            }
            Some(text) => text.trim().parse().map_err(|_| SettingError::Value {
                name: "UFM_PORT",
                value: text.clone(),
                expected: "a port number",
            })?,
        };
        let address = of("UFM_ADDRESS");
        let login = match (of("UFM_TOKEN"), of("UFM_CLIENT_CERTIFICATE"), of("UFM_CLIENT_KEY")) {
            (Some(token), _, _) => Some(UfmLogin::Token(token)),
            (None, Some(chain), Some(key)) => Some(UfmLogin::Certificate { chain, key }),
            (None, ..) => {
                // ib-kubernetes reads UFM_USERNAME, but some documentation says UFM_USER.
                let user = of("UFM_USERNAME").or_else(|| of("UFM_USER"));
                user.zip(of("UFM_PASSWORD")).map(|(user, password)| UfmLogin::Basic { user, password })
            }
        };
        let (Some(address), Some(login)) = (address, login) else {
            return Err(SettingError::Missing { names: vec!["UFM_USERNAME", "UFM_PASSWORD", "UFM_ADDRESS"] });
        };
        let settings = Self { schema, address, port, login, certificate: of("UFM_CERTIFICATE") };
        super::tls::check(&settings)?;
        Ok(settings)
    }

    /// Path prefix of the REST API: `/ufmRestV3` with a token, otherwise `/ufmRest`.
    pub fn path_prefix(&self) -> &'static str {
        match self.login {
            UfmLogin::Token(_) => "/ufmRestV3",
            _ => "/ufmRest",
        }
    }
}

/// Omits all secrets, because the settings are logged.
impl fmt::Debug for UfmClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = match &self.login {
            UfmLogin::Basic { user, .. } => format!("user {user}"),
            UfmLogin::Token(_) => "token".to_owned(),
            UfmLogin::Certificate { .. } => "client certificate".to_owned(),
        };
        let trust = if self.certificate.is_some() { "UFM_CERTIFICATE" } else { "the system" };
        write!(f, "{}://{}:{} as {login}, trusting {trust}", self.schema, self.address, self.port)
    }
}

impl fmt::Debug for UfmLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<UfmClientSettings, SettingError> {
        UfmClientSettings::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const LOGIN: [(&str, &str); 3] =
        [("UFM_USERNAME", "admin"), ("UFM_PASSWORD", "hunter2"), ("UFM_ADDRESS", "172.16.10.10")];

    fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        LOGIN.iter().copied().chain(more.iter().copied()).collect()
    }

    // Case: partitions 5
    #[test]
    fn missing_variables_are_listed() {
        let text = read(&LOGIN[..2]).unwrap_err().to_string();
        for name in ["UFM_USERNAME", "UFM_PASSWORD", "UFM_ADDRESS"] {
            assert!(text.contains(name), "{text}");
        }
    }

    // Case: partitions 6
    #[test]
    fn ufm_user_is_accepted_as_user_name() {
        let settings =
            read(&[("UFM_USER", "admin"), ("UFM_PASSWORD", "12345"), ("UFM_ADDRESS", "172.16.10.10")]);
        assert_eq!(
            settings.unwrap().login,
            UfmLogin::Basic { user: "admin".into(), password: "12345".into() }
        );
    }

    // Case: partitions 7, partitions 8
    #[test]
    fn schema_and_port_have_defaults() {
        assert_eq!(read(&LOGIN).unwrap().port, 443);
        let plain = read(&with(&[("UFM_HTTP_SCHEMA", "HTTP")])).unwrap();
        assert_eq!((plain.schema, plain.port), ("http", 80));
        assert_eq!(read(&with(&[("UFM_PORT", "")])).unwrap().port, 443);
        assert_eq!(read(&with(&[("UFM_PORT", "8443")])).unwrap().port, 8443);
        for wrong in [("UFM_PORT", "70000"), ("UFM_PORT", "x"), ("UFM_HTTP_SCHEMA", "gopher")] {
            assert!(read(&with(&[wrong])).is_err());
        }
    }

    // Case: partitions 9
    #[test]
    fn invalid_certificate_is_rejected() {
        let error = read(&with(&[("UFM_CERTIFICATE", "c2VjcmV0")])).unwrap_err();
        assert!(matches!(error, SettingError::Certificate { name: "UFM_CERTIFICATE", .. }));
        assert!(!error.to_string().contains("c2VjcmV0"));
    }

    // Case: partitions 82
    #[test]
    fn debug_output_contains_no_secrets() {
        for more in [("UFM_TOKEN", "hunter2"), ("UFM_PORT", "1")] {
            let settings = read(&with(&[more])).unwrap();
            assert!(!format!("{settings:?} {:?}", settings.login).contains("hunter2"));
        }
    }

    // Case: partitions 52
    #[test]
    fn token_uses_rest_version_3() {
        assert_eq!(read(&with(&[("UFM_TOKEN", "t")])).unwrap().path_prefix(), "/ufmRestV3");
        assert_eq!(read(&LOGIN).unwrap().path_prefix(), "/ufmRest");
    }
}
