//! UFM as a subnet manager of ours.

use super::client::Client;
use super::{Settings, answer};
use crate::{BadSetting, Batch, Change, Error, Fabric, Key, Membership, Pace, SubnetManager};
use ferroband_model::Guid;
use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// The most GUIDs in one request; a path has to hold those that are removed.
const MOST: usize = 200;

/// A UFM.
pub struct Ufm {
    client: Client,
}

impl Ufm {
    /// The UFM of these settings. Nothing is sent yet.
    pub fn new(settings: &Settings) -> Result<Self, BadSetting> {
        Ok(Self { client: Client::new(settings)? })
    }

    /// The same with another limit for a whole request.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { client: self.client.with_patience(patience) }
    }

    async fn list(&self) -> Result<Fabric, Error> {
        let request = "GET /resources/pkeys";
        let answer = self.client.ask(Method::GET, "/resources/pkeys?guids_data=true", None).await?;
        if !answer.is_success() {
            return Err(self.client.refused(request, &answer));
        }
        let body =
            answer.body.as_object().ok_or_else(|| self.client.garbled(request, "it is no JSON object"))?;
        let mut fabric = answer::partitions(body);
        // UFM's own opensm always programs virtual ports.
        fabric.virtualization = Some(true);
        // Not every version has it, and nothing depends on it.
        if let Ok(configuration) = self.client.ask(Method::GET, "/app/smconf", None).await
            && configuration.is_success()
            && let Some(body) = configuration.body.as_object()
        {
            fabric.default_secrets = answer::default_secrets(body);
        }
        Ok(fabric)
    }

    async fn change(&self, key: Key, change: &Change) -> Result<(), Error> {
        // Out first: a function that changes hands is never in two tenants' partitions because of us.
        let remove: Vec<Guid> = change.remove.iter().copied().collect();
        for part in remove.chunks(MOST) {
            self.remove(key, part).await?;
        }
        for membership in [Membership::Full, Membership::Limited] {
            // Never both kinds in one request: versions of UFM differ in what they make of it.
            let of_kind = change.add.iter().filter(|(_, wanted)| **wanted == membership);
            let add: Vec<Guid> = of_kind.map(|(guid, _)| *guid).collect();
            for part in add.chunks(MOST) {
                self.add(key, part, membership).await?;
            }
        }
        Ok(())
    }

    async fn add(&self, key: Key, guids: &[Guid], membership: Membership) -> Result<(), Error> {
        let body = json!({
            "pkey": written(key),
            "index0": true,
            "ip_over_ib": true,
            "membership": membership.word(),
            "guids": guids.iter().map(|guid| digits(*guid)).collect::<Vec<_>>(),
        });
        let request = format!("POST /resources/pkeys {}", written(key));
        let answer = self.client.ask(Method::POST, "/resources/pkeys", Some(body.clone())).await?;
        if answer.is_success() {
            return Ok(());
        }
        if answer.status != 404 {
            return Err(self.client.refused(&request, &answer));
        }
        // This one does not make partitions by the way.
        self.create(key).await?;
        let answer = self.client.ask(Method::POST, "/resources/pkeys", Some(body)).await?;
        if answer.is_success() { Ok(()) } else { Err(self.client.refused(&request, &answer)) }
    }

    async fn create(&self, key: Key) -> Result<(), Error> {
        let body = json!({"pkey": written(key), "index0": true, "ip_over_ib": true});
        let answer = self.client.ask(Method::POST, "/resources/pkeys/add", Some(body)).await?;
        let there = answer.status == 409 || (answer.status == 400 && answer.text.contains("exist"));
        if answer.is_success() || there {
            return Ok(());
        }
        Err(self.client.refused(&format!("POST /resources/pkeys/add {}", written(key)), &answer))
    }

    async fn remove(&self, key: Key, guids: &[Guid]) -> Result<(), Error> {
        let listed: Vec<String> = guids.iter().map(|guid| digits(*guid)).collect();
        let path = format!("/resources/pkeys/{}/guids/{}", written(key), listed.join(","));
        let answer = self.client.ask(Method::DELETE, &path, None).await?;
        match answer.status {
            200..300 => return Ok(()),
            // Older versions have only the other way; that one knows whether the partition is there.
            404 | 405 | 501 => {}
            _ => {
                return Err(self
                    .client
                    .refused(&format!("DELETE /resources/pkeys/{}/guids", written(key)), &answer));
            }
        }
        let body = json!({"pkey": written(key), "guids": listed});
        let answer = self.client.ask(Method::POST, "/actions/remove_guids_from_pkey", Some(body)).await?;
        if answer.is_success() || self.is_gone(key, guids, answer.status).await? {
            return Ok(());
        }
        Err(self.client.refused(&format!("remove members of {}", written(key)), &answer))
    }

    /// After a removal that found nothing: whether there is indeed nothing left. A partition ends with its last
    /// member, so "no such thing" is what a second removal hears.
    async fn is_gone(&self, key: Key, guids: &[Guid], status: u16) -> Result<bool, Error> {
        if status != 404 && status != 400 {
            return Ok(false);
        }
        let path = format!("/resources/pkeys/{}?guids_data=true", written(key));
        let answer = self.client.ask(Method::GET, &path, None).await?;
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

    fn observe(&self) -> BoxFuture<'_, Result<Fabric, Error>> {
        Box::pin(self.list())
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            for (key, change) in &batch.changes {
                self.change(*key, change).await?;
            }
            Ok(())
        })
    }

    fn pace(&self) -> Pace {
        // UFM rewrites its file and sweeps the fabric for every request, so a moment's changes go together.
        Pace { window: Duration::from_millis(100), interval: Duration::ZERO, at_once: 8 }
    }
}

/// As ib-kubernetes wrote it.
fn written(key: Key) -> String {
    format!("0x{:04X}", key.number())
}

fn digits(guid: Guid) -> String {
    format!("{:016x}", guid.value())
}
