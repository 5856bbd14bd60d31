use super::*;
use crate::protocol::{CniCommand, ConfigError, PluginError};
use std::path::PathBuf;

fn reported(code: FaultCode) -> Error {
    Error::Reported(Fault::new(code, "what", "cause", "remedy"))
}

fn plugin(code: u32) -> Error {
    let reply = PluginError { code, msg: "m".to_owned(), details: "d".to_owned() };
    Error::Plugin { plugin: "bridge".to_owned(), command: CniCommand::Add, reply }
}

fn no_master() -> Error {
    ConfigError::NoMaster.into()
}

#[test]
fn temporary_failures_have_the_code_for_try_again_later() {
    let locked = Error::Locked { path: PathBuf::from("/run/lock") };
    for error in [reported(FaultCode::PodNotFound), locked, Error::Interrupted] {
        assert_eq!(error.code(), 11, "{error}");
    }
    assert_eq!(reported(FaultCode::NoNetworkFound).code(), FaultCode::NoNetworkFound.cni_code());
    assert_eq!(no_master().code(), 7);
    assert_eq!(Error::EmptyContainer.code(), 3);
    assert_eq!(Error::NotAttached { container: "c".to_owned() }.code(), 3);
}

// CNI specification 1.1.0, STATUS: 50 and 51 mean that ADD cannot be served.
#[test]
fn status_and_try_again_codes_of_a_delegate_are_passed_on() {
    for code in [11, 50, 51] {
        assert_eq!(plugin(code).code(), code);
    }
    for code in [0, 7, 49, 52, 100] {
        assert_eq!(plugin(code).code(), FaultCode::PluginFailed.cni_code(), "{code}");
    }
    assert_eq!(Error::NotReady { source: Box::new(no_master()) }.code(), 50);
}

#[test]
fn network_and_list_keep_the_code_of_the_first_error() {
    assert_eq!(plugin(11).on_network("a").code(), 11);
    let multiple = |errors| Error::Multiple { errors };
    assert_eq!(multiple(vec![plugin(51), no_master()]).code(), 51);
    assert_eq!(multiple(vec![no_master(), plugin(51)]).code(), 7);
    assert_eq!(multiple(Vec::new()).code(), FaultCode::Journal.cni_code());
}

#[test]
fn errors_are_combined_only_if_there_are_several() {
    assert!(Error::combine(Vec::new()).is_ok());
    assert!(matches!(Error::combine(vec![no_master()]), Err(Error::Config(ConfigError::NoMaster))));
    let both = Error::combine(vec![no_master(), ConfigError::NoDeviceId.into()]);
    assert!(matches!(both, Err(Error::Multiple { errors }) if errors.len() == 2));
}

#[test]
fn fault_of_several_errors_names_all_causes() {
    let fault =
        Error::Multiple { errors: vec![no_master(), Error::from(ConfigError::Dhcp).on_network("b")] }.fault();
    assert_eq!(fault.code, FaultCode::InvalidConfig);
    for text in ["`master` is not set", "network b", "dhcp"] {
        assert!(fault.to_string().contains(text), "{fault}");
    }
}

#[test]
fn only_unusable_state_files_are_damaged_state() {
    let path = || PathBuf::from("/run/c.json");
    assert!(Error::UnknownSchema { path: path(), schema: 99 }.is_damaged_state());
    assert!(Error::Inconsistent { path: path() }.is_damaged_state());
    let source = std::io::Error::other("EIO");
    assert!(!Error::File { path: path(), doing: "read", source }.is_damaged_state());
    assert!(!Error::Locked { path: path() }.is_damaged_state());
}

#[test]
fn rdma_isolation_on_a_shared_node_advises_the_rdma_mode_of_the_pool() {
    let remedy = Error::SharedRdma.fault().remedy;
    assert!(
        remedy.contains("`rdmaMode: exclusive`") && remedy.contains("SriovNetworkPoolConfig"),
        "{remedy}"
    );
}
