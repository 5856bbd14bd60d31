//! Whether a node can still be running pods.

use k8s_openapi::api::core::v1::Node;

/// The taint by which an administrator says that a node is off.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What a Node object says about that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFencing {
    /// It may be running.
    NotFenced,
    /// It is certainly not.
    OutOfService,
}

impl NodeFencing {
    /// What the object says. That it is not ready says nothing: it may only be unreachable.
    pub fn from_node(node: &Node) -> Self {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        match taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE) {
            true => Self::OutOfService,
            false => Self::NotFenced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn g01_only_the_taint_of_an_administrator_fences() {
        let node = |key: &str| {
            let object =
                json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
            NodeFencing::from_node(&serde_json::from_value(object).unwrap())
        };
        assert_eq!(node("node.kubernetes.io/unreachable"), NodeFencing::NotFenced);
        assert_eq!(node("node.kubernetes.io/not-ready"), NodeFencing::NotFenced);
        assert_eq!(node(OUT_OF_SERVICE), NodeFencing::OutOfService);
        assert_eq!(NodeFencing::from_node(&Node::default()), NodeFencing::NotFenced);
    }
}
