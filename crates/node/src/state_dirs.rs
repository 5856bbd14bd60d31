//! The folders that are ours.

use crate::Error;
use ferroband_kernel::Root;
use std::{
    fs::{self, DirBuilder, Permissions},
    os::unix::fs::PermissionsExt,
};

/// Make our folders under `root` and close them to everybody but root: journals hold what users configured, and who can
/// reach the socket's folder could put another socket there. The kubelet, which makes them as volumes, leaves them open.
pub fn create_private_dirs(root: &Root) -> Result<(), Error> {
    for path in [root.run("ferroband"), root.state(""), root.state("owed")] {
        let failed = |source| Error::File { action: "make", path: path.clone(), source };
        DirBuilder::new().recursive(true).create(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt;

    #[test]
    fn folders_that_are_open_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        DirBuilder::new().recursive(true).mode(0o755).create(root.state("")).unwrap();
        create_private_dirs(&root).unwrap();
        for path in [root.run("ferroband"), root.state(""), root.state("owed")] {
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o700,
                "{}",
                path.display()
            );
        }
    }
}
