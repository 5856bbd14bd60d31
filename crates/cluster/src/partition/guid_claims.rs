//! Removes the claims of deleted nodes from GuidBlocks.

use crate::{ControllerContext, Error};
use ferroband_api::ferroband::GuidBlock;
use ferroband_daemon::api_call::with_timeout;
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};

/// Removes all claims of `node` from all GuidBlocks. Fails if a GuidBlock was written concurrently; the
/// partition controller's next pass retries.
pub async fn release(context: &ControllerContext, node: &str) -> Result<(), Error> {
    let api: Api<GuidBlock> = Api::all(context.client.clone());
    let blocks =
        with_timeout(api.list(&ListParams::default())).await.map_err(Error::api("list", "GuidBlocks"))?;
    for mut block in blocks {
        let before = block.spec.claims.len();
        block.spec.claims.retain(|_, claim| claim.node != node);
        if block.spec.claims.len() == before {
            continue;
        }
        let name = block.name_any();
        with_timeout(api.replace(&name, &PostParams::default(), &block))
            .await
            .map_err(Error::api("write", format!("GuidBlock {name}")))?;
    }
    Ok(())
}
