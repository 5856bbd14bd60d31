//! Pods that request no network: they get the default network without the daemon.

use crate::crash::run_killed_at_point;
use crate::fixture::{AttachFixture, PodNetnsFixture};
use crate::meta_plugin::{ETH0, daemon_state};
use crate::scripted_daemon::ScriptedDaemon;
use ferroband_attach::{CniContext, Error, PendingUninstall, PluginType};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";

/// The configuration that the daemon installs, as the runtime passes it for a pod with these annotations.
fn config(annotations: Value) -> Value {
    let plugin = json!({"type": "wrapped", "capabilities": {"portMappings": true}});
    json!({
        "cniVersion": "1.1.0", "name": "cbr0", "type": "ferroband",
        "plainPods": {"namespaces": ["*"], "unlessAnnotated": [NETWORKS, DEFAULT_NETWORK]},
        "delegates": [{"cniVersion": "1.1.0", "name": "cbr0", "plugins": [plugin]}],
        "runtimeConfig": {"portMappings": [{"hostPort": 80}], POD_ANNOTATIONS: annotations},
    })
}

/// The annotations that the kubelet adds to every pod.
fn plain() -> Value {
    json!({"kubernetes.io/config.source": "api"})
}

fn set_up() -> (AttachFixture, PodNetnsFixture) {
    let fixture = AttachFixture::new();
    let script = "lease=$LEASES/$CNI_CONTAINERID\n\
        case $CNI_COMMAND in ADD) touch $lease; echo \"$IN\" > $LEASES/../in; \
        echo '{\"cniVersion\":\"1.1.0\",\"ips\":[{\"address\":\"10.9.0.7/24\"}]}';; DEL) rm -f $lease;; esac";
    fixture.install_plugin("wrapped", script);
    (fixture, PodNetnsFixture::new())
}

fn run(
    fixture: &AttachFixture,
    command: &str,
    pod: &PodNetnsFixture,
    config: &Value,
) -> Result<Value, Error> {
    fixture.run(PluginType::Ferroband, command, ETH0, &pod.path, config)
}

/// Containers whose network-status the daemon still has to write.
fn pending_statuses(fixture: &AttachFixture) -> Vec<String> {
    fixture.files(&fixture.root.run("ferroband/status"))
}

// Case: cni 79, cni 108
#[test]
fn a_pod_without_networks_needs_no_daemon() {
    let (fixture, pod) = set_up();
    let config = config(plain());
    run(&fixture, "STATUS", &pod, &config).unwrap();
    let result = run(&fixture, "ADD", &pod, &config).unwrap();
    assert_eq!(result["ips"][0]["address"], "10.9.0.7/24");
    let received: Value = serde_json::from_slice(&fs::read(fixture.path("in")).unwrap()).unwrap();
    assert_eq!(
        received["runtimeConfig"],
        json!({"portMappings": [{"hostPort": 80}]}),
        "only its capabilities"
    );
    let journal = fs::read_to_string(fixture.root.state("journal/c1.json")).unwrap();
    assert!(!journal.contains(POD_ANNOTATIONS), "the journal needs no annotations: {journal}");
    assert_eq!(pending_statuses(&fixture), ["c1.json"], "the daemon writes the status when it is back");

    run(&fixture, "CHECK", &pod, &config).unwrap();
    let mut valid = config.clone();
    valid["cni.dev/valid-attachments"] = json!([{"containerID": "c1", "ifname": "eth0"}]);
    run(&fixture, "GC", &pod, &valid).unwrap();
    assert_eq!(fixture.journals(), ["c1.json"]);
    assert_eq!(
        fixture.take_log(),
        ["STATUS wrapped ", "ADD wrapped eth0", "CHECK wrapped eth0", "GC wrapped "].map(str::to_owned)
    );

    run(&fixture, "DEL", &pod, &config).unwrap();
    assert_eq!((pending_statuses(&fixture), fixture.pending_releases()), (vec![], vec![]));
    fixture.assert_clean();

    run(&fixture, "ADD", &pod, &config).unwrap();
    valid["cni.dev/valid-attachments"] = json!([]);
    run(&fixture, "GC", &pod, &valid).unwrap();
    assert_eq!((pending_statuses(&fixture), fixture.pending_releases()), (vec![], vec![]));
    fixture.assert_clean();
}

#[test]
fn the_daemon_is_not_asked_about_a_pod_without_networks() {
    let (fixture, pod) = set_up();
    let daemon = ScriptedDaemon::start(&fixture.root, daemon_state());
    run(&fixture, "ADD", &pod, &config(plain())).unwrap();
    run(&fixture, "DEL", &pod, &config(plain())).unwrap();
    // An empty annotation requests nothing.
    run(&fixture, "ADD", &pod, &config(json!({NETWORKS: " "}))).unwrap();
    run(&fixture, "DEL", &pod, &config(plain())).unwrap();
    assert_eq!(daemon.take_requests(), [""; 0]);
    fixture.assert_clean();
}

// Case: cni 108
#[test]
fn without_the_daemon_a_pod_that_may_get_other_networks_gets_none() {
    let (fixture, pod) = set_up();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut config = config(plain());
        change(&mut config);
        config
    };
    let configs = [
        config(json!({NETWORKS: "ib"})),
        config(json!({DEFAULT_NETWORK: "ib"})),
        config(json!({NETWORKS: 7})),
        // A runtime that does not pass annotations, and values that are not annotations.
        changed(&|config| drop(config["runtimeConfig"].as_object_mut().unwrap().remove(POD_ANNOTATIONS))),
        changed(&|config| config["runtimeConfig"][POD_ANNOTATIONS] = Value::Null),
        changed(&|config| config["runtimeConfig"][POD_ANNOTATIONS] = json!("x")),
        // The configuration of an earlier release, and one that is invalid.
        changed(&|config| drop(config.as_object_mut().unwrap().remove("plainPods"))),
        changed(&|config| config["plainPods"] = json!(true)),
        // Settings that give networks to all pods of the namespace, or another default network.
        changed(&|config| config["plainPods"]["namespaces"] = json!(["kube-system"])),
        changed(&|config| config["defaultNetworks"] = json!(["ib"])),
        changed(&|config| config["clusterNetwork"] = json!("ib")),
        changed(&|config| drop(config.as_object_mut().unwrap().remove("delegates"))),
    ];
    for config in configs {
        let error = run(&fixture, "ADD", &pod, &config).unwrap_err();
        assert!(matches!(error, Error::DaemonUnavailable { .. }), "{config}: {error}");
        assert_eq!(fixture.take_log(), [""; 0], "{config}");
    }
    assert_eq!(pending_statuses(&fixture), [""; 0]);
    fixture.assert_clean();
    let system = changed(&|config| config["plainPods"]["namespaces"] = json!(["kube-system", "default"]));
    run(&fixture, "ADD", &pod, &system).unwrap();
}

#[test]
fn a_failed_default_network_is_rolled_back_without_the_daemon() {
    let (fixture, pod) = set_up();
    fixture.install_plugin("wrapped", "[ $CNI_COMMAND = ADD ] && exit 1; exit 0");
    run(&fixture, "ADD", &pod, &config(plain())).unwrap_err();
    assert_eq!(fixture.take_log(), ["ADD wrapped eth0", "DEL wrapped eth0"].map(str::to_owned));
    assert_eq!((pending_statuses(&fixture), fixture.pending_releases()), (vec![], vec![]));
    fixture.assert_clean();
}

#[test]
fn a_plain_pod_killed_at_any_point_leaves_nothing() {
    let (fixture, pod) = set_up();
    let config = config(plain());
    let killed = |command: &str, last: usize| {
        let call = fixture.call(command, "c1", "eth0", &pod.path, &config);
        run_killed_at_point(last, |watch| {
            let context = CniContext { fail_point: watch, ..fixture.context() };
            fixture.run_on(&context, PluginType::Ferroband, &call).unwrap()
        })
    };
    let assert_gone = || {
        assert_eq!((pending_statuses(&fixture), fixture.pending_releases()), (vec![], vec![]));
        fixture.assert_clean();
    };
    let mut points = 0;
    while killed("ADD", points + 1).is_none() {
        points += 1;
        run(&fixture, "DEL", &pod, &config).unwrap();
        assert_gone();
    }
    assert!(points >= 4, "only {points} points");
    for point in 1.. {
        let done = killed("DEL", point);
        run(&fixture, "DEL", &pod, &config).unwrap();
        assert_gone();
        if done.is_some() {
            break;
        }
        run(&fixture, "ADD", &pod, &config).unwrap();
    }
}

#[test]
fn plain_pods_do_not_delay_an_uninstallation() {
    let (fixture, pod) = set_up();
    let files: Vec<PathBuf> =
        vec!["etc/cni/net.d/00-ferroband.conflist".into(), "opt/cni/bin/ferroband".into()];
    let install = || {
        for file in &files {
            fs::create_dir_all(fixture.root.path(file).parent().unwrap()).unwrap();
            fs::write(fixture.root.path(file), "").unwrap();
        }
    };
    let pending = PendingUninstall { remove: files.clone(), restore: Vec::new() };
    let is_installed = || files.iter().any(|file| fixture.root.path(file).exists());
    install();
    let mut daemon = ScriptedDaemon::start(&fixture.root, daemon_state());
    fixture.install_leasing_plugin("lease", "10.9.0.8/24");
    let attached = PodNetnsFixture::new();
    let with_networks = config(json!({NETWORKS: "ib"}));
    let c2 = |command: &str| {
        fixture.run(PluginType::Ferroband, command, ("c2", "eth0"), &attached.path, &with_networks)
    };
    c2("ADD").unwrap();
    run(&fixture, "ADD", &pod, &config(plain())).unwrap();
    daemon.stop();
    assert!(!pending.begin(&fixture.root).unwrap(), "a pod with a network of Ferroband is attached");
    assert!(is_installed());
    // While Ferroband is being uninstalled, all new pods get the default network only.
    let late = PodNetnsFixture::new();
    fixture.run(PluginType::Ferroband, "ADD", ("c3", "eth0"), &late.path, &with_networks).unwrap();
    c2("DEL").unwrap();
    assert!(!is_installed(), "two plain pods are left");
    assert_eq!(
        (fixture.journals(), pending_statuses(&fixture)),
        (vec![], vec![]),
        "nobody would remove them"
    );

    // CRI-O sends DEL with the configuration of the ADD, so the plugin must stay while the pod lives.
    install();
    run(&fixture, "ADD", &PodNetnsFixture::new(), &config(plain())).unwrap();
    fs::create_dir_all(fixture.root.run("crio")).unwrap();
    fs::write(fixture.root.run("crio/crio.sock"), "").unwrap();
    assert!(!pending.begin(&fixture.root).unwrap());
    run(&fixture, "DEL", &pod, &config(plain())).unwrap();
    assert!(!is_installed());
}
