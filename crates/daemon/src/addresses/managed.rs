//! Objects of Whereabouts' and Spiderpool's kinds: which of them show what we assigned, and which are theirs.

use kube::{Resource, ResourceExt};

/// The label of the objects that are ours to change.
pub const MANAGED_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "ferroband");
/// The selector of those.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=ferroband";
/// The selector of all others.
pub const UNMANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by!=ferroband";

/// Whether the object is ours to change.
pub fn is_managed(object: &impl Resource) -> bool {
    object.labels().get(MANAGED_LABEL.0).is_some_and(|by| by == MANAGED_LABEL.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selectors_are_of_the_label() {
        let (name, value) = MANAGED_LABEL;
        assert_eq!(
            (MANAGED_SELECTOR, UNMANAGED_SELECTOR),
            (&*format!("{name}={value}"), &*format!("{name}!={value}"))
        );
    }
}
