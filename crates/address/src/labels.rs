//! Labels of address blocks. A node finds its blocks by them, without a list of all blocks.

use crate::ip_space::IpSpace;
use ferroband_model::fnv1a;

/// Prefix of the labels from [`node_label`].
pub const NODE_LABEL_PREFIX: &str = "node.ferroband.io/";

/// Label of blocks and indexes. Its value is from [`space_label`].
pub const SPACE_LABEL: &str = "ferroband.io/space";

/// Returns the label key of the blocks that `node` has claimed or has entries in. The value is empty. The name is
/// hashed because node names are longer than label keys may be, so blocks of another node can have the same label.
pub fn node_label(node: &str) -> String {
    format!("{NODE_LABEL_PREFIX}{:016x}", fnv1a(node.bytes()))
}

/// Returns the value of [`SPACE_LABEL`] for a space. Another space can have the same value.
pub fn space_label(space: &IpSpace) -> String {
    format!("{:016x}", fnv1a(space.slug().bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn labels_are_stable_valid_and_differ() {
        // Objects in etcd have these labels, so a change of the hash would hide them.
        assert_eq!(node_label("foobar"), "node.ferroband.io/85944171f73967e8");
        let labels: BTreeSet<_> = (0..20_000).map(|n| node_label(&format!("node-{n}.example.org"))).collect();
        assert_eq!(labels.len(), 20_000);
        assert!(labels.iter().all(|label| label.len() == NODE_LABEL_PREFIX.len() + 16));
        assert_ne!(space_label(&IpSpace::default_space()), space_label(&IpSpace::network("a")));
    }
}
