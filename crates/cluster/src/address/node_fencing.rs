//! Node fencing: whether a node may still be running pods.

use k8s_openapi::api::core::v1::Node;

/// Key of the taint with which an administrator confirms that a node is off.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Whether a node whose Node object exists may still be running pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFencing {
    /// The node may be running pods.
    NotFenced,
    /// An administrator confirmed that the node is off.
    OutOfService,
}

impl NodeFencing {
    /// Reads the out-of-service taint. A NotReady condition does not count: the node may only be unreachable.
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

    // Case: ipam G01
    #[test]
    fn only_the_out_of_service_taint_fences_a_node() {
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
