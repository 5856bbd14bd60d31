//! Configuration files, read again whenever they change.
//!
//! A ConfigMap in a volume is a folder whose files are links that are all swapped at once. So it is the folder that is
//! watched, never a file.

use super::{DevicePool, ParsedPoolFile, PoolDefaults, PoolProblem, parse_pool_file};
use crate::{Error, dir_watch::WatchedDir, discover::sysfs::sorted_names, error::error_chain};
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
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Files are read this often without a sign: a folder that is mounted over gives none.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);

/// Where pools are configured.
#[derive(Clone, Debug)]
pub struct PoolSources {
    /// Files, and folders of files. In a folder with a file called like the node, as the operator makes it, that one
    /// counts; else all that end in `.json`.
    pub paths: Vec<PathBuf>,
    /// The node's name.
    pub node: String,
    /// What a file need not say.
    pub defaults: PoolDefaults,
    /// Pools that need no file.
    pub pools: Vec<DevicePool>,
    /// Pools that come from policies, where there are any; files count before them.
    pub policies: Option<watch::Receiver<Arc<Vec<DevicePool>>>>,
}

/// What all files say together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolConfig {
    /// The pools.
    pub pools: Vec<Arc<DevicePool>>,
    /// What is wrong.
    pub problems: Vec<PoolProblem>,
}

/// The last of every file that could be read.
pub(super) type LastGoodPools = BTreeMap<PathBuf, Vec<DevicePool>>;

impl PoolSources {
    /// Read everything. A file that is broken counts as it last was when it was not.
    pub fn read(&self, memory: &mut LastGoodPools) -> PoolConfig {
        let mut problems = Vec::new();
        let mut pools: Vec<Arc<DevicePool>> = Vec::new();
        let mut now = LastGoodPools::new();
        for path in self.files() {
            let file = path.display().to_string();
            let known = memory.remove(&path);
            let said = match fs::read_to_string(&path) {
                Ok(text) => parse_pool_file(&file, &text, &self.defaults),
                Err(e) => {
                    let cause = format!("cannot be read: {e}");
                    let problems = vec![PoolProblem { file, field: String::new(), cause }];
                    ParsedPoolFile {
                        problems,
                        readable: e.kind() == std::io::ErrorKind::NotFound,
                        ..ParsedPoolFile::default()
                    }
                }
            };
            problems.extend(said.problems);
            let list = if said.readable { said.pools } else { known.unwrap_or_default() };
            now.insert(path, list);
        }
        *memory = now;
        let policies = self.policies.as_ref().map(|pools| pools.borrow().clone()).unwrap_or_default();
        for pool in memory.values().flatten().chain(policies.iter()).chain(&self.pools) {
            match pools.iter().find(|other| other.resource == pool.resource) {
                Some(first) if first.file != pool.file => {
                    let cause =
                        format!("{} is configured in {}, too, which counts", pool.resource, first.file);
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
            let own = path.join(&self.node);
            match !self.node.is_empty() && own.is_file() {
                true => files.push(own),
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

    /// The folders whose changes matter.
    fn watched_dirs(&self) -> BTreeSet<PathBuf> {
        let folder = |path: &PathBuf| match (path.is_dir(), path.parent()) {
            (false, Some(parent)) if parent != Path::new("") => parent.to_owned(),
            (false, _) => PathBuf::from("."),
            (true, _) => path.clone(),
        };
        self.paths.iter().map(folder).collect()
    }
}

/// Keep `configured` as the files say, until `stop`.
pub async fn watch_pool_config(
    mut sources: PoolSources,
    configured: watch::Sender<Arc<PoolConfig>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let sign = Arc::new(Notify::new());
    let mut watching = JoinSet::new();
    for folder in sources.watched_dirs() {
        watching.spawn(notify_changes(folder, sign.clone()));
    }
    let mut memory = LastGoodPools::new();
    loop {
        if let Some(policies) = &mut sources.policies {
            policies.mark_unchanged();
        }
        let now = sources.read(&mut memory);
        configured.send_if_modified(|known| {
            let changed = **known != now;
            for problem in now.problems.iter().filter(|problem| !known.problems.contains(problem)) {
                warn!(%problem, "device configuration");
            }
            if changed {
                *known = Arc::new(now);
            }
            changed
        });
        let policies = async {
            // Its sender ends with the daemon.
            let changed = match &mut sources.policies {
                Some(policies) => policies.changed().await.is_ok(),
                None => false,
            };
            if !changed {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = sign.notified() => {}
            () = policies => {}
            () = time::sleep(RESYNC_INTERVAL) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Give a sign whenever the folder changes, also while it comes and goes.
async fn notify_changes(folder: PathBuf, sign: Arc<Notify>) {
    loop {
        let watched = async {
            let mut watched = WatchedDir::watch_when_present(&folder).await?;
            loop {
                sign.notify_one();
                if !watched.changed().await {
                    return Ok::<_, Error>(());
                }
            }
        };
        if let Err(e) = watched.await {
            warn!(error = %error_chain(&e), "reading it every {} s instead", RESYNC_INTERVAL.as_secs());
            time::sleep(RESYNC_INTERVAL).await;
        }
    }
}
