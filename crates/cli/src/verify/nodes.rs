//! Selects the two nodes between which `ferroband verify` pings.

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// Names of all nodes that are ready, schedulable and have no taint NoSchedule or NoExecute.
pub async fn list_usable(client: &Client) -> Result<Vec<String>> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
    Ok(usable(&nodes))
}

fn usable(nodes: &[Node]) -> Vec<String> {
    let ready = |node: &&Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
        let spec = node.spec.as_ref();
        let tainted = spec.and_then(|spec| spec.taints.as_ref()).is_some_and(|taints| {
            taints.iter().any(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute")
        });
        ready && !tainted && spec.and_then(|spec| spec.unschedulable) != Some(true)
    };
    let mut names: Vec<_> = nodes.iter().filter(ready).map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// Returns the two nodes of `given` (from --nodes), or the first two of `usable` if `given` is empty.
pub fn pick_two(usable: &[String], given: &[String]) -> Result<(String, String)> {
    match (given, usable) {
        ([one, other], _) => Ok((one.clone(), other.clone())),
        ([], [one, other, ..]) => Ok((one.clone(), other.clone())),
        ([], [only]) => {
            bail!("only node {only} is ready and untainted; use --nodes {only},{only} to run both pods on it")
        }
        ([], []) => bail!("no node is ready, schedulable and untainted; select nodes with --nodes A,B"),
        _ => bail!("--nodes: expected two node names separated by a comma"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unschedulable_nodes_are_skipped() {
        let node = |name: &str, ready: &str, spec| {
            let value = json!({"metadata": {"name": name}, "spec": spec,
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            serde_json::from_value::<Node>(value).unwrap()
        };
        let nodes = [
            node("c", "True", json!({})),
            node("a", "True", json!({})),
            node("down", "Unknown", json!({})),
            node("cordoned", "True", json!({"unschedulable": true})),
            node("control", "True", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})),
        ];
        let usable = usable(&nodes);
        assert_eq!(pick_two(&usable, &[]).unwrap(), ("a".to_owned(), "c".to_owned()));
        let given = ["x".to_owned(), "y".to_owned()];
        assert_eq!(pick_two(&usable, &given).unwrap(), ("x".to_owned(), "y".to_owned()));
        assert!(
            pick_two(&usable, &given[..1]).is_err()
                && pick_two(&usable[..1], &[]).is_err()
                && pick_two(&[], &[]).is_err()
        );
    }
}
