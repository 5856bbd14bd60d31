//! Tests of responses of UFM that the simulated UFM does not give: races, and versions that differ.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ferroband_model::Guid;
use ferroband_partition::ufm::Ufm;
use ferroband_partition::{
    Error, Membership, MembershipTable, PartitionBatch, PartitionChange, PartitionSettings, RequestedPKey,
    SmPlugin, SubnetManager,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A UFM that gives these responses, one per connection, and records the requests as `METHOD path`.
struct ScriptedUfm {
    client: Ufm,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedUfm {
    async fn start(responses: &[(u16, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (record, mut responses) = (requests.clone(), owned(responses).into_iter());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (status, body) = responses.next().unwrap_or((599, "the script has ended".to_owned()));
                let request = respond(stream, status, &body).await;
                record.lock().unwrap().push(request);
            }
        });
        let settings = PartitionSettings::read(|name| {
            let value = match name {
                "DAEMON_SM_PLUGIN" => "ufm",
                "UFM_HTTP_SCHEMA" => "http",
                "UFM_ADDRESS" => "127.0.0.1",
                "UFM_PORT" => &port,
                "UFM_USERNAME" | "UFM_PASSWORD" => "admin",
                _ => return None,
            };
            Some(value.to_owned())
        });
        let SmPlugin::Ufm(settings) = settings.unwrap().plugin else { panic!("not UFM") };
        Self { client: Ufm::new(&settings).unwrap(), requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    async fn apply(&self, change: PartitionChange) -> Result<(), Error> {
        let changes = BTreeMap::from([(RequestedPKey::new(5).unwrap(), change)]);
        let desired = Arc::new(MembershipTable::default());
        self.client.apply(PartitionBatch { changes, desired }).await
    }
}

fn owned(responses: &[(u16, &str)]) -> Vec<(u16, String)> {
    responses.iter().map(|(status, body)| (*status, (*body).to_owned())).collect()
}

/// Reads one HTTP request, answers it and closes the connection.
async fn respond(mut stream: TcpStream, status: u16, body: &str) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, received)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            if received.len() >= length.unwrap_or(0) {
                let length = body.len();
                let reply = format!(
                    "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                stream.write_all(reply.as_bytes()).await.unwrap();
                let words: Vec<&str> = head.split(' ').take(2).collect();
                return words.join(" ").replace("/ufmRest", "");
            }
        }
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the request ended early: {text}");
        bytes.extend(&buffer[..count]);
    }
}

fn guid(last: u64) -> Guid {
    Guid::new(0x0200_0000_0000_0000 + last)
}

#[tokio::test]
async fn partition_that_exists_meanwhile_is_not_an_error() {
    for (status, body, succeeds) in [
        (200, "{}", true),
        (201, "{}", true),
        (409, "conflict", true),
        (400, "pkey 0x0005 already exists", true),
        (400, "bad request", false),
        (404, "does not exist", false),
        (500, "exists", false),
    ] {
        // UFM does not create the partition with its first member, and another client creates it.
        let ufm = ScriptedUfm::start(&[(404, "no such pkey"), (status, body), (200, "{}")]).await;
        let add = BTreeMap::from([(guid(1), Membership::Full)]);
        let outcome = ufm.apply(PartitionChange { add, ..PartitionChange::default() }).await;
        assert_eq!(outcome.is_ok(), succeeds, "{status} {body}: {outcome:?}");
        let requests = ["POST /resources/pkeys", "POST /resources/pkeys/add", "POST /resources/pkeys"];
        assert_eq!(ufm.requests(), requests[..if succeeds { 3 } else { 2 }], "{status} {body}");
    }
}

#[tokio::test]
async fn failed_removal_succeeds_if_no_member_remains() {
    let remaining = r#"{"guids": [{"guid": "0200000000000001"}]}"#;
    let other = r#"{"guids": [{"guid": "0200000000000002"}]}"#;
    for (refusal, listed, succeeds) in [
        (404, Some((404, "")), true),
        (400, Some((200, "{}")), true),
        (400, Some((200, other)), true),
        (404, Some((200, remaining)), false),
        (404, Some((500, other)), false),
        (500, None, false),
        (403, None, false),
    ] {
        let script = [Some((405, "")), Some((refusal, "refused")), listed];
        let script: Vec<_> = script.into_iter().flatten().collect();
        let ufm = ScriptedUfm::start(&script).await;
        let change = PartitionChange { remove: [guid(1)].into(), ..PartitionChange::default() };
        let outcome = ufm.apply(change).await;
        assert_eq!(outcome.is_ok(), succeeds, "{script:?}: {outcome:?}");
        assert_eq!(ufm.requests().len(), script.len(), "{:?}", ufm.requests());
    }
}

#[tokio::test]
async fn list_needs_partitions_but_not_the_configuration() {
    let secrets = r#"{"m_key": "0x0"}"#;
    for (configuration, expected) in [((200, secrets), 1), ((404, secrets), 0), ((200, "[]"), 0)] {
        let report = ScriptedUfm::start(&[(200, "{}"), configuration]).await.client.observe().await.unwrap();
        assert_eq!(report.default_secrets.len(), expected, "{configuration:?}");
        assert_eq!((report.virtualization, report.members.len()), (Some(true), 0));
    }
    for (status, body) in [(500, "{}"), (302, "{}"), (200, "[]"), (200, "<html>")] {
        let outcome = ScriptedUfm::start(&[(status, body)]).await.client.observe().await;
        assert!(outcome.is_err(), "{status} {body}");
    }
}

#[tokio::test]
async fn name_says_where_ufm_is() {
    let ufm = ScriptedUfm::start(&[]).await;
    let name = ufm.client.name();
    assert!(name.starts_with("ufm http://127.0.0.1"), "{name}");
}

#[tokio::test]
async fn a_connection_without_tls_causes_a_warning() {
    let ufm = ScriptedUfm::start(&[(200, r#"{"0x7fff": {}}"#), (404, "{}")]).await;
    let report = ufm.client.observe().await.unwrap();
    assert!(report.warnings.iter().any(|text| text.contains("UFM_HTTP_SCHEMA")), "{:?}", report.warnings);
}
