//! The account of a node daemon in the hands of an attacker, who has root on the node and uses it from anywhere.

use crate::{exec_on, kubectl, kubectl_get};
use serde_json::Value;

const NAMESPACE: &str = "ferroband-system";

/// A stolen token of the node daemon's account.
#[derive(Debug)]
pub struct NodeAccount {
    token: String,
    server: String,
}

/// What the API server answered.
#[derive(Debug)]
pub struct ApiAnswer {
    /// HTTP status.
    pub status: u16,
    pub body: String,
}

impl NodeAccount {
    /// The account of a node, with a token as the daemon on that node has it.
    #[track_caller]
    pub fn of_node(node: &str) -> Self {
        let pods = kubectl_get(&["pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=node"]);
        let mut pods = pods["items"].as_array().into_iter().flatten();
        let daemon = pods.find(|pod| pod["spec"]["nodeName"] == node).expect("a daemon on the node");
        let name = daemon["metadata"]["name"].as_str().expect("a name");
        Self::with_token(&["--bound-object-kind=Pod", &format!("--bound-object-name={name}")])
    }

    /// The account with a token that is bound to no node.
    #[track_caller]
    pub fn unbound() -> Self {
        Self::with_token(&[])
    }

    #[track_caller]
    fn with_token(bound: &[&str]) -> Self {
        let create = ["create", "token", "ferroband-node", "-n", NAMESPACE];
        let token = kubectl(&[&create, bound].concat()).stdout_or_panic().trim().to_owned();
        let server = ["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"];
        Self { token, server: kubectl(&server).stdout_or_panic() }
    }

    /// The token itself, for kubectl.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Sends one request. `PATCH` is a merge patch. Nothing is read before, as with kubectl.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, body: &Value) -> ApiAnswer {
        let kind = if method == "PATCH" { "merge-patch+json" } else { "json" };
        self.request_as(method, path, kind, body)
    }

    /// Sends one request with the content type `application/KIND`.
    #[track_caller]
    pub fn request_as(&self, method: &str, path: &str, kind: &str, body: &Value) -> ApiAnswer {
        let Self { token, server } = self;
        let script = format!(
            "curl -sk -w '\\n%{{http_code}}' -X {method} -H 'Authorization: Bearer {token}' \
             -H 'Content-Type: application/{kind}' -d '{body}' '{server}{path}'"
        );
        let text = exec_on("control", &script).stdout_or_panic();
        let (body, status) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
        ApiAnswer { status: status.parse().unwrap_or_default(), body: body.to_owned() }
    }
}

impl ApiAnswer {
    /// Whether the request was refused, by RBAC or by an admission policy, for this reason.
    pub fn is_refused_because(&self, rule: &str) -> bool {
        [403, 422].contains(&self.status) && self.body.contains(rule)
    }

    /// Whether the request was accepted.
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// One request of the attacker, and the rule that must refuse it.
#[derive(Debug)]
pub struct ApiAttack {
    name: &'static str,
    method: &'static str,
    path: String,
    body: Value,
    rule: &'static str,
}

/// One request of the attacker.
pub fn attack(
    name: &'static str,
    method: &'static str,
    path: impl Into<String>,
    body: Value,
    rule: &'static str,
) -> ApiAttack {
    ApiAttack { name, method, path: path.into(), body, rule }
}

/// Sends all attacks, and names every one that was not refused for its reason. `state` must not change.
#[track_caller]
pub fn assert_all_refused(account: &NodeAccount, attacks: &[ApiAttack], state: impl Fn() -> Value) {
    let before = state();
    let mut succeeded = Vec::new();
    for ApiAttack { name, method, path, body, rule } in attacks {
        let answer = account.request(method, path, body);
        println!("attack: {name}: {}", answer.status);
        if !answer.is_refused_because(rule) {
            succeeded.push(format!("{name}: {method} {path} {body}: {answer:?}"));
        }
    }
    assert!(succeeded.is_empty(), "not refused as expected:\n{}", succeeded.join("\n"));
    assert_eq!(state(), before, "a refused request changed something");
}
