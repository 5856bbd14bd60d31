//! Identifier of the current boot.

use crate::{Error, Root};

/// The kernel's random UUID of the current boot. Network namespaces, links and driver bindings recorded under
/// another boot ID no longer exist.
pub fn boot_id(root: &Root) -> Result<String, Error> {
    let path = root.proc_("sys/kernel/random/boot_id");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(Error::File { doing: "read", path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_id_is_a_stable_uuid() {
        let first = boot_id(&Root::default()).unwrap();
        assert_eq!(first.len(), 36, "{first}");
        assert_eq!(first, boot_id(&Root::default()).unwrap());
    }

    #[test]
    fn error_contains_the_path_of_a_missing_file() {
        let empty = tempfile::tempdir().unwrap();
        let error = boot_id(&Root::at(empty.path())).unwrap_err();
        assert!(error.to_string().ends_with("proc/sys/kernel/random/boot_id"), "{error}");
    }
}
