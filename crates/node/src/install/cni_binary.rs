//! Installs the CNI binary and its aliases.

use super::{create_dir, uninstall::saved_path, write_atomically};
use crate::Error;
use ferroband_kernel::files::{remove_file, temporary_path};
use std::{
    fs::{self, File},
    io::{self, BufReader, ErrorKind, Read},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use tracing::{info, warn};

/// File name of the CNI plugin, which is also its `type` in our CNI configuration.
pub(super) const BINARY_NAME: &str = "ferroband";
/// Suffix that is appended to the name of a foreign binary when an alias replaces it.
pub(super) const SAVED_SUFFIX: &str = ".before-ferroband";

/// Copies `program` to `folder` as `ferroband`, and creates a symlink to it for each alias.
pub fn install_binaries(program: &Path, folder: &Path, aliases: &[String]) -> Result<(), Error> {
    create_dir(folder)?;
    let target = folder.join(BINARY_NAME);
    if have_same_content(program, &target).unwrap_or(false) {
        info!(program = %target.display(), "CNI binary is up to date");
    } else {
        let mut content = File::open(program).map_err(Error::file("read", program))?;
        write_atomically(&target, &mut content, 0o755)?;
        info!(program = %target.display(), "CNI binary installed");
    }
    for alias in aliases {
        install_alias(folder, alias)?;
    }
    Ok(())
}

/// Makes `alias` a symlink to our binary. A foreign binary of that name is renamed, see [`SAVED_SUFFIX`].
fn install_alias(folder: &Path, alias: &str) -> Result<(), Error> {
    let path = folder.join(alias);
    let failed = |source| Error::File { action: "install", path: path.clone(), source };
    match fs::symlink_metadata(&path) {
        Ok(at) if at.is_symlink() && fs::read_link(&path).map_err(failed)? == Path::new(BINARY_NAME) => {
            return Ok(());
        }
        Ok(_) => {
            let saved = saved_path(&path);
            warn!(
                program = %path.display(), saved = %saved.display(),
                "renaming a foreign CNI binary, because a Ferroband alias takes its name"
            );
            fs::rename(&path, &saved).map_err(failed)?;
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e)),
    }
    let temporary = temporary_path(&path);
    remove_file(&temporary).map_err(failed)?;
    // The link target is relative, so that it resolves wherever the directory is mounted.
    symlink(BINARY_NAME, &temporary).map_err(failed)?;
    fs::rename(&temporary, &path).map_err(failed)?;
    info!(alias = %path.display(), "alias of the CNI binary installed");
    Ok(())
}

/// Lists the aliases in `folder`. Each comes with the saved foreign binary that it replaced, if there is one.
pub(super) fn list_aliases(folder: &Path) -> Result<Vec<(PathBuf, Option<PathBuf>)>, Error> {
    let failed = |source| Error::File { action: "list", path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut aliases = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if fs::read_link(&path).is_ok_and(|target| target == Path::new(BINARY_NAME)) {
            let saved = Some(saved_path(&path)).filter(|saved| saved.exists());
            aliases.push((path, saved));
        }
    }
    aliases.sort();
    Ok(aliases)
}

/// Whether two files have the same content. If so, a restarted daemon does not write the binary again.
fn have_same_content(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (BufReader::new(a).bytes(), BufReader::new(b).bytes());
    loop {
        match (a.next().transpose()?, b.next().transpose()?) {
            (None, None) => return Ok(true),
            (left, right) if left != right => return Ok(false),
            _ => {}
        }
    }
}
