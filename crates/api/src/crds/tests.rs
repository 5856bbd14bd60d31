use super::*;
use serde_json::Value;
use std::path::Path;

fn find_crd(name: &str) -> CustomResourceDefinition {
    all_crds().into_iter().find(|crd| crd.metadata.name.as_deref() == Some(name)).unwrap()
}

fn schema(crd: &CustomResourceDefinition) -> Value {
    serde_json::to_value(crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap())
        .unwrap()
}

#[test]
fn committed_files_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    // A packaged crate does not contain `deploy/`, so there are no files to compare.
    if !folder.exists() {
        return;
    }
    let mut committed: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    committed.sort();
    let rendered = render_crds().unwrap();
    let names: Vec<_> = rendered.iter().map(|file| file.file_name.clone()).collect();
    assert_eq!(committed, names);
    for file in rendered {
        let text = std::fs::read_to_string(folder.join(&file.file_name)).unwrap();
        assert!(text == file.yaml, "{} is out of date; run: cargo xtask generate", file.file_name);
    }
}

#[test]
fn yaml_parses_back_to_the_same_crd() {
    for (file, crd) in render_crds().unwrap().into_iter().zip(all_crds()) {
        let back: CustomResourceDefinition = serde_saphyr::from_str(&file.yaml).unwrap();
        assert_eq!(back, crd, "{}", file.file_name);
    }
}

#[test]
fn names_scopes_and_subresources_are_as_expected() {
    let expected = [
        ("addressblocks.ferroband.io", "Cluster", "v1alpha1", false, "block"),
        ("addressindexes.ferroband.io", "Cluster", "v1alpha1", false, ""),
        ("addressstates.ferroband.io", "Cluster", "v1alpha1", true, ""),
        ("fabrics.ferroband.io", "Cluster", "v1alpha1", true, ""),
        ("guidblocks.ferroband.io", "Cluster", "v1alpha1", false, ""),
        ("nodepartitions.ferroband.io", "Cluster", "v1alpha1", true, ""),
        ("partitions.ferroband.io", "Cluster", "v1alpha1", true, ""),
        ("spiderpoolcopies.ferroband.io", "Cluster", "v1alpha1", false, ""),
        ("stickyaddresses.ferroband.io", "Namespaced", "v1alpha1", false, ""),
        ("subnetmanagerhosts.ferroband.io", "Cluster", "v1alpha1", true, ""),
        ("network-attachment-definitions.k8s.cni.cncf.io", "Namespaced", "v1", false, "net-attach-def nad"),
        ("spidercoordinators.spiderpool.spidernet.io", "Cluster", "v2beta1", true, "scc"),
        ("spiderendpoints.spiderpool.spidernet.io", "Namespaced", "v2beta1", false, "se"),
        ("spiderippools.spiderpool.spidernet.io", "Cluster", "v2beta1", true, "sp"),
        ("spidermultusconfigs.spiderpool.spidernet.io", "Namespaced", "v2beta1", false, "smc"),
        ("spiderreservedips.spiderpool.spidernet.io", "Cluster", "v2beta1", false, "sr"),
        ("sriovibnetworks.sriovnetwork.openshift.io", "Namespaced", "v1", true, ""),
        ("sriovnetworknodepolicies.sriovnetwork.openshift.io", "Namespaced", "v1", true, ""),
        ("sriovnetworknodestates.sriovnetwork.openshift.io", "Namespaced", "v1", true, ""),
        ("sriovnetworkpoolconfigs.sriovnetwork.openshift.io", "Namespaced", "v1", true, ""),
        ("sriovoperatorconfigs.sriovnetwork.openshift.io", "Namespaced", "v1", true, ""),
        ("ippools.whereabouts.cni.cncf.io", "Namespaced", "v1alpha1", false, ""),
        ("overlappingrangeipreservations.whereabouts.cni.cncf.io", "Namespaced", "v1alpha1", false, ""),
    ];
    let found = all_crds();
    assert_eq!(found.len(), expected.len());
    for (crd, (name, scope, version, status, short)) in found.iter().zip(expected) {
        assert_eq!(crd.metadata.name.as_deref(), Some(name));
        assert_eq!((crd.spec.scope.as_str(), crd.spec.versions[0].name.as_str()), (scope, version), "{name}");
        let subresource = crd.spec.versions[0].subresources.as_ref().is_some_and(|s| s.status.is_some());
        assert_eq!(subresource, status, "{name}");
        assert_eq!(crd.spec.names.short_names.clone().unwrap_or_default().join(" "), short, "{name}");
    }
}

/// Collects the paths of objects that do not preserve unknown fields.
fn pruning(path: &str, schema: &Value, found: &mut Vec<String>) {
    let described = schema["type"] == "object" && schema.get("additionalProperties").is_none();
    if described && schema["x-kubernetes-preserve-unknown-fields"] != true {
        found.push(path.into());
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        pruning(&format!("{path}.{name}"), field, found);
    }
    for part in ["items", "additionalProperties"] {
        if schema[part].is_object() {
            pruning(&format!("{path}[]"), &schema[part], found);
        }
    }
}

#[test]
fn kinds_of_other_projects_prune_nothing() {
    for crd in all_crds() {
        let (name, schema) = (crd.metadata.name.clone().unwrap(), schema(&crd));
        let mut found = Vec::new();
        for field in ["spec", "status"] {
            if schema["properties"].get(field).is_some() {
                pruning(field, &schema["properties"][field], &mut found);
            }
        }
        if crd.spec.group == "ferroband.io" {
            assert!(!found.is_empty(), "{name}: own kinds prune unknown fields");
        } else {
            assert_eq!((found, schema.get("required")), (vec![], None), "{name}");
        }
    }
}

#[test]
fn pkey_is_an_integer_or_a_string() {
    for (crd, pointer) in [
        (
            "spidermultusconfigs.spiderpool.spidernet.io",
            "/properties/spec/properties/ibsriov/properties/pkey",
        ),
        ("sriovibnetworks.sriovnetwork.openshift.io", "/properties/spec/properties/pkey"),
    ] {
        let schema = schema(&find_crd(crd));
        let pkey = schema.pointer(pointer).unwrap();
        assert_eq!((&pkey["x-kubernetes-int-or-string"], pkey.get("type")), (&Value::Bool(true), None));
    }
}

#[test]
fn defaults_match_the_replaced_projects() {
    let smc = schema(&find_crd("spidermultusconfigs.spiderpool.spidernet.io"));
    let spec = &smc["properties"]["spec"]["properties"];
    assert_eq!(
        (&spec["cniType"]["default"], &spec["enableCoordinator"]["default"]),
        (&"custom".into(), &true.into())
    );
    let section = &spec["ibsriov"]["properties"];
    assert_eq!(section["linkState"]["default"], "enable");
    // Absent means "follow the node's RDMA mode", so there must be no default.
    assert_eq!(section["rdmaIsolation"].get("default"), None);
    let coordinator = &spec["coordinator"]["properties"];
    assert_eq!(
        (&coordinator["mode"]["default"], &coordinator["hostRuleTable"]["default"]),
        (&"auto".into(), &500.into())
    );
    let policy = schema(&find_crd("sriovnetworknodepolicies.sriovnetwork.openshift.io"));
    assert_eq!(policy["properties"]["spec"]["properties"]["deviceType"]["default"], "netdevice");
}

#[test]
fn no_field_is_nullable() {
    for file in render_crds().unwrap() {
        assert!(!file.yaml.contains("null"), "{}", file.file_name);
    }
}

/// Two nodes that add the same address conflict, and two that add different addresses of a block do not.
#[test]
fn server_side_apply_merges_the_entries_of_a_block_and_compares_each_as_a_whole() {
    let schema = schema(&find_crd("addressblocks.ferroband.io"));
    let entries = &schema["properties"]["spec"]["properties"]["entries"];
    assert_eq!(entries["x-kubernetes-map-type"], Value::Null, "granular");
    assert_eq!(entries["additionalProperties"]["x-kubernetes-map-type"], "atomic");
}
