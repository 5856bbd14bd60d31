//! Conditions of this node: `FerrobandDevices` and `FerrobandCniConfiguration`.

use crate::api_call::with_timeout;
use ferroband_daemon::Retry;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{sync::watch, time::sleep};
use tracing::warn;

/// How long to wait for further changes before the condition is written.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// Shortest and longest pause after a failed write.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Maximum length of the condition's message. The log contains the complete text.
const MAX_MESSAGE_BYTES: usize = 1024;

/// A condition of this node. It is false while there are problems, and its message lists them.
pub struct NodeCondition {
    node: String,
    condition_type: &'static str,
    /// Reason and message without problems.
    healthy: (&'static str, &'static str),
    /// Reason with problems.
    unhealthy: &'static str,
}

impl NodeCondition {
    /// Whether all configured resources are advertised and their devices are healthy.
    pub fn devices(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            condition_type: "FerrobandDevices",
            healthy: ("AsConfigured", "all configured resources are advertised"),
            unhealthy: "NotAsConfigured",
        }
    }

    /// Whether the runtime's CNI configuration is Ferroband's, and stays.
    pub fn conflist(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            condition_type: "FerrobandCniConfiguration",
            healthy: ("Installed", "the CNI configuration is installed"),
            unhealthy: "RemovedRepeatedly",
        }
    }

    /// Keeps the condition in sync with the problems of `state`. Writes nothing while `problems` returns `None`. Never
    /// returns.
    pub async fn keep_current<T>(
        self,
        api: Api<Node>,
        mut state: watch::Receiver<T>,
        problems: impl Fn(&T) -> Option<Vec<String>>,
    ) {
        let mut reported: Option<Vec<String>> = None;
        let mut retry = Retry::new(RETRY_PAUSE.0, RETRY_PAUSE.1);
        loop {
            let is_news = |state: &T| problems(state).is_some_and(|now| reported.as_ref() != Some(&now));
            if state.wait_for(is_news).await.is_err() {
                // The sender is gone, so the daemon is stopping.
                return std::future::pending().await;
            }
            sleep(DEBOUNCE).await;
            let Some(now) = problems(&state.borrow_and_update()) else { continue };
            let patch = json!({ "status": { "conditions": [self.to_json(&now, Timestamp::now())] } });
            let patched = with_timeout(api.patch_status(
                &self.node,
                &PatchParams::default(),
                &Patch::Strategic(&patch),
            ))
            .await;
            match patched {
                Ok(_) => {
                    reported = Some(now);
                    retry.succeeded();
                }
                Err(e) => {
                    if let Some(error) = retry.news(&e) {
                        let (node, condition) = (&self.node, self.condition_type);
                        warn!(node, condition, error, "cannot update the node condition, retrying");
                    }
                    retry.pause().await;
                }
            }
        }
    }

    fn to_json(&self, problems: &[String], now: Timestamp) -> Value {
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let (status, reason, mut message) = match problems {
            [] => ("True", self.healthy.0, self.healthy.1.to_owned()),
            problems => ("False", self.unhealthy, problems.join("; ")),
        };
        if message.len() > MAX_MESSAGE_BYTES {
            let end =
                (0..=MAX_MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
            message.truncate(end);
            message.push('…');
        }
        json!({
            "type": self.condition_type,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
            "lastHeartbeatTime": now,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_lists_problems_and_is_true_without_any() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let condition = NodeCondition::devices("n1");
        let healthy = condition.to_json(&[], now);
        assert_eq!(
            (&healthy["status"], &healthy["lastTransitionTime"]),
            (&json!("True"), &json!("2026-01-02T03:04:05Z"))
        );
        let unhealthy = condition.to_json(&["f.json: bad".to_owned(), "g.json: worse".to_owned()], now);
        assert_eq!(unhealthy["status"], "False");
        assert_eq!(unhealthy["message"], "f.json: bad; g.json: worse");
        let long = condition.to_json(&["ü".repeat(2000)], now);
        assert!(long["message"].as_str().unwrap().len() <= MAX_MESSAGE_BYTES + "…".len());
    }
}
