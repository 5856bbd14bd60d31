//! The init process of a lab machine: sets up its mounts, then reaps children until it is killed.

use anyhow::{Context, Result};
use clap::Args;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::wait::waitpid;
use nix::unistd::{chdir, pivot_root, sethostname};
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of the hidden subcommand.
#[derive(Args, Debug)]
pub struct LabInitArgs {
    /// The machine's folder.
    #[arg(long)]
    folder: PathBuf,
    /// The cluster's programs, shown at /opt/lab/bin.
    #[arg(long)]
    programs: PathBuf,
    /// The machine's name.
    #[arg(long)]
    hostname: String,
}

/// Global kernel settings that a kubelet insists on changing. They are replaced by bind-mounted files with the expected
/// values, so that the real settings stay unchanged.
const TUNABLES: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Runs as PID 1 of a new PID and mount namespace.
pub fn run_init(args: &LabInitArgs) -> Result<()> {
    // The old /proc belongs to the outer PID namespace, so this is the outer PID.
    let outer = fs::read_link("/proc/self").context("cannot read /proc/self")?;
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUTS).context("cannot unshare the host name")?;
    sethostname(&args.hostname).context("cannot set the host name")?;
    mount_root(args)?;
    publish_pid(&args.folder, &outer)?;
    enter_root()?;
    fs::write("/run-ready", "").context("cannot mark the machine as ready")?;
    loop {
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            // No children; orphans that appear are reaped after this sleep.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(200)),
        }
    }
}

fn mount_root(args: &LabInitArgs) -> Result<()> {
    let root = args.folder.join("root");
    bind_mount(&root, &root)?;
    for shared in ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let (from, to) = (Path::new("/").join(shared), root.join(shared));
        if from.is_dir() && !from.is_symlink() {
            bind_mount(&from, &to)?;
            let again = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
            mount(None::<&str>, &to, None::<&str>, again, None::<&str>)
                .context("cannot make /usr read-only")?;
        }
    }
    bind_mount(&args.programs, &root.join("opt/lab/bin"))?;
    bind_mount(Path::new("/dev"), &root.join("dev"))?;
    mount_fs("tmpfs", &root.join("run"), "mode=755")?;
    mount_fs("tmpfs", &root.join("tmp"), "mode=1777")?;
    mount_fs("proc", &root.join("proc"), "")?;
    // A new sysfs shows this network namespace's devices; cgroups are bind-mounted from the old one.
    mount_fs("sysfs", &root.join("sys"), "")?;
    bind_mount(Path::new("/sys/fs/cgroup"), &root.join("sys/fs/cgroup"))?;
    fs::create_dir_all(root.join("run/lab/tunables"))?;
    fs::create_dir_all(root.join("run/netns"))?;
    for (name, value) in TUNABLES {
        let own = root.join("run/lab/tunables").join(name.replace('/', "."));
        fs::write(&own, value)?;
        let real = root.join("proc/sys").join(name);
        if real.exists() {
            bind_mount(&own, &real)?;
        }
    }
    Ok(())
}

/// Writes the PID file before the old root is unmounted: the folder is reachable only there.
fn publish_pid(folder: &Path, pid: &Path) -> Result<()> {
    let draft = folder.join("init.pid.new");
    fs::write(&draft, pid.to_string_lossy().as_bytes())?;
    fs::rename(draft, folder.join("init.pid")).context("cannot publish the pid")?;
    chdir(&folder.join("root")).context("cannot enter the new root")
}

fn enter_root() -> Result<()> {
    pivot_root(".", "old").context("cannot switch to the new root")?;
    chdir("/").context("cannot enter /")?;
    umount2("/old", MntFlags::MNT_DETACH).context("cannot drop the old root")?;
    // Kubernetes volumes with mount propagation need a shared root.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SHARED, None::<&str>)
        .context("cannot make / shared")
}

fn bind_mount(from: &Path, to: &Path) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .with_context(|| format!("cannot bind {} to {}", from.display(), to.display()))
}

fn mount_fs(kind: &str, to: &Path, options: &str) -> Result<()> {
    mount(Some(kind), to, Some(kind), MsFlags::empty(), Some(options))
        .with_context(|| format!("cannot mount {kind} at {}", to.display()))
}
