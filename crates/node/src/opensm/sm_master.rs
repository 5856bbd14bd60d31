//! Determines the master subnet manager of the fabric.

use super::OpensmProgram;
use ferroband_model::Guid;
use ferroband_partition::parse_guid;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SMINFO_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmMaster {
    /// No master subnet manager answers.
    NoMaster,
    /// An opensm that Ferroband runs, on this or another node, with the GUID of its port if it is known.
    OwnOpensm(Option<Guid>),
    /// A subnet manager that Ferroband does not run, with a description for messages.
    Foreign(String),
}

/// Queries the fabric with `sminfo` of infiniband-diags. If it is not installed, the answer is derived from
/// `lids`: the LID of the subnet manager and that of the port itself.
pub fn query_sm_master(
    program: &OpensmProgram,
    device: &str,
    port: u32,
    lids: (u16, u16),
    own_ports: &BTreeSet<Guid>,
) -> Result<SmMaster, String> {
    let Some(file) = program.find_tool(Path::new("sminfo")) else {
        return Ok(match lids {
            (0, _) => SmMaster::NoMaster,
            (manager, own) if manager == own => SmMaster::OwnOpensm(None),
            (manager, _) => SmMaster::Foreign(format!(
                "at LID {manager} (to check whether it still answers, sminfo is needed: set the Helm value \
                 node.subnetManager=true)"
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
            // sminfo exits with an error if no master answers.
            Ok(Some(_)) => return Ok(SmMaster::NoMaster),
            Ok(None) if Instant::now() < until => sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("sminfo did not finish within {} s", SMINFO_TIMEOUT.as_secs()));
            }
        }
    }
    let mut text = String::new();
    let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut text));
    Ok(parse_sminfo(&text, own_ports))
}

/// Parses the output of sminfo, which looks like this:
/// `sminfo: sm lid 1 sm guid 0xe41d2d0301000001, activity count 6 priority 0 state 3 SMINFO_MASTER`
fn parse_sminfo(text: &str, own_ports: &BTreeSet<Guid>) -> SmMaster {
    let after =
        |word: &str| Some(text.split_once(word)?.1.split([',', ' ', '\n']).next().unwrap_or_default());
    let guid = after("sm guid 0x").and_then(parse_guid);
    match guid {
        Some(guid) if own_ports.contains(&guid) => SmMaster::OwnOpensm(Some(guid)),
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
    fn sminfo_output_is_parsed() {
        let text = "sminfo: sm lid 1 sm guid 0xe41d2d0301000001, activity count 6 priority 5 state 3 SMINFO_MASTER\n";
        let guid = Guid::new(0xe41d_2d03_0100_0001);
        assert_eq!(parse_sminfo(text, &BTreeSet::from([guid])), SmMaster::OwnOpensm(Some(guid)));
        let SmMaster::Foreign(description) = parse_sminfo(text, &BTreeSet::new()) else {
            panic!("must be foreign")
        };
        assert!(
            description.contains("e4:1d:2d:03:01:00:00:01") && description.contains("priority 5"),
            "{description}"
        );
        // A subnet manager in the state NOTACT (not active) must not count as the master.
        assert_eq!(
            parse_sminfo(&text.replace("state 3 SMINFO_MASTER", "state 0 SMINFO_NOTACT"), &BTreeSet::new()),
            SmMaster::NoMaster
        );
        assert_eq!(parse_sminfo("garbage", &BTreeSet::new()), SmMaster::NoMaster);
    }
}
