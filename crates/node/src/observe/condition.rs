//! The node condition `FerrobandDevices`: whether all configured resources are advertised and their devices are
//! healthy.

use crate::{advertise::DeviceState, api_call::with_timeout, pools::PoolProblem};
use ferroband_daemon::Retry;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::sleep};
use tracing::warn;

const CONDITION_TYPE: &str = "FerrobandDevices";
/// How long to wait for further changes before the condition is written.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// Shortest and longest pause after a failed write.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Maximum length of the condition's message. The log contains the complete text.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Keeps the `FerrobandDevices` condition of the node `node` in sync with the problems of the device plugin.
/// Never returns.
pub async fn keep_condition_current(
    client: Client,
    node: String,
    mut devices: watch::Receiver<Arc<DeviceState>>,
) {
    let api: Api<Node> = Api::all(client);
    let mut reported: Option<Vec<PoolProblem>> = None;
    let mut retry = Retry::new(RETRY_PAUSE.0, RETRY_PAUSE.1);
    loop {
        let changed = devices
            .wait_for(|devices| devices.initialized && reported.as_ref() != Some(&devices.problems))
            .await
            .is_ok();
        if !changed {
            // The sender is gone, so the daemon is stopping.
            return std::future::pending().await;
        }
        sleep(DEBOUNCE).await;
        let problems = devices.borrow_and_update().problems.clone();
        let patch = json!({ "status": { "conditions": [condition(&problems, Timestamp::now())] } });
        let patched =
            with_timeout(api.patch_status(&node, &PatchParams::default(), &Patch::Strategic(&patch))).await;
        match patched {
            Ok(_) => {
                reported = Some(problems);
                retry.succeeded();
            }
            Err(e) => {
                if let Some(error) = retry.news(&e) {
                    warn!(node, error, "cannot update the node condition, retrying");
                }
                retry.pause().await;
            }
        }
    }
}

fn condition(problems: &[PoolProblem], now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (status, reason) = match problems.is_empty() {
        true => ("True", "AsConfigured"),
        false => ("False", "NotAsConfigured"),
    };
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let mut message = if texts.is_empty() {
        "all configured resources are advertised".to_owned()
    } else {
        texts.join("; ")
    };
    if message.len() > MAX_MESSAGE_BYTES {
        let end =
            (0..=MAX_MESSAGE_BYTES).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
    json!({
        "type": CONDITION_TYPE,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_lists_problems_and_is_true_without_any() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let healthy = condition(&[], now);
        assert_eq!(
            (&healthy["status"], &healthy["lastTransitionTime"]),
            (&json!("True"), &json!("2026-01-02T03:04:05Z"))
        );
        let problem = |cause: &str| PoolProblem {
            file: "f.json".to_owned(),
            field: "resourceList[0]".to_owned(),
            cause: cause.to_owned(),
        };
        let unhealthy = condition(&[problem("bad"), problem("worse")], now);
        assert_eq!(unhealthy["status"], "False");
        assert_eq!(unhealthy["message"], "f.json: resourceList[0]: bad; f.json: resourceList[0]: worse");
        let long = condition(&[problem(&"ü".repeat(2000))], now);
        assert!(long["message"].as_str().unwrap().len() <= MAX_MESSAGE_BYTES + "…".len());
    }
}
