//! GUIDs that a node had claimed, after it is gone.

use crate::{ControllerContext, Error};
use ferroband_api::ferroband::GuidBlock;
use ferroband_daemon::api_call::with_timeout;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};

/// Frees the GUIDs that `node` had claimed for pods. Somebody who writes at the same moment makes it fail, and it is tried again.
pub async fn release(context: &ControllerContext, node: &str) -> Result<(), Error> {
    let api: Api<GuidBlock> = Api::all(context.client.clone());
    let all =
        with_timeout(api.list(&ListParams::default())).await.map_err(Error::api("list", "claimed GUIDs"))?;
    for mut granule in all {
        let before = granule.spec.claims.len();
        granule.spec.claims.retain(|_, claim| claim.node != node);
        if granule.spec.claims.len() == before {
            continue;
        }
        let name = granule.name_any();
        with_timeout(api.replace(&name, &PostParams::default(), &granule))
            .await
            .map_err(Error::api("write", format!("GuidBlock {name}")))?;
    }
    Ok(())
}
