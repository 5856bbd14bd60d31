//! Disk of an emulated node with the lab's images, built on the host, since importing takes minutes on an emulated
//! processor.
//!
//! ```text
//! images ──containerd of the host, separate folder──▶ var/lib/containerd ──mke2fs -d──▶ template ──copy──▶ node
//! ```

use crate::cluster::machine::LabMachine;
use crate::cluster::node;
use crate::command::{command, output, run, succeeds};
use crate::progress::run_step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Size of the sparse disk image.
const SIZE: u64 = 8 << 30;

/// Templates kept in the cache.
const MAX_TEMPLATES: usize = 3;

/// Creates the machine's disk if missing.
pub fn ensure(machine: &LabMachine, programs: &Path, images: &[PathBuf]) -> Result<PathBuf> {
    let disk = machine.folder.join("disk.img");
    if disk.exists() {
        return Ok(disk);
    }
    let template = ensure_template(programs, images)?;
    let draft = disk.with_extension("new");
    run(command("cp", ["--sparse=always", "--reflink=auto"]).arg(&template).arg(&draft))?;
    for image in images {
        node::mark_imported(machine, image)?;
    }
    fs::rename(&draft, &disk).with_context(|| format!("cannot keep {}", disk.display()))?;
    Ok(disk)
}

/// The template in the cache, keyed by its contents.
fn ensure_template(programs: &Path, images: &[PathBuf]) -> Result<PathBuf> {
    let mut what = programs.display().to_string();
    for image in images {
        what.push_str(&node::archive_stamp(image)?);
    }
    let folder = crate::cache::folder("vm/disks")?;
    let template = folder.join(format!("{}.img", crate::cache::hash_bytes(what.as_bytes())));
    if !template.exists() {
        let scratch = ScratchDir(folder.join(format!("tree-{}", std::process::id())));
        run_step("a disk with the images", |_| build_template(&scratch.0, programs, images, &template))?;
        remove_old_templates(&folder)?;
    }
    Ok(template)
}

/// Removes old templates. Every build of Ferroband's image creates a new one.
fn remove_old_templates(folder: &Path) -> Result<()> {
    let mut templates = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "img") {
            templates.push((fs::metadata(&path)?.modified()?, path));
        }
    }
    templates.sort();
    for (_, old) in templates.iter().rev().skip(MAX_TEMPLATES) {
        fs::remove_file(old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    Ok(())
}

/// A folder that is removed on drop.
struct ScratchDir(PathBuf);

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// containerd for importing images, stopped on drop.
struct ImportContainerd(Child);

impl Drop for ImportContainerd {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM);
        let _ = self.0.wait();
    }
}

fn build_template(scratch: &Path, programs: &Path, images: &[PathBuf], template: &Path) -> Result<()> {
    let tree = scratch.join("tree");
    let socket = scratch.join("s/c.sock");
    fs::create_dir_all(scratch.join("s"))?;
    let config = scratch.join("containerd.toml");
    fs::write(&config, node::containerd_config())?;
    let log = File::create(scratch.join("log"))?;
    // Mounts for unpacking stay in a separate namespace.
    let mut start = command("setpriv", ["--pdeathsig", "KILL", "unshare", "--mount", "--"]);
    start.arg(programs.join("containerd")).arg("--config").arg(&config);
    start.arg("--root").arg(tree.join("var/lib/containerd")).arg("--state").arg(scratch.join("s"));
    start.arg("--address").arg(&socket).stdout(log.try_clone()?).stderr(log);
    let containerd = ImportContainerd(start.spawn().context("cannot start containerd")?);
    let ctr = || {
        let mut ctr = Command::new(programs.join("ctr"));
        ctr.arg("--address").arg(&socket).args(["-n", "k8s.io"]).stdin(Stdio::null());
        ctr
    };
    let begin = Instant::now();
    while !succeeds(ctr().arg("version")) {
        if begin.elapsed() > Duration::from_secs(120) {
            let log = fs::read_to_string(scratch.join("log")).unwrap_or_default();
            bail!("containerd does not respond:\n{}", crate::command::tail(&log, 10));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    for image in images {
        output(ctr().args(["images", "import", "--local"]).arg(image))?;
    }
    drop(containerd);
    let draft = scratch.join("disk.img");
    File::create(&draft).and_then(|file| file.set_len(SIZE)).context("cannot create the disk")?;
    // No journal: a lab may lose data in a power cut, so it need not wait for the disk.
    let mut format = command("mke2fs", ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d"]);
    run(format.arg(&tree).arg(&draft))?;
    fs::rename(&draft, template).with_context(|| format!("cannot keep {}", template.display()))
}
