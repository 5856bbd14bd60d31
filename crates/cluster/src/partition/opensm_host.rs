//! Controls opensm on a node through the node's SubnetManagerHost object. The leader writes the members into the spec,
//! waits until the node daemon has written opensm's partition file, and then requests that the
//! node daemon signal opensm.

use super::caches::PartitionCaches;
use crate::{ControllerContext, object_writes::FIELD_MANAGER};
use ferroband_api::ferroband::{SubnetManagerHost, SubnetManagerHostSpec, SubnetManagerHostStatus};
use ferroband_daemon::{SharedCache, apply, error_chain};
use ferroband_partition::opensm::{OpensmHost, OpensmHostStatus, render};
use ferroband_partition::{Error, MembershipTable, parse_guid};
use futures::future::BoxFuture;
use kube::Api;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long the node daemon may take to act on a change of the SubnetManagerHost's spec.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of `spec.members`. The API server limits an object to about 1.5 MB.
const MAX_MEMBERS_BYTES: usize = 1_000_000;

/// The SubnetManagerHost object of one node.
pub struct OpensmHostObject {
    api: Api<SubnetManagerHost>,
    node: String,
    port: String,
    cache: SharedCache<SubnetManagerHost>,
}

impl OpensmHostObject {
    pub fn new(context: &ControllerContext, caches: &PartitionCaches, node: &str, port: &str) -> Self {
        Self {
            api: Api::all(context.client.clone()),
            node: node.to_owned(),
            port: port.to_owned(),
            cache: caches.hosts.clone(),
        }
    }

    /// Port GUIDs of all nodes that run opensm, as the nodes report them. A master subnet manager on one of these
    /// ports is expected. Any other master subnet manager is foreign.
    fn host_port_guids(&self) -> Vec<String> {
        let guid = |host: &SubnetManagerHost| Some(host.status.as_ref()?.guid.clone());
        let mut all: Vec<String> = self.cache.list().iter().filter_map(|(_, host)| guid(host)).collect();
        all.retain(|guid| !guid.is_empty());
        all.sort();
        all
    }

    fn error(&self, problem: impl Into<String>) -> Error {
        Error::Host { host: self.node.clone(), problem: problem.into() }
    }

    async fn apply(&self, spec: &SubnetManagerHostSpec) -> Result<(), Error> {
        let done = apply(&self.api, FIELD_MANAGER, &self.node, json!({"spec": spec})).await;
        done.map(drop).map_err(|error| self.error(error_chain(&error)))
    }

    fn cached(&self) -> Option<Arc<SubnetManagerHost>> {
        self.cache.get("", &self.node)
    }

    async fn wait_for_status(
        &self,
        what: &str,
        done: impl Fn(&SubnetManagerHostStatus) -> bool,
    ) -> Result<(), Error> {
        let is_done = |host: &SubnetManagerHost| host.status.as_ref().is_some_and(&done);
        match self.cache.wait_for("", &self.node, FOLLOW_TIMEOUT, is_done).await {
            Some(_) => Ok(()),
            None => {
                let status = self.cached().and_then(|host| host.status.clone()).unwrap_or_default();
                let problem = status.problem.unwrap_or_else(|| {
                    "the node daemon does not report a reason; check that it is running".to_owned()
                });
                Err(self.error(format!("{what}: {problem}")))
            }
        }
    }
}

impl OpensmHost for OpensmHostObject {
    fn name(&self) -> String {
        self.node.clone()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async {
            let Some(host) = self.cached() else { return Ok(None) };
            let status = host.status.clone().unwrap_or_default();
            let (port, managed_ports) = (self.port.clone(), self.host_port_guids());
            if host.spec.serial > 0 && (host.spec.port != port || host.spec.managed_ports != managed_ports) {
                self.apply(&SubnetManagerHostSpec { port, managed_ports, ..host.spec.clone() }).await?;
            }
            // Return the members only once the node daemon has written them to opensm's partition file. If
            // the file is damaged later, the node daemon repairs it.
            let follows = status.written == host.spec.serial && host.spec.serial > 0;
            Ok(Some(host.spec.members.clone()).filter(|_| follows))
        })
    }

    fn status(&self) -> OpensmHostStatus {
        let status = self.cached().and_then(|host| host.status.clone()).unwrap_or_default();
        OpensmHostStatus {
            virtualization: status.virtualization,
            problem: status.problem,
            port: parse_guid(&status.guid),
            master: parse_guid(&status.master),
        }
    }

    fn write<'a>(&'a self, desired: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let members = render(None, desired)?;
            if members.len() > MAX_MEMBERS_BYTES {
                return Err(self.error(
                    "the partition members do not fit into one API object; use UFM instead of opensm",
                ));
            }
            let old = self.cached().map(|host| host.spec.clone()).unwrap_or_default();
            let serial = if old.members == members && old.serial > 0 { old.serial } else { old.serial + 1 };
            let (port, managed_ports) = (self.port.clone(), self.host_port_guids());
            self.apply(&SubnetManagerHostSpec { members, serial, port, managed_ports, ..old }).await?;
            self.wait_for_status("partition file not written", |status| status.written >= serial).await
        })
    }

    fn signal(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let Some(host) = self.cached() else { return Ok(()) };
            let mut spec = host.spec.clone();
            let written = host.status.as_ref().map_or(0, |status| status.written);
            if spec.signal >= written {
                return Ok(());
            }
            (spec.signal, spec.port, spec.managed_ports) =
                (written, self.port.clone(), self.host_port_guids());
            self.apply(&spec).await?;
            self.wait_for_status("opensm not signalled", |status| status.signalled >= written).await
        })
    }
}
