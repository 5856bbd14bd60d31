//! UFM as a subnet manager of ours.

use super::client::UfmClient;
use super::{UfmClientSettings, response};
use crate::{
    Error, FabricReport, Membership, PKeyBase, PartitionBatch, PartitionChange, RateLimits, SettingError,
    SubnetManager,
};
use ferroband_model::Guid;
use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The most GUIDs in one request; a path has to hold those that are removed.
const MAX_GUIDS_PER_REQUEST: usize = 200;

/// A UFM.
pub struct Ufm {
    client: UfmClient,
}

impl Ufm {
    /// The UFM of these settings. Nothing is sent yet.
    pub fn new(settings: &UfmClientSettings) -> Result<Self, SettingError> {
        Ok(Self { client: UfmClient::new(settings)? })
    }

    /// The same with another limit for a whole request.
    pub fn with_timeout(self, patience: Duration) -> Self {
        Self { client: self.client.with_timeout(patience) }
    }

    async fn list(&self) -> Result<FabricReport, Error> {
        let request = "GET /resources/pkeys";
        let answer = self.client.request(Method::GET, "/resources/pkeys?guids_data=true", None).await?;
        if !answer.is_success() {
            return Err(self.client.rejected(request, &answer));
        }
        let body = answer
            .body
            .as_object()
            .ok_or_else(|| self.client.invalid_response(request, "it is no JSON object"))?;
        let mut fabric = response::parse_partitions(body);
        // UFM's own opensm always programs virtual ports.
        fabric.virtualization = Some(true);
        // Not every version has it, and nothing depends on it.
        if let Ok(configuration) = self.client.request(Method::GET, "/app/smconf", None).await
            && configuration.is_success()
            && let Some(body) = configuration.body.as_object()
        {
            fabric.default_secrets = response::default_secrets(body);
        }
        Ok(fabric)
    }

    async fn change(&self, key: PKeyBase, change: &PartitionChange) -> Result<(), Error> {
        // Out first: a function that changes hands is never in two tenants' partitions because of us.
        let remove: Vec<Guid> = change.remove.iter().copied().collect();
        for part in remove.chunks(MAX_GUIDS_PER_REQUEST) {
            self.remove(key, part).await?;
        }
        for membership in [Membership::Full, Membership::Limited] {
            // Never both kinds in one request: versions of UFM differ in what they make of it.
            let of_kind = change.add.iter().filter(|(_, wanted)| **wanted == membership);
            let add: Vec<Guid> = of_kind.map(|(guid, _)| *guid).collect();
            for part in add.chunks(MAX_GUIDS_PER_REQUEST) {
                self.add(key, part, membership).await?;
            }
        }
        Ok(())
    }

    async fn add(&self, key: PKeyBase, guids: &[Guid], membership: Membership) -> Result<(), Error> {
        let body = json!({
            "pkey": format_pkey(key),
            "index0": true,
            "ip_over_ib": true,
            "membership": membership.as_str(),
            "guids": guids.iter().map(|guid| format_guid(*guid)).collect::<Vec<_>>(),
        });
        let request = format!("POST /resources/pkeys {}", format_pkey(key));
        let answer = self.client.request(Method::POST, "/resources/pkeys", Some(body.clone())).await?;
        if answer.is_success() {
            return Ok(());
        }
        if answer.status != 404 {
            return Err(self.client.rejected(&request, &answer));
        }
        // This one does not make partitions by the way.
        self.create(key).await?;
        let answer = self.client.request(Method::POST, "/resources/pkeys", Some(body)).await?;
        if answer.is_success() { Ok(()) } else { Err(self.client.rejected(&request, &answer)) }
    }

    async fn create(&self, key: PKeyBase) -> Result<(), Error> {
        let body = json!({"pkey": format_pkey(key), "index0": true, "ip_over_ib": true});
        let answer = self.client.request(Method::POST, "/resources/pkeys/add", Some(body)).await?;
        let there = answer.status == 409 || (answer.status == 400 && answer.text.contains("exist"));
        if answer.is_success() || there {
            return Ok(());
        }
        Err(self.client.rejected(&format!("POST /resources/pkeys/add {}", format_pkey(key)), &answer))
    }

    async fn remove(&self, key: PKeyBase, guids: &[Guid]) -> Result<(), Error> {
        let listed: Vec<String> = guids.iter().map(|guid| format_guid(*guid)).collect();
        let path = format!("/resources/pkeys/{}/guids/{}", format_pkey(key), listed.join(","));
        let answer = self.client.request(Method::DELETE, &path, None).await?;
        match answer.status {
            200..300 => return Ok(()),
            // Older versions have only the other way; that one knows whether the partition is there.
            404 | 405 | 501 => {}
            _ => {
                return Err(self
                    .client
                    .rejected(&format!("DELETE /resources/pkeys/{}/guids", format_pkey(key)), &answer));
            }
        }
        let body = json!({"pkey": format_pkey(key), "guids": listed});
        let answer = self.client.request(Method::POST, "/actions/remove_guids_from_pkey", Some(body)).await?;
        if answer.is_success() || self.are_removed(key, guids, answer.status).await? {
            return Ok(());
        }
        Err(self.client.rejected(&format!("remove members of {}", format_pkey(key)), &answer))
    }

    /// After a removal that found nothing: whether there is indeed nothing left. A partition ends with its last
    /// member, so "no such thing" is what a second removal hears.
    async fn are_removed(&self, key: PKeyBase, guids: &[Guid], status: u16) -> Result<bool, Error> {
        if status != 404 && status != 400 {
            return Ok(false);
        }
        let path = format!("/resources/pkeys/{}?guids_data=true", format_pkey(key));
        let answer = self.client.request(Method::GET, &path, None).await?;
        // Some say so, some show an empty object.
        if answer.status == 404 || answer.body.as_object().is_some_and(serde_json::Map::is_empty) {
            return Ok(true);
        }
        let members = answer.body.get("guids").and_then(Value::as_array).into_iter().flatten();
        let left = members.filter_map(|member| crate::parse_guid(member.get("guid")?.as_str()?));
        Ok(answer.is_success() && !left.into_iter().any(|guid| guids.contains(&guid)))
    }
}

impl SubnetManager for Ufm {
    fn name(&self) -> String {
        self.client.name.clone()
    }

    fn observe(&self) -> BoxFuture<'_, Result<FabricReport, Error>> {
        Box::pin(self.list())
    }

    fn apply(&self, batch: PartitionBatch) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            for (key, change) in &batch.changes {
                self.change(*key, change).await?;
            }
            Ok(())
        })
    }

    fn rate_limits(&self) -> RateLimits {
        // UFM rewrites its file and sweeps the fabric for every request, so a moment's changes go together.
        RateLimits { window: Duration::from_millis(100), interval: Duration::ZERO, max_in_flight: 8 }
    }
}

/// As ib-kubernetes wrote it.
fn format_pkey(key: PKeyBase) -> String {
    format!("0x{:04X}", key.number())
}

fn format_guid(guid: Guid) -> String {
    format!("{:016x}", guid.value())
}
