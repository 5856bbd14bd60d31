//! Who is believed to be UFM, and how we prove who we are.

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

/// Seed 003, letter by letter: the address stands in single quotes, so that the certificate names no host.
#[tokio::test]
async fn the_certificate_of_the_documents_own_command() {
    let folder = tempfile::tempdir().unwrap();
    let line = "UFM_ADDRESS=172.16.10.10; openssl req -x509 -newkey rsa:4096 -keyout ufm.key -out ufm.crt -days 365 -subj '/CN=${UFM_ADDRESS}' -passout pass:test";
    // The document's command asks for a passphrase; here it is given, and taken off again for the server.
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

#[tokio::test]
async fn case_09_only_the_pinned_certificate_is_believed() {
    let simulator = start_with_identity(TlsIdentity::with_common_name("ufm").unwrap());
    try_observe(&simulator.client_env()).await.unwrap();
    let mut variables = simulator.client_env();
    variables.insert("UFM_CERTIFICATE".to_owned(), TlsIdentity::with_common_name("ufm").unwrap().certificate);
    let error = try_observe(&variables).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    assert!(simulator.calls().len() <= 2, "nothing was sent to who could not prove to be UFM");
    // Without one, the system's trust decides, and it does not know this server.
    variables.remove("UFM_CERTIFICATE");
    assert!(try_observe(&variables).await.is_err());
}

#[tokio::test]
async fn a_named_certificate_is_an_authority_too() {
    let simulator = start_with_identity(TlsIdentity::with_names(&["127.0.0.1", "localhost"]).unwrap());
    try_observe(&simulator.client_env()).await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_instead_of_a_password() {
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
async fn plain_http_where_it_is_asked_for() {
    let simulator =
        UfmSimulator::start(UfmSimulatorOptions { identity: None, ..UfmSimulatorOptions::default() })
            .unwrap();
    try_observe(&simulator.client_env()).await.unwrap();
}
