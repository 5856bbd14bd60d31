//! Removes the claims of deleted nodes from GuidBlocks.

use crate::{
    ControllerContext, Error,
    object_writes::{delete_unchanged, get_object},
};
use ferroband_api::ferroband::GuidBlock;
use ferroband_daemon::{WatchCache, api_call::with_timeout};
use kube::{Api, api::PostParams};
use std::collections::BTreeSet;

/// The nodes that have claims in a GuidBlock or reserved it. The leader lists all GuidBlocks once and follows their
/// changes, instead of listing them for each deleted node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuidBlockNodes(BTreeSet<String>);

impl GuidBlockNodes {
    pub fn of(block: &GuidBlock) -> Self {
        let claims = block.spec.claims.values().map(|claim| &claim.node);
        let nodes = claims.chain([&block.spec.node]).filter(|node| !node.is_empty());
        Self(nodes.cloned().collect())
    }
}

/// Removes all claims and reservations of `node` from the GuidBlocks, and deletes blocks that are empty then. Fails if a
/// GuidBlock was written concurrently; the partition controller's next pass retries.
pub async fn release(
    context: &ControllerContext,
    guid_blocks: &WatchCache<GuidBlockNodes>,
    node: &str,
) -> Result<(), Error> {
    let api: Api<GuidBlock> = Api::all(context.client.clone());
    for ((_, name), nodes) in guid_blocks.list() {
        if !nodes.0.contains(node) {
            continue;
        }
        let Some(mut block) = get_object(&api, &name).await? else { continue };
        let before = block.spec.clone();
        block.spec.claims.retain(|_, claim| claim.node != node);
        if block.spec.node == node {
            block.spec.node.clear();
        }
        if block.spec == before {
            continue;
        }
        let written = if block.spec.claims.is_empty() && block.spec.node.is_empty() {
            delete_unchanged(&api, &block).await
        } else {
            with_timeout(api.replace(&name, &PostParams::default(), &block)).await.map(drop)
        };
        written.map_err(Error::api("write", format!("GuidBlock {name}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterSettings;
    use ferroband_testbed::fake_api::FakeApi;
    use kube::{ResourceExt, runtime::watcher::Event};
    use serde_json::json;

    #[tokio::test]
    async fn blocks_of_a_deleted_node_are_emptied_and_empty_ones_deleted() {
        const PATH: &str = "/apis/ferroband.io/v1alpha1/guidblocks";
        let claim = |node: &str| json!({"node": node, "device": "0000:03:00.1"});
        let specs = json!({
            "gone": {"node": "n1", "claims": {"0": claim("n1")}},
            "kept": {"node": "n2", "claims": {}},
            "mixed": {"node": "n1", "claims": {"0": claim("n1"), "1": claim("n2")}},
            "reserved": {"node": "n2", "claims": {"0": claim("n1")}},
        });
        let objects = specs.as_object().unwrap().iter().map(|(name, spec)| {
            json!({"apiVersion": "ferroband.io/v1alpha1", "kind": "GuidBlock",
                "metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec})
        });
        let objects: Vec<_> = objects.collect();
        let (api, guid_blocks) = (FakeApi::default(), WatchCache::default());
        for object in &objects {
            let block: GuidBlock = serde_json::from_value(object.clone()).unwrap();
            let key = (String::new(), block.name_any());
            guid_blocks.apply(Event::Apply((key, Some(GuidBlockNodes::of(&block)))));
            api.insert_object(
                &format!("{PATH}/{}", object["metadata"]["name"].as_str().unwrap()),
                object.clone(),
            );
        }
        let context = ControllerContext::new(api.client(), ClusterSettings::for_test());
        release(&context, &guid_blocks, "n1").await.unwrap();
        let (reads, mut writes): (Vec<_>, Vec<_>) =
            api.list_calls().into_iter().partition(|call| call.starts_with("GET"));
        writes.sort();
        assert_eq!(reads.len(), 3, "only the blocks that name the node: {reads:?}");
        assert_eq!(
            writes,
            [format!("DELETE {PATH}/gone"), format!("PUT {PATH}/mixed"), format!("PUT {PATH}/reserved")]
        );
        let preconditions = &api.last_body("DELETE", &format!("{PATH}/gone"))["preconditions"];
        assert_eq!(*preconditions, json!({"uid": "gone", "resourceVersion": "1"}));
        let mixed = &api.last_body("PUT", &format!("{PATH}/mixed"))["spec"];
        assert_eq!(*mixed, json!({"fabric": "default", "claims": {"1": claim("n2")}}));
    }
}
