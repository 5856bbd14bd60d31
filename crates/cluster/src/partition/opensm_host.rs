//! A node with opensm, reached through its object: write, hear that it is written, then let it be read.

use super::caches::PartitionCaches;
use crate::{ControllerContext, Reflector};
use ferroband_api::ferroband::{SubnetManagerHost, SubnetManagerHostSpec, SubnetManagerHostStatus};
use ferroband_daemon::{api_call::with_timeout, error_chain};
use ferroband_partition::opensm::{OpensmHost, OpensmHostStatus, render};
use ferroband_partition::{Error, MembershipTable};
use futures::future::BoxFuture;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long a node may take to follow.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(15);
/// What a file may have: an object of the API server holds about 1.5 MB.
const MAX_MEMBERS_BYTES: usize = 1_000_000;

/// One node's object.
pub struct OpensmHostObject {
    api: Api<SubnetManagerHost>,
    node: String,
    port: String,
    cache: Reflector<SubnetManagerHost>,
}

impl OpensmHostObject {
    /// The host of this node.
    pub fn new(context: &ControllerContext, seen: &PartitionCaches, node: &str, port: &str) -> Self {
        Self {
            api: Api::all(context.client.clone()),
            node: node.to_owned(),
            port: port.to_owned(),
            cache: seen.hosts.clone(),
        }
    }

    /// The ports of all hosts, as their nodes tell: a master on one of them is no stranger.
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
        let object = json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "SubnetManagerHost",
            "metadata": {"name": self.node}, "spec": spec,
        });
        let patch = PatchParams::apply("ferroband-cluster").force();
        let done = with_timeout(self.api.patch(&self.node, &patch, &Patch::Apply(&object))).await;
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
        let meant = |host: &SubnetManagerHost| host.status.as_ref().is_some_and(&done);
        match self.cache.wait_for("", &self.node, FOLLOW_TIMEOUT, meant).await {
            Some(_) => Ok(()),
            None => {
                let status = self.cached().and_then(|host| host.status.clone()).unwrap_or_default();
                let said = status.problem.unwrap_or_else(|| "its node daemon says nothing".to_owned());
                Err(self.error(format!("{what}: {said}")))
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
            let (port, ours) = (self.port.clone(), self.host_port_guids());
            if host.spec.serial > 0 && (host.spec.port != port || host.spec.ours != ours) {
                self.apply(&SubnetManagerHostSpec { port, ours, ..host.spec.clone() }).await?;
            }
            // What it was told counts only once it has done it; a file that somebody broke is mended by its node.
            let follows = status.written == host.spec.serial && host.spec.serial > 0;
            Ok(Some(host.spec.members.clone()).filter(|_| follows))
        })
    }

    fn status(&self) -> OpensmHostStatus {
        let status = self.cached().and_then(|host| host.status.clone()).unwrap_or_default();
        OpensmHostStatus { virtualization: status.virtualization, problem: status.problem }
    }

    fn write<'a>(&'a self, wanted: &'a MembershipTable) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let members = render(None, wanted)?;
            if members.len() > MAX_MEMBERS_BYTES {
                return Err(self.error("more members than an object of the API server holds; use UFM"));
            }
            let old = self.cached().map(|host| host.spec.clone()).unwrap_or_default();
            let serial = if old.members == members && old.serial > 0 { old.serial } else { old.serial + 1 };
            let (port, ours) = (self.port.clone(), self.host_port_guids());
            self.apply(&SubnetManagerHostSpec { members, serial, signal: old.signal, port, ours }).await?;
            self.wait_for_status("the file is not written", |status| status.written >= serial).await
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
            (spec.signal, spec.port, spec.ours) = (written, self.port.clone(), self.host_port_guids());
            self.apply(&spec).await?;
            self.wait_for_status("opensm is not told", |status| status.signalled >= written).await
        })
    }
}
