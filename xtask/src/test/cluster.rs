//! The scenarios' lab: up before, down after, also when this process is killed.

use super::cargo;
use super::tally::Tally;
use crate::lab::{Lab, Up, down, up};
use anyhow::Result;

/// Bring a lab up, run the scenarios, their loops so many rounds, take it down.
pub fn run(tally: &mut Tally, only: Option<&str>, keep: bool, rounds: usize) -> Result<()> {
    let name = if keep { "test".to_string() } else { format!("test-{}", std::process::id()) };
    let lab = Lab::named(&name)?;
    let owner = (!keep).then(std::process::id);
    let result =
        up(&lab, &Up { nodes: Some(3), install: true, profile: "default".to_string(), owner, ..Up::again() })
            .and_then(|()| cargo::cluster(tally, only, &name, rounds));
    if keep {
        eprintln!("the lab is left up: cargo xtask lab --name {name} status");
    } else {
        tally.check("the lab goes without a trace", || down(&lab).and_then(|()| traceless(&lab)));
    }
    result
}

fn traceless(lab: &Lab) -> Result<()> {
    let left = crate::lab::traces(lab);
    if left.is_empty() { Ok(()) } else { anyhow::bail!("left behind: {}", left.join(", ")) }
}
