//! Sends the request of the kubelet's plugin watcher as raw bytes, because no Rust client sends a path as
//! authority.

use super::{inventory, start_jarvice};
use std::fs;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// grpc-go sends the percent-encoded path as authority when it dials a bare path.
#[tokio::test]
async fn call_with_a_path_as_authority_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let registry = dir.path().join("plugins_registry");
    fs::create_dir_all(&registry).unwrap();
    let _fixture = start_jarvice(dir.path(), inventory(&["uverbs0"]));
    let socket = registry.join("ferroband-jarvice.com-rdma.sock");
    let mut kubelet = timeout(Duration::from_secs(5), async {
        loop {
            match UnixStream::connect(&socket).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await
    .expect("a socket in time");
    let text =
        |name: u8, value: &str| [&[name, u8::try_from(value.len()).unwrap()][..], value.as_bytes()].concat();
    // POST and http are entries 3 and 6 of the HPACK static table, followed by authority, path and content
    // type.
    let block = [
        vec![0x83, 0x86],
        text(0x41, "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fferroband-jarvice.com-rdma.sock"),
        text(0x44, "/pluginregistration.Registration/GetInfo"),
        text(0x5f, "application/grpc"),
    ]
    .concat();
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    let (settings, headers, data) =
        (frame(4, 0, 0, &[]), frame(1, 4, 1, &block), frame(0, 1, 1, &[0, 0, 0, 0, 0]));
    let call = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), settings, headers, data].concat();
    // Send the bytes in two parts that split a frame, because the result must not depend on how they arrive.
    for part in [&call[..60], &call[60..]] {
        kubelet.write_all(part).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let response = timeout(Duration::from_secs(5), async {
        loop {
            let mut head = [0; 9];
            kubelet.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
            kubelet.read_exact(&mut payload).await.unwrap();
            // Frame type 3 (RST_STREAM) rejects the request; type 0 (DATA) is the response.
            match head[3] {
                3 => panic!("rejected: {payload:?}"),
                0 if !payload.is_empty() => break payload,
                _ => {}
            }
        }
    });
    let response = response.await.expect("a response in time");
    assert!(String::from_utf8_lossy(&response).contains("jarvice.com/rdma"), "{response:?}");
}
