//! A node with opensm, reached through its object: write, hear that it is written, then let it be read.

use super::seen::Seen;
use crate::{Context, Watched};
use ferroband_api::ferroband::{SubnetManagerHost, SubnetManagerHostSpec, SubnetManagerHostStatus};
use ferroband_daemon::{call::bounded, chain};
use ferroband_partition::opensm::{Facts, Host, render};
use ferroband_partition::{Error, Table};
use futures::future::BoxFuture;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long a node may take to follow.
const PATIENCE: Duration = Duration::from_secs(15);
/// What a file may have: an object of the API server holds about 1.5 MB.
const LARGEST: usize = 1_000_000;

/// One node's object.
pub struct ApiHost {
    api: Api<SubnetManagerHost>,
    node: String,
    port: String,
    cache: Watched<SubnetManagerHost>,
}

impl ApiHost {
    /// The host of this node.
    pub fn new(context: &Context, seen: &Seen, node: &str, port: &str) -> Self {
        Self {
            api: Api::all(context.client.clone()),
            node: node.to_owned(),
            port: port.to_owned(),
            cache: seen.hosts.clone(),
        }
    }

    /// The ports of all hosts, as their nodes tell: a master on one of them is no stranger.
    fn ours(&self) -> Vec<String> {
        let guid = |host: &SubnetManagerHost| Some(host.status.as_ref()?.guid.clone());
        let mut all: Vec<String> = self.cache.all().iter().filter_map(|(_, host)| guid(host)).collect();
        all.retain(|guid| !guid.is_empty());
        all.sort();
        all
    }

    fn failed(&self, problem: impl Into<String>) -> Error {
        Error::Host { host: self.node.clone(), problem: problem.into() }
    }

    async fn apply(&self, spec: &SubnetManagerHostSpec) -> Result<(), Error> {
        let object = json!({
            "apiVersion": "ferroband.io/v1alpha1", "kind": "SubnetManagerHost",
            "metadata": {"name": self.node}, "spec": spec,
        });
        let patch = PatchParams::apply("ferroband-cluster").force();
        let done = bounded(self.api.patch(&self.node, &patch, &Patch::Apply(&object))).await;
        done.map(drop).map_err(|error| self.failed(chain(&error)))
    }

    fn now(&self) -> Option<Arc<SubnetManagerHost>> {
        self.cache.get("", &self.node)
    }

    async fn until(&self, what: &str, done: impl Fn(&SubnetManagerHostStatus) -> bool) -> Result<(), Error> {
        let meant = |host: &SubnetManagerHost| host.status.as_ref().is_some_and(&done);
        match self.cache.await_object("", &self.node, PATIENCE, meant).await {
            Some(_) => Ok(()),
            None => {
                let status = self.now().and_then(|host| host.status.clone()).unwrap_or_default();
                let said = status.problem.unwrap_or_else(|| "its node daemon says nothing".to_owned());
                Err(self.failed(format!("{what}: {said}")))
            }
        }
    }
}

impl Host for ApiHost {
    fn name(&self) -> String {
        self.node.clone()
    }

    fn read(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(async {
            let Some(host) = self.now() else { return Ok(None) };
            let status = host.status.clone().unwrap_or_default();
            let (port, ours) = (self.port.clone(), self.ours());
            if host.spec.serial > 0 && (host.spec.port != port || host.spec.ours != ours) {
                self.apply(&SubnetManagerHostSpec { port, ours, ..host.spec.clone() }).await?;
            }
            // What it was told counts only once it has done it; a file that somebody broke is mended by its node.
            let follows = status.written == host.spec.serial && host.spec.serial > 0;
            Ok(Some(host.spec.members.clone()).filter(|_| follows))
        })
    }

    fn facts(&self) -> Facts {
        let status = self.now().and_then(|host| host.status.clone()).unwrap_or_default();
        Facts { virtualization: status.virtualization, problem: status.problem }
    }

    fn write<'a>(&'a self, wanted: &'a Table) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let members = render(None, wanted)?;
            if members.len() > LARGEST {
                return Err(self.failed("more members than an object of the API server holds; use UFM"));
            }
            let old = self.now().map(|host| host.spec.clone()).unwrap_or_default();
            let serial = if old.members == members && old.serial > 0 { old.serial } else { old.serial + 1 };
            let (port, ours) = (self.port.clone(), self.ours());
            self.apply(&SubnetManagerHostSpec { members, serial, signal: old.signal, port, ours }).await?;
            self.until("the file is not written", |status| status.written >= serial).await
        })
    }

    fn signal(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let Some(host) = self.now() else { return Ok(()) };
            let mut spec = host.spec.clone();
            let written = host.status.as_ref().map_or(0, |status| status.written);
            if spec.signal >= written {
                return Ok(());
            }
            (spec.signal, spec.port, spec.ours) = (written, self.port.clone(), self.ours());
            self.apply(&spec).await?;
            self.until("opensm is not told", |status| status.signalled >= written).await
        })
    }
}
