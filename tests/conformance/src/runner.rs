//! Playing a case: its calls one after the other, each judged before the next.

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

/// Play `case` with `binary` called `name`. Returns what is not as it should be.
pub fn run_case(case: &ConformanceCase, name: &str, binary: &Path) -> Result<Vec<String>> {
    let stage = ConformanceFixture::new(case, name, binary)?;
    let before = link_names(&ip("link show")?);
    let mut problems = Vec::new();
    let mut result = Value::Null;
    for (position, call) in case.calls.iter().enumerate() {
        let number = position + 1;
        for arguments in &call.pod {
            stage.ip(arguments).with_context(|| format!("before call {number}"))?;
        }
        let answer = run_call(&stage, name, call, &result)?;
        if call.command == "ADD" && answer.exit == Some(0) {
            result = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        }
        let wrong = check_expectation(&stage, &call.expect, &answer, &before)?;
        let told = |problem| format!("call {number} ({}): {problem}", call.command);
        problems.extend(wrong.into_iter().map(told));
        if !problems.is_empty() {
            problems.push(format!("it printed: {}", String::from_utf8_lossy(&answer.stdout).trim()));
            problems.push(format!("and to standard error: {}", answer.stderr.trim()));
            return Ok(problems);
        }
    }
    for lease in fs::read_dir(stage.leases_dir())? {
        problems.push(format!("the lease {} is left", lease?.file_name().display()));
    }
    Ok(problems)
}

fn run_call(stage: &ConformanceFixture, name: &str, call: &CaseCall, result: &Value) -> Result<CallOutput> {
    let (plugins, netns) = (stage.plugin_dir(), stage.netns());
    let usual = [
        ("CNI_COMMAND", call.command.clone()),
        ("CNI_CONTAINERID", "c1".to_owned()),
        ("CNI_IFNAME", "net1".to_owned()),
        ("CNI_NETNS", netns.clone()),
        ("CNI_PATH", plugins.display().to_string()),
    ];
    let usual = usual.map(|(name, value)| (name.to_owned(), value));
    let mut variables: BTreeMap<String, String> = usual.into_iter().collect();
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
        // A plugin may answer without reading what it does not need.
        let _ = pipe.write_all(stdin.as_bytes());
    }
    let output = child.wait_with_output()?;
    Ok(CallOutput {
        exit: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
