//! Explanations of the codes about addresses and pools.

use super::{Explanation, FaultCode, explain};

pub const TABLE: &[(FaultCode, Explanation)] = &[
    (
        FaultCode::PoolExhausted,
        explain(
            "The range or pool has no free address.",
            &[
                "pods use all addresses of the range or pool",
                "addresses of pods on an unreachable node stay assigned until these pods are known to have stopped",
                "`exclude` covers most of the range",
            ],
            &[
                "delete pods, or widen the range; ferroband status shows the assigned addresses of each IP space",
                "if a node will not come back, delete its Node object or taint it node.kubernetes.io/out-of-service",
            ],
        ),
    ),
    (
        FaultCode::AddressHeld,
        explain(
            "The address is, or may still be, in use by another pod.",
            &[
                "the pod requests an address that another pod uses",
                "a StatefulSet pod was re-created while the old pod may still run, for example on an unreachable node",
            ],
            &[
                "choose another address, or delete the pod that uses it",
                "if a node will not come back, delete its Node object or taint it node.kubernetes.io/out-of-service",
            ],
        ),
    ),
    (
        FaultCode::NoPool,
        explain(
            "No address pool is configured, or none of the configured pools is eligible.",
            &[
                "neither the network, the pod nor its namespace names a pool, and there is no default SpiderIPPool",
                "the configured pools do not exist, are disabled, or do not allow the pod, namespace, node or network",
            ],
            &[
                "name a SpiderIPPool in the network or in the pod annotation ipam.spidernet.io/ippool",
                "change the pool's affinity or the pod's labels; the message has the reason for each pool",
            ],
        ),
    ),
    (
        FaultCode::AddressConflict,
        explain(
            "Another host on the link uses the address that was assigned to the pod.",
            &[
                "a host outside the cluster has the address configured",
                "another system assigns addresses from the same range",
            ],
            &[
                "exclude the address from the pool, or remove it from the host named in the message",
                "no action needed for the pod: it is retried with another address",
            ],
        ),
    ),
    (
        FaultCode::GatewayUnreachable,
        explain(
            "The network's gateway does not respond.",
            &[
                "the pool has the wrong gateway",
                "the pod cannot reach the gateway through its port or partition",
            ],
            &[
                "check the pool's gateway",
                "set FERROBAND_DETECT_GATEWAYS=off on the node daemon if the network has no gateway",
            ],
        ),
    ),
];
