//! Kubernetes, containerd and Helm, built once from the Go module proxy into the cache.

use crate::cache;
use crate::command::command;
use crate::progress::ProgressStep;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Kubernetes release, the same as in `lab/cluster/kubernetes/go.mod`.
pub const KUBERNETES: &str = "v1.36.3";
/// containerd release, the same as in `lab/cluster/containerd/go.mod`.
pub const CONTAINERD: &str = "v2.4.2";

/// Names of the multi-call Kubernetes binary.
const KUBERNETES_PROGRAMS: [&str; 6] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"];

/// The folder with all programs of the cluster; builds them if missing.
pub fn ensure_built() -> Result<PathBuf> {
    let lab = cache::checkout().join("lab/cluster");
    let sources: Vec<PathBuf> = ["kubernetes/go.mod", "kubernetes/main.go", "containerd/go.mod"]
        .iter()
        .map(|f| lab.join(f))
        .collect();
    let key = cache::hash_files(&sources)?;
    let folder =
        cache::root()?.join(format!("programs/kubernetes-{KUBERNETES}-containerd-{CONTAINERD}-{key}"));
    if folder.join("complete").exists() {
        return Ok(folder);
    }
    let go = crate::tools::ensure_go(26)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let number = KUBERNETES.trim_start_matches("v1.").split('.').next().unwrap_or_default();
    let stamp = format!(
        "-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES} \
         -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor={number} \
         -X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES}"
    );
    go_build(
        &go,
        &format!("Kubernetes {KUBERNETES}"),
        &lab.join("kubernetes"),
        &stamp,
        &folder.join("kubernetes"),
        &["."],
    )?;
    go_build(
        &go,
        &format!("containerd {CONTAINERD}"),
        &lab.join("containerd"),
        "-s -w",
        &folder,
        &[
            "github.com/containerd/containerd/v2/cmd/containerd",
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            "github.com/containerd/containerd/v2/cmd/ctr",
        ],
    )?;
    for name in KUBERNETES_PROGRAMS {
        let link = folder.join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("kubernetes", &link)
            .with_context(|| format!("cannot link {}", link.display()))?;
    }
    fs::write(folder.join("complete"), "").context("cannot mark the programs complete")?;
    Ok(folder)
}

/// Helm release, the same as in `lab/cluster/helm/go.mod`.
pub const HELM: &str = "v4.3.1";

/// Path of Helm; builds it if missing. Separate, so that a cluster alone does not wait for it.
pub fn ensure_helm() -> Result<PathBuf> {
    let module = cache::checkout().join("lab/cluster/helm");
    let key = cache::hash_files(&[module.join("go.mod")])?;
    let folder = cache::root()?.join(format!("programs/helm-{HELM}-{key}"));
    let program = folder.join("helm");
    if folder.join("complete").exists() {
        return Ok(program);
    }
    let go = crate::tools::ensure_go(26)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let stamp = format!("-s -w -X helm.sh/helm/v4/internal/version.version={HELM}");
    go_build(&go, &format!("Helm {HELM}"), &module, &stamp, &program, &["helm.sh/helm/v4/cmd/helm"])?;
    fs::write(folder.join("complete"), "").context("cannot mark Helm complete")?;
    Ok(program)
}

/// `go build` with a progress line that counts compiled packages.
fn go_build(
    go: &Path,
    title: &str,
    module: &Path,
    ldflags: &str,
    out: &Path,
    packages: &[&str],
) -> Result<()> {
    let mut step = ProgressStep::begin(format!("building {title}"));
    let go = go.to_string_lossy();
    let mut list = command(&go, ["list", "-deps"]);
    list.args(packages).current_dir(module).stderr(Stdio::null());
    step.update("fetching modules");
    let total = crate::command::output(&mut list)?.lines().count();

    let mut child = command(&go, ["build", "-v", "-trimpath", "-ldflags", ldflags, "-o"])
        .arg(out)
        .args(packages)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run go build")?;
    let mut log = String::new();
    let mut done = 0;
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines() {
            let line = line.context("reading from go build")?;
            done += 1;
            step.update(format!("{done} of {total} packages ({line})"));
            log.push_str(&line);
            log.push('\n');
        }
    }
    let status = child.wait().context("waiting for go build")?;
    if !status.success() {
        step.fail();
        bail!("go build of {title}: {status}\n{}", crate::command::tail(&log, 30));
    }
    step.finish(format!("{done} packages compiled, the others were cached"));
    Ok(())
}
