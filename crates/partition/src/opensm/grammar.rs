//! A strict parser for `partitions.conf`.
//!
//! opensm's own parser accepts keyword prefixes, truncates long lines and ignores what it does not understand. This
//! parser rejects all of that, so opensm reads every file that it accepts in the same way.

use crate::{Error, Membership};
use ferroband_model::{Guid, PKey};

/// opensm reads lines into a buffer of 4096 bytes and truncates longer ones.
const MAX_LINE_LENGTH: usize = 4000;

/// A parsed `partitions.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionsFile {
    /// Statements in the order of the file. Several statements may define the same partition.
    pub statements: Vec<PartitionStatement>,
}

/// One statement: a partition and some of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionStatement {
    /// Name of the partition, before the first equals sign of the statement.
    pub name: String,
    /// The P_Key without the membership bit.
    pub number: u16,
    /// Whether the P_Key goes to index 0 of the P_Key table (`indx0`).
    pub index0: bool,
    /// Whether IPoIB is enabled in the partition (`ipoib`).
    pub ipoib: bool,
    /// Member ports by GUID.
    pub members: Vec<(Guid, Membership)>,
    /// Port groups that are members, such as `ALL` and `SELF`.
    pub groups: Vec<(String, Membership)>,
}

/// Parses a partitions file. An empty file is an error, because opensm would make every port a full member of
/// the default partition.
pub fn parse(text: &str) -> Result<PartitionsFile, Error> {
    let wrong = |problem: String| Error::UnsafePartitionsFile { problem };
    let mut bare = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.len() > MAX_LINE_LENGTH {
            return Err(wrong(format!(
                "line {} has {} characters, more than {MAX_LINE_LENGTH}; opensm truncates long lines",
                number + 1,
                line.len()
            )));
        }
        if !line.is_ascii() {
            let (code, _) = line.split_once('#').unwrap_or((line, ""));
            if !code.is_ascii() {
                return Err(wrong(format!("line {} contains non-ASCII characters", number + 1)));
            }
        }
        let code = line.split('#').next().unwrap_or_default();
        // A statement's header must be on one line.
        if code.contains(['=', ':']) && !code.contains(':') && bare.trim_end().ends_with(';') {
            return Err(wrong(format!("line {}: the header of a statement spans several lines", number + 1)));
        }
        bare.push_str(code);
        bare.push('\n');
    }
    let mut statements = Vec::new();
    for statement in bare.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        statements.push(parse_statement(statement).map_err(|problem| {
            let shown: String = statement.chars().take(60).collect();
            wrong(format!("{problem} in {shown:?}"))
        })?);
    }
    if statements.is_empty() {
        return Err(wrong("it is empty; opensm would make all ports full members of 0x7fff".to_owned()));
    }
    if !bare.trim_end().ends_with(';') {
        return Err(wrong("the last statement is not terminated by ;".to_owned()));
    }
    Ok(PartitionsFile { statements })
}

fn parse_statement(text: &str) -> Result<PartitionStatement, String> {
    let (head, members) = text.split_once(':').ok_or("missing colon")?;
    if head.contains('\n') {
        return Err("header spans several lines".to_owned());
    }
    let mut statement = PartitionStatement::default();
    let mut default = Membership::Limited;
    let mut parts = head.split(',').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let (name, number) = first.split_once('=').ok_or("partition without a P_Key")?;
    statement.name = name.trim().to_owned();
    statement.number = parse_partition_number(number.trim())?;
    for flag in parts {
        match flag.split_once('=').map_or((flag, None), |(flag, value)| (flag.trim(), Some(value.trim()))) {
            ("indx0", None) => statement.index0 = true,
            ("ipoib", None) => statement.ipoib = true,
            ("defmember", Some(value)) => default = value.parse()?,
            ("rate" | "mtu" | "sl" | "scope" | "Q_Key" | "TClass" | "FlowLabel", Some(value)) => {
                parse_c_number(value).ok_or_else(|| format!("value of flag {flag:?} is not a number"))?;
            }
            _ => return Err(format!("unknown partition flag {flag:?}")),
        }
    }
    for member in members.split(',').map(str::trim).filter(|member| !member.is_empty()) {
        let (port, kind) =
            member.split_once('=').map_or((member, None), |(port, kind)| (port.trim(), Some(kind.trim())));
        let kind = kind.map_or(Ok(default), str::parse)?;
        match port {
            "ALL" | "ALL_CAS" | "ALL_SWITCHES" | "ALL_ROUTERS" | "SELF" | "NONE" => {
                statement.groups.push((port.to_owned(), kind));
            }
            guid => {
                // Without 0x, opensm would read the GUID as an octal or decimal number. A GUID with fewer
                // than 16 digits may have been truncated.
                let digits = guid.strip_prefix("0x").filter(|digits| digits.len() == 16);
                let guid = digits.and_then(|digits| digits.parse().ok());
                statement
                    .members
                    .push((guid.ok_or_else(|| format!("{port:?} is not a GUID of 0x and 16 digits"))?, kind));
            }
        }
    }
    Ok(statement)
}

/// Parses a P_Key without the membership bit. Rejects 0, which opensm replaces by a number of its own, and
/// numbers of more than 15 bits, which opensm truncates.
fn parse_partition_number(text: &str) -> Result<u16, String> {
    let number = parse_c_number(text).and_then(|number| u16::try_from(number).ok());
    let number = number.filter(|number| (1..=PKey::DEFAULT.base()).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a P_Key from 0x0001 to 0x7fff"))
}

/// Parses a number as `strtoull` with base 0 does.
fn parse_c_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}
