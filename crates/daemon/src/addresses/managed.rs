//! Objects of Whereabouts' and Spiderpool's kinds: which of them show what we assigned, and which are theirs.

use kube::{Resource, ResourceExt};

/// The label of the objects that are ours to change.
pub const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "ferroband");
/// The selector of those.
pub const OWN: &str = "app.kubernetes.io/managed-by=ferroband";
/// The selector of all others.
pub const FOREIGN: &str = "app.kubernetes.io/managed-by!=ferroband";

/// Whether the object is ours to change.
pub fn is_ours(object: &impl Resource) -> bool {
    object.labels().get(MANAGED.0).is_some_and(|by| by == MANAGED.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selectors_are_of_the_label() {
        let (name, value) = MANAGED;
        assert_eq!((OWN, FOREIGN), (&*format!("{name}={value}"), &*format!("{name}!={value}")));
    }
}
