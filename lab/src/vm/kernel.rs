//! A Debian kernel: image, modules of the guest, and headers for building softib.

use super::apt::{self, Apt};
use super::cache::{VmCache, hash_key};
use super::toolchain;
use crate::command::{command, output};
use crate::progress::run_step;
use crate::tools::find;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules of the guest; their dependencies are added.
const MODULES: &[&str] = &[
    "rdmavt",
    "ib_core",
    "ib_ipoib",
    "ib_umad",
    "ib_uverbs",
    "rdma_ucm",
    "rdma_rxe",
    "virtio_net",
    "virtio_pci",
    "virtio_blk",
    "ext4",
    "crc32c_generic", // requested by name when ext4 mounts
    "veth",
    "bridge",
    "br_netfilter",
    "macvlan",
    "ipvlan",
    "dummy",
    "tun",
    "vrf",
    "vxlan",
    "8021q",
    "overlay",
    "9p",
    "9pnet_virtio",
    "af_packet",
    "nf_tables",
    "nft_compat",
    "nf_conntrack",
    "xt_conntrack",
    "xt_MASQUERADE",
    "xt_comment",
    "xt_mark",
    "iptable_nat",
    "iptable_filter",
    "ip6table_nat",
    "nft_chain_nat",
    "nft_ct",
    "nft_masq",
    "sch_fq_codel",
    "sch_netem",
];

/// An unpacked Debian kernel.
pub struct DebianKernel {
    /// Release as in `uname -r`.
    pub release: String,
    /// Compressed kernel image.
    pub image: PathBuf,
    /// Folder with `lib/modules/<release>`: selected modules and their index.
    pub modules: PathBuf,
    /// Prepared kernel headers.
    pub headers: PathBuf,
    /// Root file system with the kernel's compiler, if it is not the host's; `headers` is then a path inside it.
    pub toolchain: Option<PathBuf>,
}

/// The newest packaged kernel of `series` (`6.1`, `6.12`), from the cache if present.
///
/// A series that the host's release lacks is taken from the next release and its backports, with its compiler.
pub fn ensure_kernel(cache: &VmCache, series: &str) -> Result<DebianKernel> {
    let mut apt = Apt::host(cache)?;
    let mut found = newest_image_package(&apt, series)?;
    let newer = found.is_none();
    if newer {
        apt = Apt::newer(cache)?;
        found = newest_image_package(&apt, series)?;
    }
    let image = found.with_context(|| {
        format!("no package linux-headers-{series}.*-amd64 in the configured archives or in newer backports")
    })?;
    let release = image.trim_start_matches("linux-image-").to_owned();
    let version = apt::candidate_version(&apt, &image)?;
    let dir =
        cache.keyed("kernel", &format!("{release}-{}", hash_key((&version, MODULES, newer))), |dir| {
            run_step(format!("kernel {version}"), |_| {
                unpack_image(&apt, &image, &release, dir)?;
                if newer {
                    toolchain::unpack(cache, &apt, &release, dir)
                } else {
                    unpack_headers(&apt, &release, dir)
                }
            })
        })?;
    let (image, modules) = (dir.join("vmlinuz"), dir.join("modules"));
    if newer {
        let headers = PathBuf::from(format!("/usr/src/linux-headers-{release}"));
        return Ok(DebianKernel {
            image,
            modules,
            headers,
            release,
            toolchain: Some(toolchain::toolchain_root(&dir)),
        });
    }
    let headers = dir.join(format!("headers/usr/src/linux-headers-{release}"));
    relocate_headers(&headers, &dir.join("headers"))?;
    Ok(DebianKernel { image, modules, headers, release, toolchain: None })
}

/// The package with the highest version of the series that also has headers, e.g. `linux-image-6.1.0-54-amd64`.
/// Archives keep images longer than headers.
fn newest_image_package(apt: &Apt, series: &str) -> Result<Option<String>> {
    let numbers = |name: &str| -> Vec<u32> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let other = ["cloud", "rt", "dbg", "unsigned"];
    let headers = apt::package_names(apt, &format!("linux-headers-{series}."))?;
    let fits = |name: &String| {
        name.ends_with("-amd64")
            && !name.split('-').any(|part| other.contains(&part))
            && headers.contains(&name.replace("linux-image-", "linux-headers-"))
    };
    let images = apt::package_names(apt, &format!("linux-image-{series}."))?;
    Ok(images.into_iter().filter(fits).max_by_key(|name| numbers(name)))
}

fn unpack_image(apt: &Apt, package: &str, release: &str, dir: &Path) -> Result<()> {
    let raw = dir.join("raw");
    fs::create_dir_all(&raw)?;
    let mut names = vec![package.to_owned()];
    // Newer image packages only depend on the packages with the files.
    let part = |name: &String| {
        ["linux-binary-", "linux-modules-", "linux-base-"].iter().any(|p| name.starts_with(p))
    };
    names.extend(apt::dependencies(apt, package)?.into_iter().filter(part));
    let debs = apt::download(apt, &names, &raw)?;
    apt::unpack(&debs, &raw)?;
    if !raw.join("lib").exists() {
        symlink("usr/lib", raw.join("lib"))?; // as on an installed system; depmod supports no other path
    }
    let tree = raw.join("lib/modules").join(release);
    let images = [raw.join(format!("boot/vmlinuz-{release}")), tree.join("vmlinuz")];
    let image = images.iter().find(|image| image.is_file()).context("no kernel image in the package")?;
    fs::copy(image, dir.join("vmlinuz")).context("the kernel image")?;
    copy_modules(&raw, release, &dir.join("modules"))?;
    fs::remove_dir_all(&raw)?;
    Ok(())
}

/// Copies the selected modules and their dependencies uncompressed, since an emulated processor decompresses slowly.
fn copy_modules(root: &Path, release: &str, into: &Path) -> Result<()> {
    let tree = root.join("lib/modules").join(release);
    let staged = into.join("lib/modules").join(release);
    fs::create_dir_all(&staged)?;
    for file in ["modules.builtin", "modules.order", "modules.builtin.modinfo"] {
        fs::copy(tree.join(file), staged.join(file)).with_context(|| file.to_owned())?;
    }
    // Installing the package would have run depmod.
    output(depmod().arg("-b").arg(root).arg(release))?;
    let index = fs::read_to_string(tree.join("modules.dep"))?;
    for module in select_modules(&index) {
        let target = staged.join(&module);
        fs::create_dir_all(target.parent().context("module path")?)?;
        fs::copy(tree.join(&module), &target).with_context(|| module.clone())?;
        if module.ends_with(".xz") {
            output(command("xz", ["-d", "-f"]).arg(&target))?;
        }
    }
    output(depmod().arg("-b").arg(into).arg(release))?;
    Ok(())
}

fn depmod() -> Command {
    let program = find("depmod").unwrap_or_else(|| "depmod".into()); // in sbin, which a user's path may lack
    Command::new(program)
}

/// Selects modules from `modules.dep`, lines "path: dependency dependency" with transitive dependencies.
fn select_modules(index: &str) -> BTreeSet<String> {
    let stem = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.split(".ko").next().unwrap_or(file).replace('-', "_")
    };
    index
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(path, _)| MODULES.contains(&stem(path).as_str()))
        .flat_map(|(path, needs)| std::iter::once(path).chain(needs.split_whitespace()))
        .map(str::to_owned)
        .collect()
}

fn unpack_headers(apt: &Apt, release: &str, dir: &Path) -> Result<()> {
    let package = format!("linux-headers-{release}");
    let mut names = vec![package.clone()];
    names.extend(
        apt::dependencies(apt, &package)?
            .into_iter()
            .filter(|name| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-")),
    );
    let raw = dir.join("raw");
    fs::create_dir_all(&raw)?;
    let debs = apt::download(apt, &names, &raw)?;
    let headers = dir.join("headers");
    fs::create_dir_all(&headers)?;
    apt::unpack(&debs, &headers)?;
    fs::remove_dir_all(&raw)?;
    let _ = fs::remove_dir_all(headers.join("usr/share"));
    if !headers.join(format!("usr/src/linux-headers-{release}/Makefile")).is_file() {
        bail!("the headers of {release} have no Makefile");
    }
    Ok(())
}

/// Replaces `/usr/src` in the packaged Makefiles by the path of the unpacked headers.
fn relocate_headers(tree: &Path, root: &Path) -> Result<()> {
    let root = root.display().to_string();
    for file in [tree.join("Makefile"), tree.join(".kernelvariables")] {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if !text.contains(&root) && text.contains("/usr/src/") {
            fs::write(&file, text.replace("/usr/src/", &format!("{root}/usr/src/")))?;
        }
    }
    Ok(())
}
