//! API client, settings and event publisher, which every controller needs.

use crate::{ClusterSettings, object_writes::FIELD_MANAGER};
use ferroband_daemon::EventPublisher;
use kube::Client;
use std::sync::Arc;

#[derive(Clone)]
pub struct ControllerContext {
    pub client: Client,
    pub settings: Arc<ClusterSettings>,
    pub events: EventPublisher,
}

impl ControllerContext {
    pub fn new(client: Client, settings: ClusterSettings) -> Self {
        let events = EventPublisher::new(client.clone(), FIELD_MANAGER, &settings.identity);
        Self { client, settings: Arc::new(settings), events }
    }
}
