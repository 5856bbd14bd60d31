//! Running a case: its calls in order, each checked before the next.

use crate::case::{CaseCall, ConformanceCase};
use crate::expectation::{CallOutput, check_expectation};
use crate::fixture::{ConformanceFixture, ip, link_names};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Run `case` with `binary` under `name`. Returns the deviations from the expectations.
pub fn run_case(case: &ConformanceCase, name: &str, binary: &Path) -> Result<Vec<String>> {
    let fixture = ConformanceFixture::new(case, name, binary)?;
    let before = link_names(&ip("link show")?);
    let mut problems = Vec::new();
    let mut result = Value::Null;
    for (position, call) in case.calls.iter().enumerate() {
        let number = position + 1;
        for arguments in &call.pod {
            fixture.ip(arguments).with_context(|| format!("before call {number}"))?;
        }
        let output = run_call(&fixture, name, call, &result)?;
        if call.command == "ADD" && output.exit == Some(0) {
            result = serde_json::from_slice(&output.stdout).unwrap_or_default();
        }
        let deviations = check_expectation(&fixture, &call.expect, &output, &before)?;
        let describe = |problem| format!("call {number} ({}): {problem}", call.command);
        problems.extend(deviations.into_iter().map(describe));
        if !problems.is_empty() {
            problems.push(format!("standard output: {}", String::from_utf8_lossy(&output.stdout).trim()));
            problems.push(format!("standard error: {}", output.stderr.trim()));
            return Ok(problems);
        }
    }
    for lease in fs::read_dir(fixture.leases_dir())? {
        problems.push(format!("lease {} was not removed", lease?.file_name().display()));
    }
    Ok(problems)
}

fn run_call(fixture: &ConformanceFixture, name: &str, call: &CaseCall, result: &Value) -> Result<CallOutput> {
    let (plugins, netns) = (fixture.plugin_dir(), fixture.netns());
    let defaults = [
        ("CNI_COMMAND", call.command.clone()),
        ("CNI_CONTAINERID", "c1".to_owned()),
        ("CNI_IFNAME", "net1".to_owned()),
        ("CNI_NETNS", netns.clone()),
        ("CNI_PATH", plugins.display().to_string()),
    ];
    let defaults = defaults.map(|(name, value)| (name.to_owned(), value));
    let mut variables: BTreeMap<String, String> = defaults.into_iter().collect();
    for (name, value) in &call.env {
        match value {
            Some(value) => variables.insert(name.clone(), value.replace("$NETNS", &netns)),
            None => variables.remove(name),
        };
    }
    let stdin = match &call.text {
        Some(text) => text.clone(),
        None => call.config.to_string().replace("\"$RESULT\"", &result.to_string()).replace("$NETNS", &netns),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut child = Command::new(plugins.join(name))
        .env_clear()
        .env("PATH", path)
        .envs(&variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut pipe) = child.stdin.take() {
        // The plugin may exit without reading standard input.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    let output = child.wait_with_output()?;
    Ok(CallOutput {
        exit: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
