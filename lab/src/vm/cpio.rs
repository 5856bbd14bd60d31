//! initramfs archive: cpio in the "new ASCII" format.
//!
//! Written here because files come from several places with other names, owned by root, with device nodes, and the
//! build must not need root. Format: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

/// A cpio archive being written.
pub struct CpioArchive {
    out: BufWriter<File>,
    inode: u32,
    made: BTreeSet<String>,
}

impl CpioArchive {
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self { out: BufWriter::with_capacity(1 << 20, file), inode: 0, made: BTreeSet::new() })
    }

    /// Adds a folder and its parents.
    pub fn directory(&mut self, name: &str) -> Result<()> {
        self.parents(name)?;
        if self.made.insert(name.to_owned()) {
            self.entry(name, DIRECTORY | 0o755, (0, 0), &[])
        } else {
            Ok(())
        }
    }

    /// Adds a file.
    pub fn file(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.parents(name)?;
        self.entry(name, REGULAR | mode, (0, 0), data)
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, name: &str, target: &str) -> Result<()> {
        self.parents(name)?;
        self.made.insert(name.to_owned());
        self.entry(name, SYMLINK | 0o777, (0, 0), target.as_bytes())
    }

    /// Adds a character device.
    pub fn device(&mut self, name: &str, major: u32, minor: u32) -> Result<()> {
        self.parents(name)?;
        self.entry(name, CHARACTER | 0o600, (major, minor), &[])
    }

    /// Adds everything under `dir` as `prefix/...`.
    pub fn tree(&mut self, dir: &Path, prefix: &str) -> Result<()> {
        let mut entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().into_string().ok().context("a file name that is not UTF-8")?;
            let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                let target = fs::read_link(entry.path())?;
                self.symlink(&name, target.to_str().context("a link target that is not UTF-8")?)?;
            } else if kind.is_dir() {
                self.directory(&name)?;
                self.tree(&entry.path(), &name)?;
            } else if kind.is_file() {
                let mode = entry.metadata()?.permissions().mode() & 0o7777;
                let data = fs::read(entry.path()).with_context(|| name.clone())?;
                self.file(&name, mode, &data)?;
            }
        }
        Ok(())
    }

    /// Writes the trailer.
    pub fn finish(mut self) -> Result<()> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.out.flush().context("write the archive")
    }

    /// Adds missing parent folders of `name`; a symbolic link (usr merge) counts as existing.
    fn parents(&mut self, name: &str) -> Result<()> {
        for (at, _) in name.match_indices('/') {
            let parent = &name[..at];
            if self.made.insert(parent.to_owned()) {
                self.entry(parent, DIRECTORY | 0o755, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), data: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(data.len()).context("a file of 4 GiB")?;
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        let name_size = u32::try_from(name.len() + 1)?;
        write!(self.out, "070701")?;
        // inode, mode, uid, gid, links, mtime, size, device of the file, device of the node, name size, checksum
        for field in [self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0] {
            write!(self.out, "{field:08X}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.pad(110 + name.len(), 1)?;
        self.out.write_all(data)?;
        self.pad(data.len(), 0)
    }

    /// Writes at least `least` zeros, up to a multiple of four after `written` bytes.
    fn pad(&mut self, written: usize, least: usize) -> Result<()> {
        let zeros = least + (4 - (written + least) % 4) % 4;
        self.out.write_all(&[0; 8][..zeros]).context("write the archive")
    }
}
