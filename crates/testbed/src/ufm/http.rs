//! The subset of HTTP/1.1 that UFM clients use.

use std::io::{BufRead, BufReader, Read, Write};

#[derive(Clone, Debug, Default)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    /// Path of the request, including the query string.
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Reads the next request of a connection; returns `None` when the connection is closed.
pub(super) fn read_request<S: Read>(stream: &mut BufReader<S>) -> Option<HttpRequest> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let mut request = HttpRequest {
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        ..HttpRequest::default()
    };
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        let value = value.trim().to_owned();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => request.authorization = Some(value),
            "content-type" => request.content_type = Some(value),
            _ => {}
        }
    }
    request.body = vec![0; length];
    stream.read_exact(&mut request.body).ok()?;
    Some(request)
}

pub(super) fn write_response(stream: &mut impl Write, status: u16, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} .\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}
