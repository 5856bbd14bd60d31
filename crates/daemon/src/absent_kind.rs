//! Waits for a kind that the API server does not know yet.

use crate::{
    reflector::{from_cache, named},
    retry::lengthened,
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::watcher::{Event, watcher},
};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long a kind that is absent is not asked for again, unless its CRD appears.
pub const ABSENT_KIND_PAUSE: Duration = Duration::from_secs(600);
/// Time between the creation of a CRD and its service by the API server.
const ESTABLISH_TIME: Duration = Duration::from_secs(1);

/// Waits until the CRD `name` is created or changed, at most about [`ABSENT_KIND_PAUSE`]. The watch of a single CRD costs
/// nothing while nothing changes. A daemon that may not watch CRDs just waits.
///
/// With `is_recent`, a CRD that exists counts as created: it may not be served yet. Otherwise it does not serve the
/// version that was asked for.
pub async fn wait_for_crd(client: Client, name: &str, is_recent: bool) {
    let crds: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let created = async {
        let events = watcher(crds, from_cache(named(name)));
        pin_mut!(events);
        while let Some(Ok(event)) = events.next().await {
            if matches!(event, Event::Apply(_)) || (is_recent && matches!(event, Event::InitApply(_))) {
                return sleep(ESTABLISH_TIME).await;
            }
        }
        std::future::pending::<()>().await;
    };
    let _ = timeout(lengthened(ABSENT_KIND_PAUSE), created).await;
}
