//! Tests of TLS trust and client authentication.

use super::*;
use ferroband_testbed::ufm::{TlsIdentity, UfmSimulatorOptions};
use std::process::Command;

fn start_with_identity(identity: TlsIdentity) -> UfmSimulator {
    UfmSimulator::start(UfmSimulatorOptions { identity: Some(identity), ..UfmSimulatorOptions::default() })
        .unwrap()
}

async fn try_observe(variables: &BTreeMap<String, String>) -> Result<(), String> {
    let ufm = Ufm::new(&settings(variables)).unwrap().with_timeout(Duration::from_secs(5));
    ufm.observe().await.map(drop).map_err(|error| error.to_string())
}

/// Creates the certificate with the exact command of UFM's documentation. Its single quotes prevent the
/// expansion of `${UFM_ADDRESS}`, so the certificate names no host.
#[tokio::test]
async fn certificate_from_the_documented_command_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let line = "UFM_ADDRESS=172.16.10.10; openssl req -x509 -newkey rsa:4096 -keyout ufm.key -out ufm.crt -days 365 -subj '/CN=${UFM_ADDRESS}' -passout pass:test";
    // The documented command asks for a passphrase. The test passes one, and removes it again for the server.
    let made = Command::new("sh")
        .args(["-c", &format!("{line} && openssl rsa -in ufm.key -passin pass:test -out plain.key")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let simulator = start_with_identity(TlsIdentity { certificate: read("ufm.crt"), key: read("plain.key") });
    try_observe(&simulator.client_env()).await.unwrap();
}

// Case: partitions 9
#[tokio::test]
async fn only_the_pinned_certificate_is_accepted() {
    let simulator = start_with_identity(TlsIdentity::with_common_name("ufm").unwrap());
    try_observe(&simulator.client_env()).await.unwrap();
    let mut variables = simulator.client_env();
    variables.insert("UFM_CERTIFICATE".to_owned(), TlsIdentity::with_common_name("ufm").unwrap().certificate);
    let error = try_observe(&variables).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    assert!(simulator.calls().len() <= 2, "no request was sent to an untrusted server");
    // Without a configured certificate, the system's roots apply. They do not include this server's
    // certificate.
    variables.remove("UFM_CERTIFICATE");
    assert!(try_observe(&variables).await.is_err());
}

#[tokio::test]
async fn certificate_with_a_host_name_is_accepted() {
    let simulator = start_with_identity(TlsIdentity::with_names(&["127.0.0.1", "localhost"]).unwrap());
    try_observe(&simulator.client_env()).await.unwrap();
}

#[tokio::test]
async fn client_certificate_replaces_the_password() {
    let client = TlsIdentity::with_names(&["ferroband"]).unwrap();
    let start = UfmSimulatorOptions {
        client_certificates: Some(client.certificate.clone()),
        ..UfmSimulatorOptions::default()
    };
    let simulator = UfmSimulator::start(start).unwrap();
    let mut variables = simulator.client_env();
    variables.remove("UFM_USERNAME");
    variables.remove("UFM_PASSWORD");
    variables.insert("UFM_CLIENT_CERTIFICATE".to_owned(), client.certificate);
    variables.insert("UFM_CLIENT_KEY".to_owned(), client.key);
    try_observe(&variables).await.unwrap();
}

#[tokio::test]
async fn plain_http_is_used_if_configured() {
    let simulator =
        UfmSimulator::start(UfmSimulatorOptions { identity: None, ..UfmSimulatorOptions::default() })
            .unwrap();
    try_observe(&simulator.client_env()).await.unwrap();
}
