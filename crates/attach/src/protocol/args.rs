//! `CNI_ARGS`: key-value pairs of the runtime, among them the pod's name.

use crate::protocol::Error;
use ferroband_model::PodRef;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Keys that runtimes and meta plugins send to all plugins.
const KNOWN: [&str; 8] = [
    "IgnoreUnknown",
    "K8S_POD_NAMESPACE",
    "K8S_POD_NAME",
    "K8S_POD_UID",
    "K8S_POD_INFRA_CONTAINER_ID",
    "IP",
    "MAC",
    "GATEWAY",
];

/// Parse the pod's namespace and name. Returns `None` if `CNI_ARGS` names no pod, because not every caller is
/// Kubernetes.
///
/// A pair without `=` is an error, and so is an unknown key unless `IgnoreUnknown` is set. A value may contain `=`.
pub fn parse_pod(args: &str) -> Result<Option<PodRef>, Error> {
    let mut pairs = Vec::new();
    for pair in args.split(';').filter(|pair| !pair.is_empty()) {
        let malformed = || Error::MalformedArgument { pair: pair.to_owned() };
        pairs.push(pair.split_once('=').ok_or_else(malformed)?);
    }
    // If a key occurs twice, use the first value. It is the runtime's, because meta plugins append their
    // pairs.
    let value = |key: &str| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);

    let ignore = value("IgnoreUnknown").unwrap_or("false");
    let ignore = ignore == "1" || ignore.eq_ignore_ascii_case("true");
    if let Some((key, _)) = pairs.iter().find(|(key, _)| !ignore && !KNOWN.contains(key)) {
        return Err(Error::UnknownArgument { key: (*key).to_owned() });
    }
    let part = |key| value(key).unwrap_or_default().to_owned();
    let pod =
        PodRef { namespace: part("K8S_POD_NAMESPACE"), name: part("K8S_POD_NAME"), uid: part("K8S_POD_UID") };
    Ok(Some(pod).filter(|pod| !pod.namespace.is_empty() && !pod.name.is_empty()))
}

/// Return the addresses in `IP`, a comma-separated list. Only the first `IP` counts, as in [`parse_pod`].
pub fn requested_ips(args: &str) -> Vec<String> {
    let list = args.split(';').find_map(|pair| pair.strip_prefix("IP=")).unwrap_or_default();
    list.split(',').map(str::trim).filter(|ip| !ip.is_empty()).map(str::to_owned).collect()
}

/// Append `more`, the additional pairs of one attachment, to `args`, which has the format of `CNI_ARGS`.
pub fn append<'a>(args: &'a str, more: &BTreeMap<String, String>) -> Cow<'a, str> {
    if more.is_empty() {
        return Cow::Borrowed(args);
    }
    let existing = args.split(';').filter(|pair| !pair.is_empty()).map(str::to_owned);
    let added = more.iter().map(|(key, value)| format!("{key}={value}"));
    Cow::Owned(existing.chain(added).collect::<Vec<_>>().join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_an_attachment_are_appended() {
        assert_eq!(append("A=1;", &BTreeMap::new()), "A=1;");
        let more = BTreeMap::from([("IP".to_owned(), "10.0.0.1/24".to_owned())]);
        assert_eq!(append("A=1;", &more), "A=1;IP=10.0.0.1/24");
        assert_eq!(append("", &more), "IP=10.0.0.1/24");
        assert_eq!(requested_ips("A=1;IP=10.0.0.1/24, fd00::1;IP=10.9.9.9"), ["10.0.0.1/24", "fd00::1"]);
        assert_eq!(requested_ips("K8S_POD_IP=10.0.0.1;IP="), Vec::<String>::new());
    }

    #[test]
    fn the_pod_is_parsed_from_the_runtimes_args() {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=ipoib-test;\
                    K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1";
        let expected = PodRef { namespace: "default".into(), name: "ipoib-test".into(), uid: "u-1".into() };
        assert_eq!(parse_pod(args).unwrap(), Some(expected));
        assert_eq!(parse_pod("").unwrap(), None);
        for incomplete in ["K8S_POD_NAMESPACE=default", "K8S_POD_NAME=ipoib-test", "K8S_POD_UID=u-1"] {
            assert_eq!(parse_pod(incomplete).unwrap(), None, "{incomplete}");
        }
    }

    // Case: cni 16
    #[test]
    fn unknown_keys_and_malformed_pairs_are_errors() {
        assert!(matches!(parse_pod("A=1"), Err(Error::UnknownArgument { key }) if key == "A"));
        assert_eq!(parse_pod("IgnoreUnknown=1;A=1").unwrap(), None);
        assert_eq!(parse_pod("IgnoreUnknown=TRUE;BLAH=foo=bar;").unwrap(), None);
        assert!(
            matches!(parse_pod("IgnoreUnknown=1;A"), Err(Error::MalformedArgument { pair }) if pair == "A")
        );
    }
}
