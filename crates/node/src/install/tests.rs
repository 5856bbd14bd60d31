use super::{
    ConflistStatus, cancel_uninstall, conflist::write_conflist, install_binaries, install_host_rules,
    keep_conflist, list_kept_files, remove_own_files, render_conflist, uninstall,
};
use crate::resolve::{CONFLIST, DefaultNetwork, NetworkAccessPolicy, read_default_network};
use ferroband_api::cncf::NetworkConfig;
use ferroband_attach::PlainPods;
use ferroband_kernel::Root;
use serde_json::{Map, Value, json};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    time::Duration,
};
use tokio::{sync::watch, time};

const BRIDGE: &str = r#"{"cniVersion":"0.4.0","name":"k8s","plugins":[
    {"type":"bridge","ipam":{"type":"host-local"}},
    {"type":"portmap","capabilities":{"portMappings":true,"other":false}},
    {"type":"bandwidth","capabilities":{"bandwidth":true}}]}"#;

fn read_conflist(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(CONFLIST)).unwrap()).unwrap()
}

fn plain_pods() -> PlainPods {
    NetworkAccessPolicy::default().plain_pods()
}

fn default_network(text: &str) -> DefaultNetwork {
    let network = NetworkConfig::parse("test", text, "test").unwrap();
    DefaultNetwork { file: "10-test.conflist".into(), network }
}

#[test]
fn conflist_has_name_and_capabilities_of_the_wrapped_network() {
    let network = default_network(BRIDGE);
    let conflist: Value = serde_json::from_str(&render_conflist(&network, &plain_pods())).unwrap();
    assert_eq!(
        conflist,
        json!({
            "cniVersion": "1.0.0",
            "name": "k8s",
            "loadOnlyInlinedPlugins": true,
            "plugins": [{
                "type": "ferroband",
                "capabilities": {
                    "portMappings": true, "bandwidth": true, "io.kubernetes.cri.pod-annotations": true,
                },
                "plainPods": {
                    "namespaces": ["*"],
                    "unlessAnnotated": ["k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network"],
                },
                "delegates": [serde_json::from_str::<Value>(BRIDGE).unwrap()],
            }],
        })
    );
}

#[test]
fn newer_cni_version_of_the_wrapped_network_is_kept() {
    let network = default_network(r#"{"cniVersion":"1.1.0","name":"n","type":"bridge"}"#);
    assert!(render_conflist(&network, &plain_pods()).contains(r#""cniVersion": "1.1.0""#));
}

#[test]
fn plugins_in_the_subdirectory_of_the_wrapped_network_are_called_by_ferroband_only() {
    let dir = tempfile::tempdir().unwrap();
    let list = json!({"cniVersion": "1.0.0", "name": "k8s", "plugins": [{"type": "bridge"}]});
    fs::write(dir.path().join("10-k8s.conflist"), list.to_string()).unwrap();
    fs::create_dir(dir.path().join("k8s")).unwrap();
    fs::write(dir.path().join("k8s/20-tuning.conf"), r#"{"type":"tuning"}"#).unwrap();
    write_conflist(dir.path(), &plain_pods()).unwrap();
    let plugin_types = |plugins: &[Map<String, Value>]| -> Vec<_> {
        plugins.iter().map(|plugin| plugin["type"].as_str().unwrap().to_owned()).collect()
    };
    // Read our configuration as libcni does: it also looks into the subdirectory, because the name is the same.
    let own = read_default_network(&dir.path().join(CONFLIST)).unwrap().network.plugins;
    assert_eq!(plugin_types(&own), ["ferroband"]);
    let wrapped = serde_json::from_value::<Vec<_>>(own[0]["delegates"][0]["plugins"].clone()).unwrap();
    assert_eq!(plugin_types(&wrapped), ["bridge", "tuning"]);
}

#[test]
fn conflist_is_private_and_only_rewritten_on_change() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("10-bridge.conflist"), BRIDGE).unwrap();
    write_conflist(dir.path(), &plain_pods()).unwrap();
    let path = dir.path().join(CONFLIST);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    write_conflist(dir.path(), &plain_pods()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
}

/// Polls `condition`. Returns `false` if it still does not hold after a few seconds.
async fn wait_until(condition: impl Fn() -> bool) -> bool {
    for _ in 0..200 {
        if condition() {
            return true;
        }
        time::sleep(Duration::from_millis(20)).await;
    }
    false
}

// Case: cni 108
#[tokio::test]
async fn conflist_follows_the_default_network_and_stays_after_the_daemon_stops() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("net.d");
    let (sender, status) = watch::channel(ConflistStatus::default());
    let keeper = tokio::spawn(keep_conflist(Root::at(dir.path()), folder.clone(), plain_pods(), sender));

    fs::create_dir(&folder).unwrap();
    time::sleep(Duration::from_millis(100)).await;
    assert!(!status.borrow().installed, "there is no network to wrap yet");

    fs::write(folder.join("10-bridge.conflist"), BRIDGE).unwrap();
    assert!(wait_until(|| status.borrow().installed && read_conflist(&folder)["name"] == "k8s").await);

    fs::remove_file(folder.join(CONFLIST)).unwrap();
    assert!(wait_until(|| folder.join(CONFLIST).exists()).await, "written again after deletion");

    fs::write(folder.join("10-bridge.conflist"), BRIDGE.replace("k8s", "other")).unwrap();
    assert!(wait_until(|| read_conflist(&folder)["name"] == "other").await);

    // After an uninstallation, the running daemon must not write the CNI configuration again.
    let root = Root::at(dir.path());
    fs::create_dir_all(dir.path().join("bin")).unwrap();
    fs::create_dir_all(root.run("ferroband")).unwrap();
    let daemon = UnixListener::bind(ferroband_attach::socket_path(&root)).unwrap();
    assert!(uninstall(&root, &folder, &dir.path().join("bin")).unwrap());
    time::sleep(Duration::from_millis(300)).await;
    assert!(!folder.join(CONFLIST).exists());
    cancel_uninstall(&root).unwrap();
    fs::write(folder.join("10-bridge.conflist"), BRIDGE).unwrap();
    assert!(wait_until(|| folder.join(CONFLIST).exists()).await);

    keeper.abort();
    assert!(keeper.await.unwrap_err().is_cancelled());
    assert!(folder.join(CONFLIST).exists());
    drop(daemon);
}

#[tokio::test]
async fn program_that_renames_the_conflist_again_and_again_is_reported_and_not_fought() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("05-cilium.conflist"), BRIDGE).unwrap();
    let (sender, mut status) = watch::channel(ConflistStatus::default());
    tokio::spawn(keep_conflist(Root::at(dir.path()), dir.path().to_owned(), plain_pods(), sender));
    // Cilium with `cni.exclusive=true` watches the folder and renames all files that are not its own.
    let renamed = dir.path().join("00-ferroband.conflist.cilium_bak");
    let mut renames = 0;
    let cilium = async {
        loop {
            renames += usize::from(fs::rename(dir.path().join(CONFLIST), &renamed).is_ok());
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    time::timeout(Duration::from_secs(2), cilium).await.unwrap_err();
    assert_eq!(renames, 4, "three are repaired at once, the fourth waits");
    let reported = status.borrow_and_update().clone();
    assert!(!reported.installed);
    assert!(reported.problem.unwrap().contains("set the Helm value cni.exclusive=false of Cilium"));
}

// Case: cni 108
#[test]
fn rewritten_files_of_the_default_network_are_no_removal() {
    let dir = tempfile::tempdir().unwrap();
    // CRI-O's own files sort behind those of network plugins. They are wrapped until a network plugin is installed.
    let crio = r#"{"cniVersion":"1.0.0","name":"crio","plugins":[{"type":"bridge"}]}"#;
    fs::write(dir.path().join("100-crio-bridge.conflist"), crio).unwrap();
    fs::write(dir.path().join("200-loopback.conflist"), crio.replace("bridge", "loopback")).unwrap();
    let wrap = || {
        write_conflist(dir.path(), &plain_pods()).unwrap();
        read_conflist(dir.path())["plugins"][0]["delegates"][0].clone()
    };
    assert_eq!(wrap()["name"], "crio");
    // Calico writes its file under a temporary name and renames it, with a new token from time to time.
    for token in ["one", "two"] {
        let calico = json!({"cniVersion": "0.3.1", "name": "k8s-pod-network",
            "plugins": [{"type": "calico", "kubernetes": {"k8s_auth_token": token}}]});
        fs::write(dir.path().join("10-calico.conflist.tmp"), calico.to_string()).unwrap();
        fs::rename(dir.path().join("10-calico.conflist.tmp"), dir.path().join("10-calico.conflist")).unwrap();
        assert_eq!(wrap(), calico);
    }
    fs::remove_file(dir.path().join("10-calico.conflist")).unwrap();
    // flannel copies its file in place at each start of its pod.
    let flannel = json!({"cniVersion": "0.3.1", "name": "cbr0", "plugins": [{"type": "flannel"}]});
    fs::write(dir.path().join("10-flannel.conflist"), flannel.to_string()).unwrap();
    assert_eq!(wrap(), flannel);
    // Multus, if it is left installed, wraps what it finds first, which is Ferroband.
    let multus = json!({"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus",
        "delegates": [read_conflist(dir.path())]});
    fs::write(dir.path().join("00-multus.conf"), multus.to_string()).unwrap();
    assert_eq!(wrap(), flannel);
}

#[test]
fn daemon_removes_its_files_at_its_end_only_if_ferroband_was_uninstalled() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    fs::create_dir_all(root.run("ferroband")).unwrap();
    fs::create_dir_all(root.state("owed")).unwrap();
    remove_own_files(&root).unwrap();
    assert!(root.state("owed").exists(), "an update or a restart of the node");

    let daemon = UnixListener::bind(ferroband_attach::socket_path(&root)).unwrap();
    let folders = [root.path("etc/cni/net.d"), root.path("opt/cni/bin")];
    assert!(uninstall(&root, &folders[0], &folders[1]).unwrap());
    assert!(root.state("owed").exists(), "the daemon still uses it");
    drop(daemon);
    remove_own_files(&root).unwrap();
    assert!(!root.state("").exists() && !root.run("ferroband").exists());
}

#[test]
fn kept_files_are_listed_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    assert_eq!(list_kept_files(&root), []);
    let paths = [root.state("configure/0000:3b:00.0.json"), root.path("etc/modprobe.d/ferroband.conf")];
    for path in &paths {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let kept = list_kept_files(&root);
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept[0].path == root.state("configure") && kept[0].reason.contains("policies"), "{kept:?}");
    assert!(kept[1].path == paths[1] && kept[1].reason.contains("RDMA mode"), "{kept:?}");
}

#[test]
fn running_binary_is_replaced_and_aliases_save_foreign_binaries() {
    let dir = tempfile::tempdir().unwrap();
    let (program, folder) = (dir.path().join("image"), dir.path().join("bin"));
    fs::create_dir(&folder).unwrap();
    // A running binary cannot be overwritten (ETXTBSY), so it must be replaced by a rename. sleep(1) stands
    // in for the old version of the CNI binary.
    fs::copy("/bin/sleep", folder.join("ferroband")).unwrap();
    let mut running = std::process::Command::new(folder.join("ferroband")).arg("30").spawn().unwrap();
    fs::write(&program, "new").unwrap();
    fs::write(folder.join("ipoib"), "foreign").unwrap();

    let aliases = ["ipoib".to_owned(), "whereabouts".to_owned()];
    let installed = install_binaries(&program, &folder, &aliases);
    running.kill().unwrap();
    running.wait().unwrap();
    installed.unwrap();
    install_binaries(&program, &folder, &aliases).unwrap();

    assert_eq!(fs::read_to_string(folder.join("ferroband")).unwrap(), "new");
    assert_eq!(fs::metadata(folder.join("ferroband")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read_to_string(folder.join("ipoib")).unwrap(), "new");
    assert_eq!(fs::read_to_string(folder.join("whereabouts")).unwrap(), "new");
    assert_eq!(fs::read_to_string(folder.join("ipoib.before-ferroband")).unwrap(), "foreign");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
}

#[test]
fn uninstalling_restores_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    let aliases = ["ipoib".to_owned(), "multus".to_owned()];
    let (net_d, bin_dir) = (root.path("etc/cni/net.d"), root.path("opt/cni/bin"));
    fs::create_dir_all(&net_d).unwrap();
    fs::create_dir_all(&bin_dir).unwrap();
    fs::write(net_d.join("10-bridge.conflist"), BRIDGE).unwrap();
    fs::write(bin_dir.join("bridge"), "foreign").unwrap();
    fs::write(bin_dir.join("ipoib"), "foreign").unwrap();
    fs::write(dir.path().join("image"), "ferroband").unwrap();
    fs::write(net_d.join("00-ferroband.conflist.cilium_bak"), "").unwrap();
    let files = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = (files(&net_d), files(&bin_dir));
    let install = || {
        install_binaries(&dir.path().join("image"), &bin_dir, &aliases).unwrap();
        write_conflist(&net_d, &plain_pods()).unwrap();
        (files(&net_d), files(&bin_dir))
    };
    let installed = install();
    assert_ne!(installed, before);
    // A journal means that a pod still has an attachment, so nothing may be uninstalled yet.
    fs::create_dir_all(root.state("journal")).unwrap();
    fs::write(root.state("journal/c1.json"), "{}").unwrap();
    assert!(!uninstall(&root, &net_d, &bin_dir).unwrap());
    assert_eq!((files(&net_d), files(&bin_dir)), installed);
    cancel_uninstall(&root).unwrap();
    fs::remove_file(root.state("journal/c1.json")).unwrap();
    assert!(uninstall(&root, &net_d, &bin_dir).unwrap());
    assert_eq!((files(&net_d), files(&bin_dir)), (vec!["10-bridge.conflist".into()], before.1));
    assert_eq!(fs::read_to_string(bin_dir.join("ipoib")).unwrap(), "foreign");
    assert!(!root.state("").exists() && !root.run("ferroband").exists(), "no state is left");
    assert!(uninstall(&root, &net_d, &bin_dir).unwrap(), "uninstalling twice is fine");
    install();
    assert_eq!(files(&bin_dir), installed.1);
}

#[test]
fn networkmanager_and_udev_are_told_to_leave_interfaces_of_pods_alone() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    let (udev, manager) = (
        root.path("etc/udev/rules.d/90-ferroband.rules"),
        root.path("etc/NetworkManager/conf.d/90-ferroband.conf"),
    );
    fs::create_dir_all(root.path("etc/udev")).unwrap();
    install_host_rules(&root);
    assert!(!udev.exists() && !manager.exists(), "the host has neither of them");

    fs::write(root.path("etc/udev/udev.conf"), "").unwrap();
    fs::create_dir_all(root.path("etc/NetworkManager")).unwrap();
    fs::write(root.path("etc/NetworkManager/NetworkManager.conf"), "").unwrap();
    install_host_rules(&root);
    assert!(
        fs::read_to_string(&udev)
            .unwrap()
            .contains(r#"TEST=="device/physfn", ATTRS{vendor}=="0x15b3", ENV{NM_UNMANAGED}="1""#)
    );
    assert!(fs::read_to_string(&manager).unwrap().contains("[keyfile]\nunmanaged-devices+="));
    let written = fs::metadata(&udev).unwrap().modified().unwrap();
    install_host_rules(&root);
    assert_eq!(fs::metadata(&udev).unwrap().modified().unwrap(), written, "it is not written again");

    assert!(uninstall(&root, &root.path("etc/cni/net.d"), &root.path("opt/cni/bin")).unwrap());
    assert!(!udev.exists() && !manager.exists());
}
