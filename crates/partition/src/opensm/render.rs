//! Rendering of `partitions.conf`.

use super::grammar::{PartitionsFile, parse};
use crate::{Error, Membership, MembershipTable, RequestedPKey};
use ferroband_model::{Guid, PKey};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// First line of Ferroband's section.
pub const BEGIN_MARKER: &str = "# ---- Ferroband writes from here; changes are lost ----";
/// Last line of Ferroband's section.
pub const END_MARKER: &str = "# ---- Ferroband writes to here ----";

/// GUIDs per line, far below the length at which opensm truncates lines.
const GUIDS_PER_LINE: usize = 8;

/// Renders a partitions file with the desired memberships. Preserves everything of `existing` outside of
/// Ferroband's section.
///
/// The result is parsed again. Returns an error unless it contains exactly the desired memberships and all
/// partitions from outside of Ferroband's section.
pub fn render(existing: Option<&str>, desired: &MembershipTable) -> Result<String, Error> {
    let foreign = existing.map(foreign_part).transpose()?.unwrap_or_default();
    let foreign_file = if foreign.trim().is_empty() { PartitionsFile::default() } else { parse(&foreign)? };
    let default = foreign_file.statements.iter().any(|statement| statement.number == PKey::DEFAULT.base());
    if let Some(conflict) = foreign_file.statements.iter().find(|statement| {
        RequestedPKey::new(statement.number).is_some_and(|key| desired.members(key).next().is_some())
    }) {
        let problem = format!(
            "partition {:#06x} of Ferroband is also defined outside of Ferroband's section, as {:?}",
            conflict.number, conflict.name
        );
        return Err(Error::UnsafePartitionsFile { problem });
    }
    let mut text = foreign;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = writeln!(text, "{BEGIN_MARKER}");
    if !default {
        // opensm's own default: hosts and storage reach each other. Functions are limited members, so that pods
        // cannot reach each other in this partition. Of two entries of one port, opensm uses the last.
        let membership = desired.default_membership();
        let _ = write!(text, "Default=0x7fff,ipoib,defmember={membership}: ALL, SELF=full");
        let functions = desired.functions().iter().map(|guid| (*guid, Membership::Limited));
        let functions: Vec<_> = functions.filter(|_| membership == Membership::Full).collect();
        text.push_str(if functions.is_empty() { "" } else { "," });
        write_ports(&mut text, &functions);
    }
    for key in desired.keys() {
        // `indx0` belongs to the ports of one statement, and opensm merges statements with the same P_Key
        // (osm_prtn_config.c). Physical ports keep the default partition at index 0, which their hosts use.
        let number = key.number();
        for (is_function, flag) in [(true, ",indx0"), (false, "")] {
            let ports: Vec<_> =
                desired.members(key).filter(|(guid, _)| desired.is_function(*guid) == is_function).collect();
            if !ports.is_empty() {
                let _ = write!(text, "fb{number:04x}={number:#06x}{flag},ipoib,defmember=full:");
                write_ports(&mut text, &ports);
            }
        }
    }
    let _ = writeln!(text, "{END_MARKER}");
    let parsed = parse(&text)?;
    verify(&parsed, &foreign_file, desired)?;
    Ok(text)
}

/// Writes the ports of a statement, several per line, and ends the statement.
fn write_ports(text: &mut String, ports: &[(Guid, Membership)]) {
    for (position, (guid, membership)) in ports.iter().enumerate() {
        let separator = match position {
            0 => "\n ",
            _ if position % GUIDS_PER_LINE == 0 => ",\n ",
            _ => ", ",
        };
        let _ = write!(text, "{separator}0x{:016x}={membership}", guid.value());
    }
    let _ = writeln!(text, ";");
}

/// Returns the text outside of Ferroband's section. Returns an error if the first or the last line of the
/// section is missing or out of order.
fn foreign_part(text: &str) -> Result<String, Error> {
    let mut preserved = String::new();
    let mut in_section = false;
    // Line ends are kept as they are, so that a file of another system is not changed again and again.
    for line in text.split_inclusive('\n') {
        match line.trim() {
            BEGIN_MARKER if !in_section => in_section = true,
            END_MARKER if in_section => in_section = false,
            BEGIN_MARKER | END_MARKER => {
                let problem =
                    "markers of Ferroband's section are out of order; remove the section manually".to_owned();
                return Err(Error::UnsafePartitionsFile { problem });
            }
            _ if in_section => {}
            _ => preserved.push_str(line),
        }
    }
    if in_section {
        return Err(Error::UnsafePartitionsFile {
            problem: "Ferroband's section has no end marker; remove the section manually".to_owned(),
        });
    }
    Ok(preserved)
}

/// Checks that the rendered file defines the default partition, the desired memberships and all partitions of
/// `foreign`.
fn verify(parsed: &PartitionsFile, foreign: &PartitionsFile, desired: &MembershipTable) -> Result<(), Error> {
    let mut found = MembershipTable::default();
    let mut foreign_statements = Vec::new();
    let mut default = false;
    for statement in &parsed.statements {
        default |= statement.number == PKey::DEFAULT.base();
        let own = RequestedPKey::new(statement.number).filter(|key| desired.members(*key).next().is_some());
        match own {
            Some(key) => statement.members.iter().for_each(|(guid, kind)| found.set(key, *guid, *kind)),
            None => foreign_statements.push(statement),
        }
    }
    let preserved = foreign.statements.iter().all(|statement| foreign_statements.contains(&statement));
    let problem = match () {
        () if !default => "it does not define the default partition",
        () if !found.has_same_members(desired) => "it does not contain the desired memberships",
        () if !preserved => "it lost a partition defined outside of Ferroband's section",
        () => return Ok(()),
    };
    Err(Error::UnsafePartitionsFile { problem: problem.to_owned() })
}

/// Returns the table in a partitions file, and whether functions are full members of the default partition, so that
/// partitions do not isolate. The functions are the members with `indx0` and the limited members of the default
/// partition.
pub fn parse_members(text: &str) -> Result<(MembershipTable, bool), Error> {
    let file = parse(text)?;
    let mut groups: BTreeMap<&str, Membership> = BTreeMap::new();
    let mut limited = BTreeSet::new();
    let mut members = MembershipTable::default();
    for statement in &file.statements {
        match RequestedPKey::new(statement.number) {
            Some(key) => {
                for (guid, kind) in &statement.members {
                    members.set(key, *guid, *kind);
                    if statement.index0 {
                        members.add_function(*guid);
                    }
                }
            }
            None => {
                groups.extend(statement.groups.iter().map(|(group, kind)| (group.as_str(), *kind)));
                let of_kind = statement.members.iter().filter(|(_, kind)| *kind == Membership::Limited);
                limited.extend(of_kind.map(|(guid, _)| *guid));
            }
        }
    }
    let all_full = ["ALL", "ALL_CAS"].iter().any(|group| groups.get(group) == Some(&Membership::Full));
    let functions_limited = !limited.is_empty() && members.functions().is_subset(&limited);
    members.set_default_membership(if all_full { Membership::Full } else { Membership::Limited });
    limited.into_iter().for_each(|guid| members.add_function(guid));
    Ok((members, all_full && !functions_limited))
}

#[cfg(test)]
mod tests;
