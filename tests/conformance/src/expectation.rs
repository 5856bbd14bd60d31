//! Judging what came of a call: by its answer, and by what `ip` shows.

use crate::case::Expectation;
use crate::fixture::{ConformanceFixture, ip, link_names};
use anyhow::Result;
use serde_json::Value;

/// What a call answered.
pub struct CallOutput {
    /// The exit status; none if a signal ended it.
    pub exit: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

/// What is not as expected. `before` are the interfaces that the host had.
pub fn check_expectation(
    stage: &ConformanceFixture,
    expect: &Expectation,
    answer: &CallOutput,
    before: &[String],
) -> Result<Vec<String>> {
    let mut problems = check_output(expect, answer, &stage.netns());
    let mut compare = |what: String, wanted: Value, found: Value| {
        if wanted != found {
            problems.push(format!("{what}: {wanted} is expected, {found} is there"));
        }
    };
    if let Some(links) = &expect.links {
        compare(
            "interfaces of the pod".into(),
            links.clone().into(),
            link_names(&stage.ip("link show")?).into(),
        );
    }
    if expect.host_as_before {
        compare("interfaces of the host".into(), before.into(), link_names(&ip("link show")?).into());
    }
    if let Some(log) = &expect.log {
        compare("calls of plugins".into(), log.clone().into(), stage.take_log().into());
    } else {
        stage.take_log();
    }
    let interface = |name: &str| stage.ip(&format!("address show dev {name}"));
    for (name, wanted) in &expect.addresses {
        let shown = interface(name)?;
        let all = shown[0]["addr_info"].as_array().into_iter().flatten();
        let global = all.filter(|address| address["scope"] == "global");
        let text = |a: &Value| format!("{}/{}", a["local"].as_str().unwrap_or_default(), a["prefixlen"]);
        compare(format!("addresses of {name}"), wanted.clone().into(), global.map(text).collect());
    }
    for (name, wanted) in &expect.mtu {
        compare(format!("MTU of {name}"), (*wanted).into(), interface(name)?[0]["mtu"].clone());
    }
    for name in &expect.up {
        let shown = interface(name)?;
        let up = shown[0]["flags"].as_array().is_some_and(|flags| flags.contains(&"UP".into()));
        compare(format!("whether {name} is up"), true.into(), up.into());
    }
    for (name, wanted) in &expect.routes {
        let mut shown = Vec::new();
        for family in ["-4", "-6"] {
            let routes = stage.ip(&format!("{family} route show dev {name}"))?;
            shown.extend(routes.as_array().into_iter().flatten().map(|route| {
                let destination = route["dst"].as_str().unwrap_or_default();
                match route["gateway"].as_str() {
                    Some(gateway) => format!("{destination} via {gateway}"),
                    None => destination.to_owned(),
                }
            }));
        }
        for route in wanted.iter().filter(|route| !shown.contains(route)) {
            compare(format!("routes of {name}"), route.clone().into(), shown.clone().into());
        }
    }
    Ok(problems)
}

fn check_output(expect: &Expectation, answer: &CallOutput, netns: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if answer.exit != Some(expect.exit) {
        problems.push(format!("exit status {} is expected, {:?} came", expect.exit, answer.exit));
    }
    let text = String::from_utf8_lossy(&answer.stdout);
    let said: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    let code = said.get("code").and_then(Value::as_i64);
    if expect.code.is_some() && expect.code != code {
        problems.push(format!("code {:?} is expected, {code:?} came", expect.code));
    }
    if expect.not_code.is_some() && expect.not_code == code {
        problems.push(format!("code {code:?} is wrong"));
    }
    let wanted = expect.stdout.as_ref().map(|wanted| wanted.to_string().replace("$NETNS", netns));
    let wanted: Option<Value> = wanted.and_then(|wanted| serde_json::from_str(&wanted).ok());
    if let Some(wanted) = wanted
        && let Some(place) = difference(&wanted, &said, "")
    {
        problems.push(format!("standard output differs at {place}: {wanted} is expected"));
    }
    for place in expect.absent.iter().filter(|place| said.pointer(place).is_some()) {
        problems.push(format!("{place} is in standard output"));
    }
    for part in expect.contains.iter().filter(|part| !text.contains(part.as_str())) {
        problems.push(format!("{part:?} is not in standard output"));
    }
    if expect.silent && !answer.stdout.is_empty() {
        problems.push("standard output is not empty".to_owned());
    }
    problems
}

/// Where `found` lacks something of `wanted`: objects may have more keys, lists must be as long.
fn difference(wanted: &Value, found: &Value, place: &str) -> Option<String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().find_map(|(key, value)| {
            let place = format!("{place}/{key}");
            match found.get(key) {
                Some(found) => difference(value, found, &place),
                None => Some(place),
            }
        }),
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let pairs = wanted.iter().zip(found).enumerate();
            pairs
                .into_iter()
                .find_map(|(i, (wanted, found))| difference(wanted, found, &format!("{place}/{i}")))
        }
        (wanted, found) => (wanted != found).then(|| format!("{place}/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_found_wanting_in_each_respect() {
        let answer =
            |exit, text: &str| CallOutput { exit: Some(exit), stdout: text.into(), stderr: String::new() };
        let expect = |value: Value| serde_json::from_value::<Expectation>(value).unwrap();
        let wrong = |wish: Value, given: &CallOutput| check_output(&expect(wish), given, "/ns").len();
        let error = answer(1, r#"{"code":4,"msg":"a"}"#);
        assert_eq!(wrong(json!({"exit": 1, "code": 4, "contains": ["msg"], "not_code": 5}), &error), 0);
        assert_eq!(wrong(json!({"exit": 0, "code": 5, "not_code": 4, "silent": true}), &error), 4);
        assert_eq!(wrong(json!({"exit": 1, "contains": ["x"], "absent": ["/msg", "/x"]}), &error), 2);
        let result = answer(0, r#"{"ips":[{"address":"10.0.0.1/24","interface":0}]}"#);
        assert_eq!(wrong(json!({"exit": 0, "stdout": {"ips": [{"interface": 0}]}}), &result), 0);
        assert_eq!(wrong(json!({"exit": 0, "stdout": {"ips": []}}), &result), 1);
        assert_eq!(wrong(json!({"exit": 0, "stdout": {"ips": [{"interface": 1}]}}), &result), 1);
        assert_eq!(wrong(json!({"exit": 0, "stdout": {"dns": {}}}), &result), 1);
    }
}
