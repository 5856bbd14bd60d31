//! What tenants send to the cluster daemon: objects, through the webhook and the API server.

use ferroband_api::spiderpool::SpiderMultusConfig;
use ferroband_api::sriov::SriovIBNetwork;
use ferroband_cluster::networks::{
    DesiredNetwork, NetworkSpecError, desired_ib_network, desired_spider_network,
};
use ferroband_cluster::{ClusterSettings, ControllerContext, webhook};
use ferroband_testbed::fake_api::FakeApi;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// An AdmissionReview, or anything else that a client sends to the webhook.
pub fn admission(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: Option<Runtime> = Builder::new_current_thread().enable_all().build().ok();
    }
    RUNTIME.with(|runtime| {
        let Some(runtime) = runtime else { return };
        runtime.block_on(async {
            // A new API server for each input, because it records all requests.
            let context = ControllerContext::new(FakeApi::default().client(), ClusterSettings::for_test());
            for (status, text) in webhook::answer_anything(&context, bytes).await {
                let is_review = serde_json::from_str::<Value>(&text)
                    .is_ok_and(|review| review["response"]["allowed"].is_boolean());
                assert!(is_review || status.is_client_error(), "{status}: {text}");
            }
        });
    });
}

/// A SpiderMultusConfig or a SriovIBNetwork. What is rendered from it is a network definition.
pub fn definition(bytes: &[u8]) {
    if let Ok(config) = serde_json::from_slice::<SpiderMultusConfig>(bytes) {
        check_definition(desired_spider_network(&config));
    }
    if let Ok(network) = serde_json::from_slice::<SriovIBNetwork>(bytes) {
        check_definition(desired_ib_network(&network, &ClusterSettings::for_test()));
    }
}

fn check_definition(rendered: Result<DesiredNetwork, NetworkSpecError>) {
    match rendered {
        Ok(desired) => {
            // The text may still be no valid network: the node daemon then says so when a pod uses it.
            let _ = desired.definition.to_object().network_config();
        }
        Err(error) => assert!(!error.fault("x").remedy.is_empty()),
    }
}
