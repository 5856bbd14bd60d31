//! `CNI_ARGS`: pairs of words that the runtime adds to a call, among them which pod it is for.

use crate::Error;
use ferroband_model::PodRef;

/// Keys that the runtimes and meta plugins of today send to everybody.
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

/// The pod that `CNI_ARGS` names. `None` when it names none: not every caller is Kubernetes.
///
/// A pair without `=` is an error; so is an unknown key, unless `IgnoreUnknown` is set. A value may contain `=`.
pub fn pod(args: &str) -> Result<Option<PodRef>, Error> {
    let mut pairs = Vec::new();
    for pair in args.split(';').filter(|pair| !pair.is_empty()) {
        let malformed = || Error::Argument { pair: pair.to_owned() };
        pairs.push(pair.split_once('=').ok_or_else(malformed)?);
    }
    // The first of equal keys is the runtime's own; a meta plugin appends.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kubelet_runtime_sends() {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=ipoib-test;\
                    K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1";
        let expected = PodRef { namespace: "default".into(), name: "ipoib-test".into(), uid: "u-1".into() };
        assert_eq!(pod(args).unwrap(), Some(expected));
        assert_eq!(pod("").unwrap(), None);
    }

    #[test]
    fn case_16_unknown_and_malformed_pairs() {
        assert!(matches!(pod("A=1"), Err(Error::UnknownArgument { key }) if key == "A"));
        assert_eq!(pod("IgnoreUnknown=1;A=1").unwrap(), None);
        assert_eq!(pod("IgnoreUnknown=TRUE;BLAH=foo=bar;").unwrap(), None);
        assert!(matches!(pod("IgnoreUnknown=1;A"), Err(Error::Argument { pair }) if pair == "A"));
    }
}
