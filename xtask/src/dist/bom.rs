//! CycloneDX bill of materials of the crates linked into the programs. Reproducible: it contains no timestamp and no
//! random number.

use anyhow::{Context, Result, bail};
use ferroband_lab::cache;
use ferroband_lab::command::{command, output};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The bill of materials of the packages `roots` of this checkout, built for `target`.
pub fn checkout_bom(roots: &[&str], target: &str) -> Result<String> {
    let args = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
    let text = output(command("cargo", args).current_dir(cache::checkout()))?;
    let metadata = serde_json::from_str(&text).context("cargo metadata")?;
    let lock = fs::read_to_string(cache::checkout().join("Cargo.lock")).context("Cargo.lock")?;
    Ok(format!("{:#}\n", bom(&metadata, &checksums(&lock), roots)?))
}

/// The bill of materials from `cargo metadata` and checksums by (name, version).
fn bom(metadata: &Value, sums: &BTreeMap<(String, String), String>, roots: &[&str]) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> =
        array(metadata, "packages").iter().filter_map(|p| Some((p["id"].as_str()?, p))).collect();
    let needs: BTreeMap<&str, Vec<&str>> = array(&metadata["resolve"], "nodes")
        .iter()
        .filter_map(|n| Some((n["id"].as_str()?, linked_dependencies(n))))
        .collect();
    let mut open = Vec::new();
    for root in roots {
        match packages.iter().find(|(_, package)| package["name"] == *root) {
            Some((id, _)) => open.push(*id),
            None => bail!("no package `{root}`"),
        }
    }
    let first = open.first().and_then(|id| packages.get(id)).context("no root package given")?;
    let version = first["version"].clone();
    let mut visited = BTreeSet::new();
    while let Some(id) = open.pop() {
        if visited.insert(id) {
            open.extend(needs.get(id).into_iter().flatten());
        }
    }
    let reference = |id: &&str| packages.get(*id).map_or_else(|| (*id).to_owned(), |p| purl(p));
    let mut components: Vec<Value> =
        visited.iter().filter_map(|id| packages.get(*id)).map(|p| component(p, sums)).collect();
    components.sort_by_key(|c| c["bom-ref"].to_string());
    let mut dependencies: Vec<Value> = visited
        .iter()
        .map(|id| {
            let on: BTreeSet<String> = needs.get(id).into_iter().flatten().map(reference).collect();
            json!({"ref": reference(id), "dependsOn": on})
        })
        .collect();
    dependencies.sort_by_key(|d| d["ref"].to_string());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "ferroband", "version": version}},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Normal dependencies of a package, without build and dev dependencies.
fn linked_dependencies(node: &Value) -> Vec<&str> {
    let normal = |dep: &&Value| array(dep, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
    array(node, "deps").iter().filter(normal).filter_map(|dep| dep["pkg"].as_str()).collect()
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
}

fn text<'a>(package: &'a Value, key: &str) -> &'a str {
    package[key].as_str().unwrap_or_default()
}

fn component(package: &Value, sums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let mut component = json!({
        "type": "library", "bom-ref": purl(package), "purl": purl(package), "name": name, "version": version,
    });
    if let Some(sum) = sums.get(&(name.to_owned(), version.to_owned())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    if let Some(license) = package["license"].as_str() {
        // Old crates write `MIT/Apache-2.0` instead of SPDX `OR`.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    component
}

/// Registry checksums in a Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|b| Some(((value(b, "name")?, value(b, "version")?), value(b, "checksum")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Value {
        let package =
            |id: &str, license: &str| json!({"id": id, "name": id, "version": "1.0.0", "license": license});
        let dep = |pkg: &str, kind: Value| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]});
        json!({
            "packages": [package("app", "MIT"), package("lib", "MIT/Apache-2.0"), package("builder", "MIT"),
                package("checker", "MIT"), package("deep", "ISC"), package("other", "MIT")],
            "resolve": {"nodes": [
                {"id": "app", "deps": [dep("lib", Value::Null), dep("builder", json!("build")), dep("checker", json!("dev"))]},
                {"id": "lib", "deps": [dep("deep", Value::Null)]},
                {"id": "builder", "deps": [dep("other", Value::Null)]},
            ]},
        })
    }

    #[test]
    fn only_linked_crates_are_listed() {
        let sums = checksums(
            "version = 4\n\n[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nchecksum = \"ab12\"\n",
        );
        let bom = bom(&metadata(), &sums, &["app"]).unwrap();
        let names: Vec<_> = array(&bom, "components").iter().map(|c| text(c, "name")).collect();
        assert_eq!(names, ["app", "deep", "lib"]);
        assert_eq!(bom["components"][1]["hashes"][0]["content"], "ab12");
        assert_eq!(bom["components"][2]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(
            bom["dependencies"][0],
            json!({"ref": "pkg:cargo/app@1.0.0", "dependsOn": ["pkg:cargo/lib@1.0.0"]})
        );
        assert!(super::bom(&metadata(), &sums, &["absent"]).is_err());
    }

    #[test]
    fn bom_is_reproducible_and_every_registry_crate_has_a_hash() {
        let target = ferroband_lab::image::rust_target();
        let first = checkout_bom(&["ferroband-cli", "ferroband-cni"], &target).unwrap();
        assert_eq!(first, checkout_bom(&["ferroband-cli", "ferroband-cni"], &target).unwrap());
        let bom: Value = serde_json::from_str(&first).unwrap();
        let (own, foreign): (Vec<_>, Vec<_>) =
            array(&bom, "components").iter().partition(|c| text(c, "name").starts_with("ferroband-"));
        assert!(
            own.iter().any(|c| c["name"] == "ferroband-cni") && foreign.iter().any(|c| c["name"] == "kube")
        );
        assert!(!foreign.iter().any(|c| c["name"] == "proptest"), "dev dependencies are not linked");
        for component in foreign {
            assert!(component["hashes"].is_array(), "{component}");
        }
    }
}
