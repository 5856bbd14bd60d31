//! A condition on the node that says whether its devices are offered as configured.

use crate::{advertise::DeviceState, api_call::with_timeout, error::error_chain, pools::PoolProblem};
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

/// The condition's type.
const CONDITION_TYPE: &str = "FerrobandDevices";
/// Changes that come together are told together.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// The pause after a failed attempt.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// The longest message; more belongs in the log.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Keep the condition of `node` as the board is.
pub async fn keep_condition_current(
    client: Client,
    node: String,
    mut board: watch::Receiver<Arc<DeviceState>>,
) {
    let api: Api<Node> = Api::all(client);
    let mut told: Option<Vec<PoolProblem>> = None;
    let mut trouble = String::new();
    loop {
        let known =
            board.wait_for(|board| board.initialized && told.as_ref() != Some(&board.problems)).await.is_ok();
        if !known {
            // The sender's task has ended, and with it the daemon.
            return std::future::pending().await;
        }
        sleep(DEBOUNCE).await;
        let problems = board.borrow_and_update().problems.clone();
        let patch = json!({ "status": { "conditions": [condition(&problems, Timestamp::now())] } });
        let patched =
            with_timeout(api.patch_status(&node, &PatchParams::default(), &Patch::Strategic(&patch))).await;
        match patched {
            Ok(_) => told = Some(problems),
            Err(e) => {
                let problem = error_chain(&e);
                if problem != trouble {
                    warn!(node, error = problem, "cannot set the node's condition; trying again");
                    trouble = problem;
                }
                sleep(RETRY_DELAY).await;
            }
        }
    }
}

fn condition(problems: &[PoolProblem], now: Timestamp) -> Value {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (status, reason) = match problems.is_empty() {
        true => ("True", "AsConfigured"),
        false => ("False", "InvalidConfig"),
    };
    let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let mut message =
        if all.is_empty() { "every configured resource is offered".to_owned() } else { all.join("; ") };
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
    fn problems_are_named_and_their_absence_too() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let fine = condition(&[], now);
        assert_eq!(
            (&fine["status"], &fine["lastTransitionTime"]),
            (&json!("True"), &json!("2026-01-02T03:04:05Z"))
        );
        let problem = |cause: &str| PoolProblem {
            file: "f.json".to_owned(),
            field: "resourceList[0]".to_owned(),
            cause: cause.to_owned(),
        };
        let wrong = condition(&[problem("bad"), problem("worse")], now);
        assert_eq!(wrong["status"], "False");
        assert_eq!(wrong["message"], "f.json: resourceList[0]: bad; f.json: resourceList[0]: worse");
        let long = condition(&[problem(&"ü".repeat(2000))], now);
        assert!(long["message"].as_str().unwrap().len() <= MAX_MESSAGE_BYTES + "…".len());
    }
}
