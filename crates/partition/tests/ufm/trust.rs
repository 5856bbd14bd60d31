//! Who is believed to be UFM, and how we prove who we are.

use super::*;
use ferroband_testbed::ufm::{Identity, Start};
use std::process::Command;

fn serving(identity: Identity) -> Simulator {
    Simulator::start(Start { identity: Some(identity), ..Start::default() }).unwrap()
}

async fn answers(variables: &BTreeMap<String, String>) -> Result<(), String> {
    let ufm = Ufm::new(&settings(variables)).unwrap().with_patience(Duration::from_secs(5));
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
    let simulator = serving(Identity { certificate: read("ufm.crt"), key: read("plain.key") });
    answers(&simulator.variables()).await.unwrap();
}

#[tokio::test]
async fn case_09_only_the_pinned_certificate_is_believed() {
    let simulator = serving(Identity::common_name("ufm").unwrap());
    answers(&simulator.variables()).await.unwrap();
    let mut variables = simulator.variables();
    variables.insert("UFM_CERTIFICATE".to_owned(), Identity::common_name("ufm").unwrap().certificate);
    let error = answers(&variables).await.unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    assert!(simulator.calls().len() <= 2, "nothing was sent to who could not prove to be UFM");
    // Without one, the system's trust decides, and it does not know this server.
    variables.remove("UFM_CERTIFICATE");
    assert!(answers(&variables).await.is_err());
}

#[tokio::test]
async fn a_named_certificate_is_an_authority_too() {
    let simulator = serving(Identity::named(&["127.0.0.1", "localhost"]).unwrap());
    answers(&simulator.variables()).await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_instead_of_a_password() {
    let client = Identity::named(&["ferroband"]).unwrap();
    let start = Start { clients: Some(client.certificate.clone()), ..Start::default() };
    let simulator = Simulator::start(start).unwrap();
    let mut variables = simulator.variables();
    variables.remove("UFM_USERNAME");
    variables.remove("UFM_PASSWORD");
    variables.insert("UFM_CLIENT_CERTIFICATE".to_owned(), client.certificate);
    variables.insert("UFM_CLIENT_KEY".to_owned(), client.key);
    answers(&variables).await.unwrap();
}

#[tokio::test]
async fn plain_http_where_it_is_asked_for() {
    let simulator = Simulator::start(Start { identity: None, ..Start::default() }).unwrap();
    answers(&simulator.variables()).await.unwrap();
}
