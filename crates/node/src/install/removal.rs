//! Other programs that remove our CNI configuration, such as Cilium with its default `cni.exclusive=true`.
//!
//! Such a program removes the file as soon as it is written, so writing it again at once would never end. After a few
//! removals, each write waits longer than the one before.

use crate::resolve::CONFLIST;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// Removals in a row that are repaired at once. An administrator or an installer removes the file once or twice.
const TOLERATED_REMOVALS: u32 = 3;
/// Shortest and longest pause before the file is written again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));
/// If the file stays that long, earlier removals no longer count.
const STABLE_AFTER: Duration = Duration::from_secs(300);

/// How often our CNI configuration was removed after it was written.
#[derive(Debug, Default)]
pub struct RemovalCount {
    in_a_row: u32,
    /// When the file was written or first seen; `None` while it is missing.
    present_since: Option<Instant>,
    removed: Option<Instant>,
}

impl RemovalCount {
    pub fn record_present(&mut self, now: Instant) {
        let since = *self.present_since.get_or_insert(now);
        if now.duration_since(since) >= STABLE_AFTER {
            self.in_a_row = 0;
        }
    }

    pub fn record_missing(&mut self, now: Instant) {
        if let Some(since) = self.present_since.take() {
            let stable = now.duration_since(since) >= STABLE_AFTER;
            self.in_a_row = if stable { 1 } else { self.in_a_row + 1 };
            self.removed = Some(now);
        }
    }

    /// Whether another program keeps removing the file.
    pub fn is_contested(&self) -> bool {
        self.in_a_row > TOLERATED_REMOVALS
    }

    /// How long to wait until a missing file may be written again.
    pub fn pause(&self, now: Instant) -> Duration {
        let Some(removed) = self.removed.filter(|_| self.is_contested()) else { return Duration::ZERO };
        let doublings = (self.in_a_row - TOLERATED_REMOVALS - 1).min(16);
        let pause = (PAUSES.0 * 2_u32.pow(doublings)).min(PAUSES.1);
        pause.saturating_sub(now.duration_since(removed))
    }
}

/// Who removed our CNI configuration, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflistRemoval {
    pub cause: String,
    pub remedy: &'static str,
}

impl ConflistRemoval {
    /// Finds a renamed copy of our configuration in `folder`, which shows that another program renamed it.
    pub fn find_renamed(folder: &Path) -> Option<Self> {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut renamed: Vec<String> = names
            .filter(|name| name.strip_prefix(CONFLIST).is_some_and(|end| end.starts_with('.')))
            .collect();
        // The name that identifies a program comes first.
        renamed.sort_by_key(|name| (*name != RENAMED_BY_CILIUM, name.clone()));
        let name = renamed.into_iter().next()?;
        let (who, remedy) = match name == RENAMED_BY_CILIUM {
            true => ("Cilium", "set the Helm value cni.exclusive=false of Cilium"),
            false => ("another program", "configure it to keep the CNI configurations of other programs"),
        };
        Some(Self { cause: format!("{who} renamed {CONFLIST} to {name}"), remedy })
    }

    pub(super) fn explain(folder: &Path) -> Self {
        Self::find_renamed(folder).unwrap_or_else(|| Self {
            cause: format!("another program removes {}", folder.join(CONFLIST).display()),
            remedy: "find the program (`inotifywait`, `fatrace`, its log) and configure it to keep the file",
        })
    }
}

/// Name of our configuration after Cilium renamed it. Cilium's cleanup would rename it back.
pub(super) const RENAMED_BY_CILIUM: &str = "00-ferroband.conflist.cilium_bak";

#[cfg(test)]
mod tests;
