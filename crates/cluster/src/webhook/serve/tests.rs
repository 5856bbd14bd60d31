//! A flood of connections and requests of any content over TLS, while another client is answered.

use super::super::{certificate::WebhookCertificate, limits::MAX_BODY_BYTES};
use super::*;
use crate::{ClusterSettings, ControllerContext, networks::NetworkCaches};
use ferroband_testbed::fake_api::FakeApi;
use kube::runtime::watcher::Event;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio_rustls::{TlsConnector, client::TlsStream};

const NAME: &str = "ferroband-webhook.ferroband-system.svc";

/// A running server with empty caches.
struct ServerFixture {
    address: SocketAddr,
    connector: TlsConnector,
    stop: CancellationToken,
    server: tokio::task::JoinHandle<Result<(), Error>>,
}

impl ServerFixture {
    async fn start() -> Self {
        let certificate = WebhookCertificate::generate(NAME, None, jiff::Timestamp::now()).unwrap();
        let caches = NetworkCaches::default();
        caches.definitions.apply(Event::InitDone);
        caches.spider_configs.apply(Event::InitDone);
        caches.namespace_groups.apply(Event::InitDone);
        let controller = ControllerContext::new(FakeApi::default().client(), ClusterSettings::for_test());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(
            listener,
            Arc::new(ServingCertificate::for_test(&certificate)),
            Arc::new(WebhookContext::new(&controller, &caches)),
            stop.clone(),
        ));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.certificate.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address, connector: TlsConnector::from(Arc::new(config)), stop, server }
    }

    /// Opens a TCP connection from the address 127.0.0.`source`.
    async fn connect(&self, source: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 0, source), 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    async fn connect_tls(&self, source: u8) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = self.connect(source).await;
        self.connector.connect(ServerName::try_from(NAME).unwrap(), stream).await
    }

    /// Sends a request with this body and returns the response with its header.
    async fn post(&self, source: u8, body: &[u8]) -> std::io::Result<String> {
        let mut stream = self.connect_tls(source).await?;
        let head = request_head(body.len());
        stream.write_all(head.as_bytes()).await?;
        // The server may answer before it has read all.
        let _ = stream.write_all(body).await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        Ok(String::from_utf8_lossy(&response).into_owned())
    }
}

fn request_head(length: usize) -> String {
    format!("POST /pods HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n")
}

fn review() -> Vec<u8> {
    br#"{"request":{"uid":"u","kind":{"kind":"Pod"},"namespace":"d","object":{}}}"#.to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_requests_does_not_keep_others_from_being_answered() {
    let fixture = ServerFixture::start().await;
    assert!(fixture.post(2, &review()).await.unwrap().contains("\"allowed\":true"));

    // One attacker opens more connections than it may have and sends nothing, or an incomplete request.
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(fixture.connect(1).await);
    }
    // Another one announces large bodies and sends them slowly.
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = fixture.connect_tls(3).await.unwrap();
        stream.write_all(request_head(MAX_BODY_BYTES).as_bytes()).await.unwrap();
        stream.write_all(b"{").await.unwrap();
        slow.push(stream);
    }
    let started = tokio::time::Instant::now();
    let answer = fixture.post(2, &review()).await.unwrap();
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());

    // Bodies of any content and size are answered, and the server goes on.
    for (body, status) in [
        (vec![b'['; 1 << 20], "400"),
        (vec![b'x'; MAX_BODY_BYTES + 1], "400"),
        (br#"{"request":{"uid":"u","kind":{"kind":"Pod"},"object":{"spec":{"containers":[{"resources":{"limits":"x"}}]}}}}"#.to_vec(), "200"),
    ] {
        let answer = fixture.post(4, &body).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    assert!(fixture.post(2, &review()).await.unwrap().contains("\"allowed\":true"));
    assert!(!fixture.server.is_finished());
    fixture.stop.cancel();
    fixture.server.await.unwrap().unwrap();
}
