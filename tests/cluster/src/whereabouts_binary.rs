//! The upstream Whereabouts binary, if given (`cargo xtask test cluster --peers FOLDER`). The legacy records are then
//! written by Whereabouts itself instead of by the test.

use crate::legacy_stack::{LegacyPod, write_file};
use crate::{exec_on, kubectl, machine_command};
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};

const KUBECONFIG: &str = "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig";
const CONFIG_FILE: &str = "/etc/cni/net.d/whereabouts.d/whereabouts.conf";

/// Path of the binary, if given.
pub fn binary_path() -> Option<PathBuf> {
    let file = PathBuf::from(std::env::var_os("FERROBAND_PEERS")?).join("whereabouts");
    assert!(file.is_file(), "{} does not exist", file.display());
    Some(file)
}

/// Calls ADD for each pod, in order; every pod must get its expected address.
#[track_caller]
pub fn assign(program: &Path, range: &str, pods: &[&LegacyPod]) {
    let kubeconfig = kubectl(&["config", "view", "--raw", "--flatten", "-o", "json"]).stdout_or_panic();
    for pod in pods {
        install(program, &pod.node);
        exec_on(&pod.node, "mkdir -p /etc/cni/net.d/whereabouts.d").stdout_or_panic();
        write_file(&pod.node, KUBECONFIG, &kubeconfig);
        write_file(&pod.node, CONFIG_FILE, r#"{"datastore":"kubernetes"}"#);
        let config = json!({
            "cniVersion": "0.3.1", "name": "old", "type": "none", "ipam": {
                "type": "whereabouts", "range": range, "kubernetes": {"kubeconfig": KUBECONFIG},
                "configuration_path": CONFIG_FILE,
            },
        });
        let output = exec_on(
            &pod.node,
            &format!(
                "netns=$(sed -n 's/.*\"netns\":\"\\([^\"]*\\)\".*/\\1/p' /var/lib/cni/results/lab-{0}-eth0); \
                 CNI_COMMAND=ADD CNI_CONTAINERID={0} CNI_NETNS=$netns CNI_IFNAME=net1 CNI_PATH=/opt/cni/bin \
                 CNI_ARGS='IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={1}' NODENAME={2} \
                 /opt/cni/bin/whereabouts <<'END'\n{config}\nEND",
                pod.container, pod.name, pod.node
            ),
        )
        .stdout_or_panic();
        let result: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
        let address = result["ips"][0]["address"].as_str().unwrap_or_default();
        assert_eq!(address.split('/').next(), Some(&*pod.address), "{result}");
    }
}

fn install(program: &Path, node: &str) {
    let script = "cat > /opt/cni/bin/whereabouts && chmod 755 /opt/cni/bin/whereabouts";
    let file = File::open(program).expect("the program");
    let status = machine_command(node, &["sh", "-c", script]).stdin(file).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot copy {} to {node}", program.display());
}
