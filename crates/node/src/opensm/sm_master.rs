//! Who is master of the fabric that a port is in.

use super::OpensmProgram;
use ferroband_model::Guid;
use ferroband_partition::parse_guid;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long an answer may take.
const SMINFO_TIMEOUT: Duration = Duration::from_secs(5);

/// A master, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmMaster {
    /// Nobody answers.
    NoMaster,
    /// An opensm of ours, here or on another node.
    OwnOpensm,
    /// Somebody else, in words.
    Foreign(String),
}

/// Asks the fabric, by `sminfo` of infiniband-diags. Where there is none, what the port was told last (`sm_lid`) counts:
/// `lids` are that and the port's own.
pub fn query_sm_master(
    program: &OpensmProgram,
    device: &str,
    port: u32,
    lids: (u16, u16),
    ours: &BTreeSet<Guid>,
) -> Result<SmMaster, String> {
    let Some(file) = program.find_tool(Path::new("sminfo")) else {
        return Ok(match lids {
            (0, _) => SmMaster::NoMaster,
            (manager, own) if manager == own => SmMaster::OwnOpensm,
            (manager, _) => SmMaster::Foreign(format!(
                "at LID {manager} (whether it still answers cannot be told without sminfo of infiniband-diags)"
            )),
        });
    };
    let mut command = program.command(&file);
    if !device.is_empty() {
        command.args(["-C", device, "-P", &port.to_string()]);
    }
    command.args(["-t", "500"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("sminfo: {error}"))?;
    let until = Instant::now() + SMINFO_TIMEOUT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            // No master answers: that is how it ends.
            Ok(Some(_)) => return Ok(SmMaster::NoMaster),
            Ok(None) if Instant::now() < until => sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("sminfo does not end within {} s", SMINFO_TIMEOUT.as_secs()));
            }
        }
    }
    let mut text = String::new();
    let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut text));
    Ok(parse_sminfo(&text, ours))
}

/// `sminfo: sm lid 1 sm guid 0xe41d2d0301000001, activity count 6 priority 0 state 3 SMINFO_MASTER`
fn parse_sminfo(text: &str, ours: &BTreeSet<Guid>) -> SmMaster {
    let after =
        |word: &str| Some(text.split_once(word)?.1.split([',', ' ', '\n']).next().unwrap_or_default());
    let guid = after("sm guid 0x").and_then(parse_guid);
    match guid {
        Some(guid) if ours.contains(&guid) => SmMaster::OwnOpensm,
        Some(guid) if after("state ").is_some_and(|state| state == "3") => SmMaster::Foreign(format!(
            "on port {guid}, LID {}, with priority {}",
            after("sm lid ").unwrap_or("?"),
            after("priority ").unwrap_or("?")
        )),
        _ => SmMaster::NoMaster,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sminfo_says() {
        let text = "sminfo: sm lid 1 sm guid 0xe41d2d0301000001, activity count 6 priority 5 state 3 SMINFO_MASTER\n";
        let guid = Guid::new(0xe41d_2d03_0100_0001);
        assert_eq!(parse_sminfo(text, &BTreeSet::from([guid])), SmMaster::OwnOpensm);
        let SmMaster::Foreign(words) = parse_sminfo(text, &BTreeSet::new()) else { panic!("a stranger") };
        assert!(words.contains("e4:1d:2d:03:01:00:00:01") && words.contains("priority 5"), "{words}");
        // One that sleeps is nobody's master.
        assert_eq!(
            parse_sminfo(&text.replace("state 3 SMINFO_MASTER", "state 0 SMINFO_NOTACT"), &BTreeSet::new()),
            SmMaster::NoMaster
        );
        assert_eq!(parse_sminfo("garbage", &BTreeSet::new()), SmMaster::NoMaster);
    }
}
