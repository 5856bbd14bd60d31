//! GUIDs that a node had claimed, after it is gone.

use crate::{Context, Error};
use ferroband_api::ferroband::GuidGranule;
use ferroband_daemon::call::bounded;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};

/// Frees the GUIDs that `node` had claimed for pods. Somebody who writes at the same moment makes it fail, and it is tried again.
pub async fn free(context: &Context, node: &str) -> Result<(), Error> {
    let api: Api<GuidGranule> = Api::all(context.client.clone());
    let all = bounded(api.list(&ListParams::default())).await.map_err(Error::api("list", "claimed GUIDs"))?;
    for mut granule in all {
        let before = granule.spec.claims.len();
        granule.spec.claims.retain(|_, claim| claim.node != node);
        if granule.spec.claims.len() == before {
            continue;
        }
        let name = granule.name_any();
        bounded(api.replace(&name, &PostParams::default(), &granule))
            .await
            .map_err(Error::api("write", format!("GuidGranule {name}")))?;
    }
    Ok(())
}
