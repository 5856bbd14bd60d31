//! Which boot of the machine this is.

use crate::{Error, Root};

/// The kernel's random name of this boot. Network namespaces, links and bindings that were written down under
/// another one are gone.
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
    fn is_a_uuid_and_stays_the_same() {
        let first = boot_id(&Root::default()).unwrap();
        assert_eq!(first.len(), 36, "{first}");
        assert_eq!(first, boot_id(&Root::default()).unwrap());
    }

    #[test]
    fn a_missing_file_is_named() {
        let empty = tempfile::tempdir().unwrap();
        let error = boot_id(&Root::at(empty.path())).unwrap_err();
        assert!(error.to_string().ends_with("proc/sys/kernel/random/boot_id"), "{error}");
    }
}
