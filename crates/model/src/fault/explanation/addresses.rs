//! Addresses and where they come from.

use super::{Explanation, FaultCode, explain};

pub const TABLE: &[(FaultCode, Explanation)] = &[
    (
        FaultCode::PoolExhausted,
        explain(
            "No address is free in the range or pool.",
            &[
                "all addresses are held by pods",
                "addresses of pods on a lost node are kept until it is known that those pods no longer run",
                "the range excludes most of itself",
            ],
            &[
                "ferroband status shows how many addresses each space has given out; delete pods, or widen the range",
                "for a node that is gone for good: delete the Node, or set the taint node.kubernetes.io/out-of-service",
            ],
        ),
    ),
    (
        FaultCode::AddressHeld,
        explain(
            "The address is somebody else's, or may still be.",
            &[
                "the pod asks for an address that another pod has",
                "the pod of a StatefulSet was made again while its earlier self may still run, for example on a lost node",
            ],
            &[
                "choose another address, or delete the pod that has it",
                "for a node that is gone for good: delete the Node, or set the taint node.kubernetes.io/out-of-service",
            ],
        ),
    ),
    (
        FaultCode::NoPool,
        explain(
            "Nobody names a pool of addresses, or none of those named may be used.",
            &[
                "neither the network, the pod, its namespace nor a default SpiderIPPool says where addresses come from",
                "the pools that are named do not exist, are disabled, or are for other pods, namespaces, nodes or networks",
            ],
            &[
                "name a SpiderIPPool in the network or in the pod's annotation ipam.spidernet.io/ippool",
                "the message says for each pool why it is out; change its affinity or the pod's labels",
            ],
        ),
    ),
    (
        FaultCode::AddressConflict,
        explain(
            "Somebody else on the link answers for the address that the pod was to have.",
            &["a machine outside the cluster has it by hand", "another system gives out the same range"],
            &[
                "exclude the address from the pool, or take it from the machine that the message names",
                "the pod is tried again with another address",
            ],
        ),
    ),
    (
        FaultCode::GatewayUnreachable,
        explain(
            "The network's gateway does not answer.",
            &["the pool names a wrong gateway", "the port or the partition does not let the pod reach it"],
            &["check the pool's gateway", "set detectGateway to false where there is no gateway"],
        ),
    ),
];
