use super::FaultCode;

#[test]
fn all_codes_are_listed_and_named_by_their_reason() {
    let all = FaultCode::ALL;
    assert_eq!(all.first(), Some(&FaultCode::BadCall));
    assert!(all.contains(&FaultCode::DeviceBusy) && all.len() >= 23, "{all:?}");
    for code in all {
        assert_eq!(FaultCode::from_name(code.reason()), Some(code), "reason and name differ");
        assert_eq!(serde_json::to_value(code).unwrap(), code.reason(), "in JSON");
    }
    assert_eq!(FaultCode::from_name("NoSuchCode"), None);
}

/// The codes of the CNI specification 1.1.0, section "Error". containerd shows them, and 11 means that the
/// runtime may try again later.
#[test]
fn cni_codes_are_those_of_the_specification() {
    for (code, number) in [
        (FaultCode::IncompatibleVersion, 1),
        (FaultCode::BadCall, 4),
        (FaultCode::Journal, 5),
        (FaultCode::Undecodable, 6),
        (FaultCode::InvalidConfig, 7),
        (FaultCode::BadNamespace, 8),
    ] {
        assert_eq!((code.cni_code(), code.is_retried()), (number, false), "{code:?}");
    }
    for code in [FaultCode::DaemonAway, FaultCode::AddressHeld, FaultCode::DeviceBusy] {
        assert_eq!((code.cni_code(), code.is_retried()), (11, true), "{code:?}");
    }
    assert!(!FaultCode::PoolExhausted.is_retried());
}

#[test]
fn code_is_found_in_the_words_of_other_programs() {
    let kubelet = "Failed to create pod sandbox: rpc error: plugin type=\"ferroband\" failed (add): network a/b: \
                   values [1] and [2]; correct the field [InvalidConfig]";
    assert_eq!(FaultCode::find_in(kubelet), Some(FaultCode::InvalidConfig));
    assert_eq!(FaultCode::find_in("[DaemonAway]: again"), Some(FaultCode::DaemonAway));
    assert_eq!(FaultCode::find_in("[NoParent] [Unknown]"), Some(FaultCode::NoParent));
    for text in ["", "[", "]", "[]", "NoParent", "[NoParent", "no [code] here"] {
        assert_eq!(FaultCode::find_in(text), None, "{text}");
    }
}

#[test]
fn own_cni_codes_are_unique() {
    let mut codes: Vec<u32> =
        FaultCode::ALL.into_iter().map(FaultCode::cni_code).filter(|n| *n >= 100).collect();
    let count = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), count, "two codes share a number");
}
