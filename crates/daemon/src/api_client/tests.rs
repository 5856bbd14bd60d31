use super::*;
use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn, service::service_fn};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::json;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{net::TcpListener, time::sleep};
use tokio_rustls::TlsAcceptor;

/// Starts an API server that speaks only the protocol `alpn`. Returns the client's configuration, and the number of
/// connections that were accepted.
async fn start_server(alpn: &'static [u8]) -> (Config, Arc<AtomicUsize>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let certificate = certified.cert.der().clone();
    let builder = ServerConfig::builder().with_no_client_auth();
    let mut tls = builder.with_single_cert(vec![certificate.clone()], key).unwrap();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(tls)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let uri = format!("https://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = accepted.clone();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(tcp).await else { continue };
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let service = service_fn(answer);
                let io = TokioIo::new(stream);
                if alpn == b"h2" {
                    let _ =
                        conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
                } else {
                    let _ = conn::http1::Builder::new().serve_connection(io, service).await;
                }
            });
        }
    });
    let mut config = Config::new(uri.parse().unwrap());
    config.root_cert = Some(vec![certificate.to_vec()]);
    (config, accepted)
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // Long enough for the calls to be concurrent.
    sleep(Duration::from_millis(50)).await;
    let list = json!({"metadata": {"resourceVersion": "1"}, "items": []});
    Ok(Response::new(Full::new(Bytes::from(list.to_string()))))
}

#[tokio::test]
async fn concurrent_calls_share_one_connection() {
    let (config, accepted) = start_server(b"h2").await;
    let client = http2_client(&config).unwrap();
    let call = || async {
        let maps: Api<ConfigMap> = Api::all(client.clone());
        maps.list(&Default::default()).await.unwrap()
    };
    join_all((0..50).map(|_| call())).await;
    join_all((0..50).map(|_| call())).await;
    assert_eq!(accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_server_without_http2_is_recognized() {
    let (config, _) = start_server(b"http/1.1").await;
    let client = http2_client(&config).unwrap();
    let error = with_timeout(client.apiserver_version()).await.unwrap_err();
    assert!(!may_use_http2(&error), "{}", error_chain(&error));
}

#[test]
fn an_unreachable_server_may_use_http2_but_a_failed_handshake_means_http1() {
    let service = |source: io::Error| kube::Error::Service(Box::new(source));
    assert!(may_use_http2(&service(io::ErrorKind::ConnectionRefused.into())));
    assert!(may_use_http2(&service(io::ErrorKind::TimedOut.into())));
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "x"});
    assert!(may_use_http2(&kube::Error::Api(serde_json::from_value(status).unwrap())));
    let alert = io::Error::new(io::ErrorKind::InvalidData, "received fatal alert: NoApplicationProtocol");
    assert!(!may_use_http2(&service(alert)));
    assert!(!may_use_http2(&kube::Error::Service("frame with invalid size".into())));
}
