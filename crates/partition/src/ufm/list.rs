//! Lists the partitions and members of UFM.
//!
//! ```text
//! all members in one request ──timeout──▶ names of all partitions ──▶ the members of each; one that fails is unread
//! ```

use super::{Ufm, response};
use crate::{Error, FabricReport, RequestedPKey};
use ferroband_model::PKey;
use futures::stream::{self, StreamExt};
use http::Method;
use serde_json::{Map, Value};
use std::sync::atomic::Ordering;

/// Number of partitions that are read at the same time.
const MAX_PARALLEL_READS: usize = 4;

/// Warning about a connection without TLS.
const PLAIN_HTTP: &str = "the connection to UFM is not encrypted, so anyone on the path can read the credentials and \
    change the answers; set UFM_HTTP_SCHEMA to https";

impl Ufm {
    /// Lists all members. If UFM cannot list them in time, reads one partition after another: then a partition that
    /// cannot be read does not hide the others.
    pub(super) async fn list(&self) -> Result<FabricReport, Error> {
        let mut fabric = if self.is_list_too_long.load(Ordering::Relaxed) {
            self.list_by_partition().await?
        } else {
            match self.list_at_once().await {
                Err(Error::Timeout { .. }) => {
                    let fabric = self.list_by_partition().await?;
                    self.is_list_too_long.store(true, Ordering::Relaxed);
                    fabric
                }
                outcome => outcome?,
            }
        };
        if self.client.name.contains("http://") {
            fabric.warnings.push(PLAIN_HTTP.to_owned());
        }
        // UFM's opensm always programs virtual ports.
        fabric.virtualization = Some(true);
        // Not every UFM version has this endpoint. Without it, default management keys are not reported.
        if let Ok(configuration) = self.client.request(Method::GET, "/app/smconf", None).await
            && configuration.is_success()
            && let Some(body) = configuration.body.as_object()
        {
            fabric.default_secrets = response::default_secrets(body);
        }
        Ok(fabric)
    }

    async fn list_at_once(&self) -> Result<FabricReport, Error> {
        let request = "GET /resources/pkeys";
        let path = "/resources/pkeys?guids_data=true";
        let response = self.client.request_within(self.list_timeout, Method::GET, path, None).await?;
        if !response.is_success() {
            return Err(self.client.rejected(request, &response));
        }
        let body = response.body.as_object();
        let body = body.ok_or_else(|| self.client.invalid_response(request, "not a JSON object"))?;
        Ok(response::parse_partitions(body))
    }

    async fn list_by_partition(&self) -> Result<FabricReport, Error> {
        let request = "GET /resources/pkeys";
        let response = self.client.request(Method::GET, "/resources/pkeys", None).await?;
        if !response.is_success() {
            return Err(self.client.rejected(request, &response));
        }
        let names: Vec<String> = match &response.body {
            Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Value::Object(partitions) => partitions.keys().cloned().collect(),
            _ => return Err(self.client.invalid_response(request, "neither a list nor a JSON object")),
        };
        // All ports are members of the default partition, and its members are not needed.
        let is_default =
            |name: &str| name.parse::<PKey>().is_ok_and(|key| key.base() == PKey::DEFAULT.base());
        let lacks_default_partition = !names.iter().any(|name| is_default(name));
        let names: Vec<String> = names.into_iter().filter(|name| !is_default(name)).collect();
        let count = names.len();
        let reads = names.into_iter().map(|name| async {
            let members = self.read_partition(&name).await;
            (name, members)
        });
        let mut reads = stream::iter(reads).buffer_unordered(MAX_PARALLEL_READS);
        let (mut partitions, mut failures) = (Map::new(), Vec::new());
        while let Some((name, members)) = reads.next().await {
            match members {
                Ok(members) => drop(partitions.insert(name, members)),
                Err(error) => failures.push((name, error)),
            }
        }
        if failures.len() == count
            && let Some((_, error)) = failures.pop()
        {
            return Err(error);
        }
        let mut fabric = FabricReport { lacks_default_partition, ..response::parse_partitions(&partitions) };
        for (name, error) in failures {
            fabric.unread.extend(name.parse::<PKey>().ok().and_then(|key| RequestedPKey::new(key.base())));
            fabric.warnings.push(format!("cannot read partition {name}: {error}"));
        }
        Ok(fabric)
    }

    async fn read_partition(&self, name: &str) -> Result<Value, Error> {
        let path = format!("/resources/pkeys/{name}?guids_data=true");
        let response = self.client.request(Method::GET, &path, None).await?;
        match response.status {
            // The partition was deleted since the names were listed.
            404 => Ok(Value::Object(Map::new())),
            _ if response.is_success() && response.body.is_object() => Ok(response.body),
            _ => Err(self.client.rejected(&format!("GET {path}"), &response)),
        }
    }
}
