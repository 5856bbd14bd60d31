//! From what is wanted to the text of the file.

use super::grammar::{PartitionsFile, parse};
use crate::{Error, MembershipTable, PKeyBase};
use ferroband_model::PKey;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What stands before our part of the file.
pub const BEGIN_MARKER: &str = "# ---- Ferroband writes from here; changes are lost ----";
/// What stands after it.
pub const END_MARKER: &str = "# ---- Ferroband writes to here ----";

/// GUIDs in one line: far from the length at which opensm cuts.
const GUIDS_PER_LINE: usize = 8;

/// The text for what is wanted, with everything of `existing` that is not ours as it is.
///
/// Refuses whatever opensm would not read as meant: the text is read back, and both our partitions and everybody
/// else's must come out as they went in.
pub fn render(existing: Option<&str>, wanted: &MembershipTable) -> Result<String, Error> {
    let theirs = existing.map(foreign_part).transpose()?.unwrap_or_default();
    let their_file = if theirs.trim().is_empty() { PartitionsFile::default() } else { parse(&theirs)? };
    let default = their_file.statements.iter().any(|statement| statement.number == PKey::DEFAULT.base());
    if let Some(taken) = their_file.statements.iter().find(|statement| {
        PKeyBase::new(statement.number).is_some_and(|key| wanted.members(key).next().is_some())
    }) {
        let problem = format!(
            "partition {:#06x} is both Ferroband's and somebody else's ({:?})",
            taken.number, taken.name
        );
        return Err(Error::UnsafePartitionsFile { problem });
    }
    let mut text = theirs;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = writeln!(text, "{BEGIN_MARKER}");
    if !default {
        // Every port reaches the subnet administration, and none reaches another through this partition.
        let _ = writeln!(text, "Default=0x7fff,ipoib,defmember=limited: ALL, SELF=full;");
    }
    for key in wanted.keys() {
        let number = key.number();
        let _ = write!(text, "fb{number:04x}={number:#06x},indx0,ipoib,defmember=full:");
        for (position, (guid, membership)) in wanted.members(key).enumerate() {
            let before = match position {
                0 => "\n ",
                _ if position % GUIDS_PER_LINE == 0 => ",\n ",
                _ => ", ",
            };
            let _ = write!(text, "{before}0x{:016x}={membership}", guid.value());
        }
        let _ = writeln!(text, ";");
    }
    let _ = writeln!(text, "{END_MARKER}");
    let understood = parse(&text)?;
    verify(&understood, &their_file, wanted)?;
    Ok(text)
}

/// The part of a text that is not ours.
fn foreign_part(text: &str) -> Result<String, Error> {
    let mut kept = String::new();
    let mut ours = false;
    for line in text.lines() {
        match line.trim() {
            BEGIN_MARKER if !ours => ours = true,
            END_MARKER if ours => ours = false,
            BEGIN_MARKER | END_MARKER => {
                let problem = "its marks are not in order; remove Ferroband's part by hand".to_owned();
                return Err(Error::UnsafePartitionsFile { problem });
            }
            _ if ours => {}
            _ => {
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    if ours {
        return Err(Error::UnsafePartitionsFile {
            problem: "Ferroband's part has no end; remove it by hand".to_owned(),
        });
    }
    Ok(kept)
}

/// What the reader found must be what was meant.
fn verify(
    understood: &PartitionsFile,
    theirs: &PartitionsFile,
    wanted: &MembershipTable,
) -> Result<(), Error> {
    let mut found = MembershipTable::default();
    let mut others = Vec::new();
    let mut default = false;
    for statement in &understood.statements {
        default |= statement.number == PKey::DEFAULT.base();
        let mine = PKeyBase::new(statement.number).filter(|key| wanted.members(*key).next().is_some());
        match mine {
            Some(key) => statement.members.iter().for_each(|(guid, kind)| found.set(key, *guid, *kind)),
            None => others.push(statement),
        }
    }
    let kept = theirs.statements.iter().all(|statement| others.contains(&statement));
    let problem = match () {
        () if !default => "it has no rule for the default partition",
        () if found != *wanted => "it does not hold what was wanted",
        () if !kept => "it lost a partition of somebody else",
        () => return Ok(()),
    };
    Err(Error::UnsafePartitionsFile { problem: problem.to_owned() })
}

/// The members of our part of a text, and whether the default partition lets everybody in as a full member.
pub fn parse_members(text: &str) -> Result<(MembershipTable, bool), Error> {
    let all = parse(text)?;
    let mut kinds: BTreeMap<&str, crate::Membership> = BTreeMap::new();
    let mut members = MembershipTable::default();
    for statement in &all.statements {
        match PKeyBase::new(statement.number) {
            Some(key) => statement.members.iter().for_each(|(guid, kind)| members.set(key, *guid, *kind)),
            None => kinds.extend(statement.groups.iter().map(|(group, kind)| (group.as_str(), *kind))),
        }
    }
    let open = ["ALL", "ALL_CAS"].iter().any(|group| kinds.get(group) == Some(&crate::Membership::Full));
    Ok((members, open))
}

#[cfg(test)]
mod tests;
