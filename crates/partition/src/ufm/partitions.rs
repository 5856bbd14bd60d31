//! UFM as a [`SubnetManager`].

use super::UfmClientSettings;
use super::client::UfmClient;
use crate::{
    Error, FabricReport, Membership, MembershipTable, PartitionBatch, PartitionChange, RateLimits,
    RequestedPKey, SettingError, SubnetManager,
};
use ferroband_model::Guid;
use futures::future::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Maximum number of GUIDs in one request. The URL path of a removal contains all of them.
const MAX_GUIDS_PER_REQUEST: usize = 200;

/// Time limit for the list of all members. UFM needs many seconds for a large fabric.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// A UFM server, whose partitions are managed through its REST API.
pub struct Ufm {
    pub(super) client: UfmClient,
    pub(super) list_timeout: Duration,
    /// Whether the list of all members timed out once. From then on, partitions are read one by one.
    pub(super) is_list_too_long: AtomicBool,
}

impl Ufm {
    /// Creates a client without connecting to the server.
    pub fn new(settings: &UfmClientSettings) -> Result<Self, SettingError> {
        Ok(Self {
            client: UfmClient::new(settings)?,
            list_timeout: LIST_TIMEOUT,
            is_list_too_long: AtomicBool::default(),
        })
    }

    /// Replaces the default time limit of 15 seconds for each request.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { client: self.client.with_timeout(timeout), ..self }
    }

    /// Replaces the default time limit of 60 seconds for the list of all members.
    pub fn with_list_timeout(self, list_timeout: Duration) -> Self {
        Self { list_timeout, ..self }
    }

    async fn change(
        &self,
        key: RequestedPKey,
        change: &PartitionChange,
        desired: &MembershipTable,
    ) -> Result<(), Error> {
        // Remove first, so that a function that moves between tenants is never in both partitions.
        let remove: Vec<Guid> = change.remove.iter().copied().collect();
        for part in remove.chunks(MAX_GUIDS_PER_REQUEST) {
            self.remove(key, part).await?;
        }
        // A request has one membership type and one `index0` for all of its GUIDs. UFM can take lists of both, but
        // its versions differ in how they handle them.
        let mut additions: BTreeMap<(Membership, bool), Vec<Guid>> = BTreeMap::new();
        for (guid, membership) in &change.add {
            additions.entry((*membership, desired.is_function(*guid))).or_default().push(*guid);
        }
        for ((membership, index0), guids) in additions {
            for part in guids.chunks(MAX_GUIDS_PER_REQUEST) {
                self.add(key, part, membership, index0).await?;
            }
        }
        Ok(())
    }

    async fn add(
        &self,
        key: RequestedPKey,
        guids: &[Guid],
        membership: Membership,
        index0: bool,
    ) -> Result<(), Error> {
        let body = json!({
            "pkey": format_pkey(key),
            "index0": index0,
            "ip_over_ib": true,
            "membership": membership.as_str(),
            "guids": guids.iter().map(|guid| format_guid(*guid)).collect::<Vec<_>>(),
        });
        let request = format!("POST /resources/pkeys {}", format_pkey(key));
        let response = self.client.request(Method::POST, "/resources/pkeys", Some(body.clone())).await?;
        if response.is_success() {
            return Ok(());
        }
        if response.status != 404 {
            return Err(self.client.rejected(&request, &response));
        }
        // Status 404 means that this UFM version does not create a partition with its first member.
        self.create(key).await?;
        let response = self.client.request(Method::POST, "/resources/pkeys", Some(body)).await?;
        if response.is_success() { Ok(()) } else { Err(self.client.rejected(&request, &response)) }
    }

    async fn create(&self, key: RequestedPKey) -> Result<(), Error> {
        // Members are added with their own `index0`.
        let body = json!({"pkey": format_pkey(key), "index0": false, "ip_over_ib": true});
        let response = self.client.request(Method::POST, "/resources/pkeys/add", Some(body)).await?;
        let exists = response.status == 409 || (response.status == 400 && response.text.contains("exist"));
        if response.is_success() || exists {
            return Ok(());
        }
        Err(self.client.rejected(&format!("POST /resources/pkeys/add {}", format_pkey(key)), &response))
    }

    async fn remove(&self, key: RequestedPKey, guids: &[Guid]) -> Result<(), Error> {
        let guid_list: Vec<String> = guids.iter().map(|guid| format_guid(*guid)).collect();
        let path = format!("/resources/pkeys/{}/guids/{}", format_pkey(key), guid_list.join(","));
        let response = self.client.request(Method::DELETE, &path, None).await?;
        match response.status {
            200..300 => return Ok(()),
            // Older UFM versions only support the request below, which also reports whether the partition
            // exists.
            404 | 405 | 501 => {}
            _ => {
                return Err(self
                    .client
                    .rejected(&format!("DELETE /resources/pkeys/{}/guids", format_pkey(key)), &response));
            }
        }
        let body = json!({"pkey": format_pkey(key), "guids": guid_list});
        let response =
            self.client.request(Method::POST, "/actions/remove_guids_from_pkey", Some(body)).await?;
        if response.is_success() || self.are_removed(key, guids, response.status).await? {
            return Ok(());
        }
        Err(self.client.rejected(&format!("removal of members from {}", format_pkey(key)), &response))
    }

    /// Checks after a failed removal whether none of the GUIDs is a member. UFM deletes a partition with its
    /// last member, so a repeated removal fails with "not found".
    async fn are_removed(&self, key: RequestedPKey, guids: &[Guid], status: u16) -> Result<bool, Error> {
        if status != 404 && status != 400 {
            return Ok(false);
        }
        let path = format!("/resources/pkeys/{}?guids_data=true", format_pkey(key));
        let response = self.client.request(Method::GET, &path, None).await?;
        // For a missing partition, some UFM versions return 404 and others an empty object.
        if response.status == 404 || response.body.as_object().is_some_and(serde_json::Map::is_empty) {
            return Ok(true);
        }
        let members = response.body.get("guids").and_then(Value::as_array).into_iter().flatten();
        let remaining = members.filter_map(|member| crate::parse_guid(member.get("guid")?.as_str()?));
        Ok(response.is_success() && !remaining.into_iter().any(|guid| guids.contains(&guid)))
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
                self.change(*key, change, &batch.desired).await?;
            }
            Ok(())
        })
    }

    fn rate_limits(&self) -> RateLimits {
        // UFM rewrites its partitions file and sweeps the fabric for every request, so changes are collected
        // before they are sent.
        RateLimits { window: Duration::from_millis(100), interval: Duration::ZERO, max_in_flight: 8 }
    }
}

/// Formats a P_Key as ib-kubernetes does, for example `0x00FF`.
fn format_pkey(key: RequestedPKey) -> String {
    format!("0x{:04X}", key.number())
}

fn format_guid(guid: Guid) -> String {
    format!("{:016x}", guid.value())
}
