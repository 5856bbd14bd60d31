//! Helpers that read sysfs. An unreadable file counts as missing, because a device may be removed at any time.

use std::{fs, path::Path};

/// Returns the text of an attribute without trailing whitespace; `None` if it is empty or cannot be read.
pub fn read_text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the names in a directory, sorted so that `mlx5_10` comes after `mlx5_9`; empty if it cannot be read.
pub fn sorted_names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_by_cached_key(|name| split_number(name));
    names
}

/// Splits a name such as `uverbs12` into `uverbs` and 12.
fn split_number(name: &str) -> (String, u64) {
    let word = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    (word.to_owned(), name[word.len()..].parse().unwrap_or_default())
}

/// Returns the link type of the interface at `netdev` in sysfs: `ether`, `infiniband` or another ARPHRD number
/// (linux/if_arp.h).
pub fn link_type(netdev: &Path) -> Option<String> {
    match read_text(&netdev.join("type"))?.as_str() {
        "1" => Some("ether".to_owned()),
        "32" => Some("infiniband".to_owned()),
        other => Some(other.to_owned()),
    }
}
