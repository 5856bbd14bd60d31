//! Labels that distinguish Whereabouts and Spiderpool objects written by Ferroband from those of the original projects.

use kube::{Resource, ResourceExt};

/// Label, as key and value, of the Whereabouts and Spiderpool objects that Ferroband writes.
pub const MANAGED_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "ferroband");
/// Label selector of the objects with [`MANAGED_LABEL`], which Ferroband wrote.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=ferroband";
/// Label selector of the objects without [`MANAGED_LABEL`], which Ferroband did not write.
pub const UNMANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by!=ferroband";

/// Whether Ferroband wrote the object, according to [`MANAGED_LABEL`].
pub fn is_managed(object: &impl Resource) -> bool {
    object.labels().get(MANAGED_LABEL.0).is_some_and(|by| by == MANAGED_LABEL.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_the_label() {
        let (name, value) = MANAGED_LABEL;
        assert_eq!(
            (MANAGED_SELECTOR, UNMANAGED_SELECTOR),
            (&*format!("{name}={value}"), &*format!("{name}!={value}"))
        );
    }
}
