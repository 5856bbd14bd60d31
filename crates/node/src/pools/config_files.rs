//! Pool configuration files, read again when they change.
//!
//! A ConfigMap volume is a directory of symbolic links that are swapped all at once, so the directory is watched and
//! not the file.

use super::{DevicePool, ParsedPoolFile, PoolDefaults, PoolProblem, parse_pool_file};
use crate::{dir_watch::WatchedDir, discover::sysfs::sorted_names};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time,
};
use tracing::warn;

/// Interval at which files are read without an event, because a mount over a directory causes none.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct PoolSources {
    /// Files, and directories of files. If a directory contains a file named after the node, as the operator
    /// writes it, only that file is used. Otherwise all files in the directory that end in `.json` are used.
    pub paths: Vec<PathBuf>,
    pub node: String,
    pub defaults: PoolDefaults,
    /// Built-in pools and pools from the command line. Files and policies take precedence.
    pub pools: Vec<DevicePool>,
    /// Pools from SR-IOV policies; `None` if this daemon does not configure adapters. Files take precedence.
    pub policies: Option<watch::Receiver<Arc<Vec<DevicePool>>>>,
}

/// Pools of all sources, with unique resource names, and the problems found in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolConfig {
    pub pools: Vec<Arc<DevicePool>>,
    pub problems: Vec<PoolProblem>,
}

/// Pools in the last valid content of every file.
pub(super) type LastGoodPools = BTreeMap<PathBuf, Vec<DevicePool>>;

impl PoolSources {
    /// Reads all sources. If a file is invalid, the pools in its last valid content stay. If it is missing, its
    /// pools are removed.
    pub fn read(&self, last_good: &mut LastGoodPools) -> PoolConfig {
        let mut problems = Vec::new();
        let mut pools: Vec<Arc<DevicePool>> = Vec::new();
        let mut current = LastGoodPools::new();
        for path in self.files() {
            let file = path.display().to_string();
            let previous = last_good.remove(&path);
            let parsed = match fs::read_to_string(&path) {
                Ok(text) => parse_pool_file(&file, &text, &self.defaults),
                Err(e) => {
                    let cause = format!("cannot read the file: {e}");
                    let problems = vec![PoolProblem { file, field: String::new(), cause }];
                    ParsedPoolFile {
                        problems,
                        readable: e.kind() == std::io::ErrorKind::NotFound,
                        ..ParsedPoolFile::default()
                    }
                }
            };
            problems.extend(parsed.problems);
            let list = if parsed.readable { parsed.pools } else { previous.unwrap_or_default() };
            current.insert(path, list);
        }
        *last_good = current;
        let policies = self.policies.as_ref().map(|pools| pools.borrow().clone()).unwrap_or_default();
        for pool in last_good.values().flatten().chain(policies.iter()).chain(&self.pools) {
            match pools.iter().find(|other| other.resource == pool.resource) {
                Some(first) if first.file != pool.file => {
                    let cause = format!(
                        "{} is already configured in {}, which takes precedence",
                        pool.resource, first.file
                    );
                    problems.push(PoolProblem { file: pool.file.clone(), field: pool.field.clone(), cause });
                }
                Some(_) => {}
                None => pools.push(Arc::new(pool.clone())),
            }
        }
        PoolConfig { pools, problems }
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in &self.paths {
            if !path.is_dir() {
                files.push(path.clone());
                continue;
            }
            let node_file = path.join(&self.node);
            match !self.node.is_empty() && node_file.is_file() {
                true => files.push(node_file),
                false => files.extend(
                    sorted_names(path)
                        .iter()
                        .filter(|name| name.ends_with(".json"))
                        .map(|name| path.join(name)),
                ),
            }
        }
        files
    }

    /// Returns the configured directories, and the parent directories of configured files.
    fn watched_dirs(&self) -> BTreeSet<PathBuf> {
        let watched_dir = |path: &PathBuf| match (path.is_dir(), path.parent()) {
            (false, Some(parent)) if parent != Path::new("") => parent.to_owned(),
            (false, _) => PathBuf::from("."),
            (true, _) => path.clone(),
        };
        self.paths.iter().map(watched_dir).collect()
    }
}

/// Reads the sources whenever they change, and keeps `configured` current. Never returns.
pub async fn watch_pool_config(mut sources: PoolSources, configured: watch::Sender<Arc<PoolConfig>>) {
    let notify = Arc::new(Notify::new());
    let mut watchers = JoinSet::new();
    for dir in sources.watched_dirs() {
        watchers.spawn(notify_changes(dir, notify.clone()));
    }
    let mut last_good = LastGoodPools::new();
    loop {
        if let Some(policies) = &mut sources.policies {
            policies.mark_unchanged();
        }
        let current = sources.read(&mut last_good);
        configured.send_if_modified(|previous| {
            let changed = **previous != current;
            for problem in current.problems.iter().filter(|problem| !previous.problems.contains(problem)) {
                warn!(%problem, "problem in the device pool configuration");
            }
            if changed {
                *previous = Arc::new(current);
            }
            changed
        });
        let policies = async {
            // `changed` fails only if the sender is dropped because the daemon stops. Then wait for the end.
            let changed = match &mut sources.policies {
                Some(policies) => policies.changed().await.is_ok(),
                None => false,
            };
            if !changed {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = notify.notified() => {}
            () = policies => {}
            () = time::sleep(RESYNC_INTERVAL) => {}
        }
    }
}

/// Notifies `notify` when an entry of `dir` changes, and when the directory is created or removed. Never returns.
async fn notify_changes(dir: PathBuf, notify: Arc<Notify>) {
    loop {
        let mut watched = WatchedDir::watch_when_present(&dir).await;
        notify.notify_one();
        while watched.changed().await {
            notify.notify_one();
        }
        notify.notify_one();
    }
}
