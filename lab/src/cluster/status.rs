//! Status of a lab.

use super::{Lab, control, processes, up};
use anyhow::Result;

/// Prints the status; the exit code is 0 if all machines are healthy.
pub fn print_status(lab: &Lab) -> Result<i32> {
    let Ok(nodes) = lab.nodes() else {
        println!("lab {}: not up", lab.name());
        return Ok(3);
    };
    let api = control::check_ready(lab);
    let states = up::node_ready_conditions(lab).unwrap_or_default();
    let mut healthy = api.is_ok();
    println!("{:<12} {:<8} {:<8} PROGRAMS", "MACHINE", "POWER", "READY");
    for name in std::iter::once("control".to_string()).chain(nodes) {
        let machine = lab.find_machine(&name)?;
        let on = machine.init_pid().is_some();
        let running = if on { processes::running_programs(&machine)? } else { Default::default() };
        let ready = match name.as_str() {
            "control" => api.is_ok(),
            _ => states.get(&name).map(String::as_str) == Some("True"),
        };
        healthy &= on && ready;
        let running: Vec<String> = running.into_iter().collect();
        println!(
            "{name:<12} {:<8} {:<8} {}",
            if on { "on" } else { "off" },
            if ready { "yes" } else { "no" },
            running.join(" ")
        );
    }
    Ok(if healthy { 0 } else { 1 })
}
