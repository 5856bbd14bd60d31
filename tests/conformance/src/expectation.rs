//! Checking the outcome of a call: its output, and the state shown by `ip`.

use crate::case::Expectation;
use crate::fixture::{ConformanceFixture, ip, link_names};
use anyhow::Result;
use serde_json::Value;

/// Output of a call.
pub struct CallOutput {
    /// Exit status; `None` if a signal terminated it.
    pub exit: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

/// Returns the deviations from the expectation. `before` are the host's interfaces before the case.
pub fn check_expectation(
    fixture: &ConformanceFixture,
    expectation: &Expectation,
    output: &CallOutput,
    before: &[String],
) -> Result<Vec<String>> {
    let mut problems = check_output(expectation, output, &fixture.netns());
    let mut compare = |what: String, expected: Value, found: Value| {
        if expected != found {
            problems.push(format!("{what}: expected {expected}, found {found}"));
        }
    };
    if let Some(links) = &expectation.links {
        compare(
            "interfaces of the pod".into(),
            links.clone().into(),
            link_names(&fixture.ip("link show")?).into(),
        );
    }
    if expectation.host_as_before {
        compare("interfaces of the host".into(), before.into(), link_names(&ip("link show")?).into());
    }
    if let Some(log) = &expectation.log {
        compare("calls of plugins".into(), log.clone().into(), fixture.take_log().into());
    } else {
        fixture.take_log();
    }
    let interface = |name: &str| fixture.ip(&format!("address show dev {name}"));
    for (name, expected) in &expectation.addresses {
        let shown = interface(name)?;
        let all = shown[0]["addr_info"].as_array().into_iter().flatten();
        let global = all.filter(|address| address["scope"] == "global");
        let text = |a: &Value| format!("{}/{}", a["local"].as_str().unwrap_or_default(), a["prefixlen"]);
        compare(format!("addresses of {name}"), expected.clone().into(), global.map(text).collect());
    }
    for (name, expected) in &expectation.mtu {
        compare(format!("MTU of {name}"), (*expected).into(), interface(name)?[0]["mtu"].clone());
    }
    for name in &expectation.up {
        let shown = interface(name)?;
        let up = shown[0]["flags"].as_array().is_some_and(|flags| flags.contains(&"UP".into()));
        compare(format!("whether {name} is up"), true.into(), up.into());
    }
    for (name, expected) in &expectation.routes {
        let mut shown = Vec::new();
        for family in ["-4", "-6"] {
            let routes = fixture.ip(&format!("{family} route show dev {name}"))?;
            shown.extend(routes.as_array().into_iter().flatten().map(|route| {
                let destination = route["dst"].as_str().unwrap_or_default();
                match route["gateway"].as_str() {
                    Some(gateway) => format!("{destination} via {gateway}"),
                    None => destination.to_owned(),
                }
            }));
        }
        for route in expected.iter().filter(|route| !shown.contains(route)) {
            compare(format!("routes of {name}"), route.clone().into(), shown.clone().into());
        }
    }
    Ok(problems)
}

fn check_output(expectation: &Expectation, output: &CallOutput, netns: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if output.exit != Some(expectation.exit) {
        problems.push(format!("expected exit status {}, got {:?}", expectation.exit, output.exit));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let output_json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let code = output_json.get("code").and_then(Value::as_i64);
    if expectation.code.is_some() && expectation.code != code {
        problems.push(format!("expected code {:?}, got {code:?}", expectation.code));
    }
    if expectation.not_code.is_some() && expectation.not_code == code {
        problems.push(format!("unexpected code {code:?}"));
    }
    let expected = expectation.stdout.as_ref().map(|expected| expected.to_string().replace("$NETNS", netns));
    let expected: Option<Value> = expected.and_then(|expected| serde_json::from_str(&expected).ok());
    if let Some(expected) = expected
        && let Some(place) = difference(&expected, &output_json, "")
    {
        problems.push(format!("standard output differs at {place}: expected {expected}"));
    }
    for place in expectation.absent.iter().filter(|place| output_json.pointer(place).is_some()) {
        problems.push(format!("standard output must not contain {place}"));
    }
    for part in expectation.contains.iter().filter(|part| !text.contains(part.as_str())) {
        problems.push(format!("standard output does not contain {part:?}"));
    }
    if expectation.silent && !output.stdout.is_empty() {
        problems.push("standard output is not empty".to_owned());
    }
    problems
}

/// The first place where `found` differs from `expected`: objects may have more keys, lists must have the same length.
fn difference(expected: &Value, found: &Value, place: &str) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => expected.iter().find_map(|(key, value)| {
            let place = format!("{place}/{key}");
            match found.get(key) {
                Some(found) => difference(value, found, &place),
                None => Some(place),
            }
        }),
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let pairs = expected.iter().zip(found).enumerate();
            pairs
                .into_iter()
                .find_map(|(i, (expected, found))| difference(expected, found, &format!("{place}/{i}")))
        }
        (expected, found) => (expected != found).then(|| format!("{place}/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_deviation_is_reported() {
        let output =
            |exit, text: &str| CallOutput { exit: Some(exit), stdout: text.into(), stderr: String::new() };
        let expectation = |value: Value| serde_json::from_value::<Expectation>(value).unwrap();
        let deviations =
            |config: Value, output: &CallOutput| check_output(&expectation(config), output, "/ns").len();
        let error = output(1, r#"{"code":4,"msg":"a"}"#);
        assert_eq!(deviations(json!({"exit": 1, "code": 4, "contains": ["msg"], "not_code": 5}), &error), 0);
        assert_eq!(deviations(json!({"exit": 0, "code": 5, "not_code": 4, "silent": true}), &error), 4);
        assert_eq!(deviations(json!({"exit": 1, "contains": ["x"], "absent": ["/msg", "/x"]}), &error), 2);
        let result = output(0, r#"{"ips":[{"address":"10.0.0.1/24","interface":0}]}"#);
        assert_eq!(deviations(json!({"exit": 0, "stdout": {"ips": [{"interface": 0}]}}), &result), 0);
        assert_eq!(deviations(json!({"exit": 0, "stdout": {"ips": []}}), &result), 1);
        assert_eq!(deviations(json!({"exit": 0, "stdout": {"ips": [{"interface": 1}]}}), &result), 1);
        assert_eq!(deviations(json!({"exit": 0, "stdout": {"dns": {}}}), &result), 1);
    }
}
