//! Creates Ferroband's runtime and state directories.

use crate::Error;
use ferroband_attach::{daemon_mark, pending_status::PendingStatus};
use ferroband_kernel::Root;
use std::{
    fs::{self, DirBuilder, File, Permissions},
    os::unix::fs::PermissionsExt,
};

/// Creates the directories under `root` with mode 0700. Journals contain users' network configuration, and
/// write access to the socket's directory would allow replacing the socket. The mode is set explicitly,
/// because the kubelet creates hostPath volumes with mode 0755. Also marks the node as one that has a daemon.
pub fn create_private_dirs(root: &Root) -> Result<(), Error> {
    for path in [root.run("ferroband"), PendingStatus::dir(root), root.state(""), root.state("owed")] {
        let failed = |source| Error::File { action: "create", path: path.clone(), source };
        DirBuilder::new().recursive(true).create(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    let mark = daemon_mark(root);
    File::create(&mark).map(drop).map_err(Error::file("create", &mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt;

    #[test]
    fn existing_directories_become_private() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        DirBuilder::new().recursive(true).mode(0o755).create(root.state("")).unwrap();
        create_private_dirs(&root).unwrap();
        assert!(daemon_mark(&root).exists(), "CNI plugins that are called on their own ask this daemon");
        for path in [root.run("ferroband"), PendingStatus::dir(&root), root.state(""), root.state("owed")] {
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o700,
                "{}",
                path.display()
            );
        }
    }
}
