//! A node's simulated hardware, changed while the node runs.

use crate::{TestObjects, eventually, exec_on, kubectl_get};
use serde_json::{Value, json};

/// The adapter of the lab's nodes.
pub const ADAPTER: &str = "mlx5_0";
/// PCI address of the adapter; virtual functions are at .2, .3 and so on.
pub const PF: &str = "0000:86:00.0";

/// Virtual functions of a node's adapter. Drop removes them and resets the simulated hardware.
#[derive(Debug)]
pub struct SimulatedVfs {
    node: String,
}

impl SimulatedVfs {
    /// Creates `count` virtual functions on `node`.
    #[track_caller]
    pub fn create(node: &str, count: usize) -> Self {
        let made = Self { node: node.to_owned() };
        made.sim(&format!("vfs {ADAPTER} {count}"));
        made
    }

    /// Name of a virtual function's RDMA device. The kernel numbers devices by their creation, so the name depends on
    /// what was created before.
    #[track_caller]
    pub fn rdma_device(&self, index: usize) -> String {
        let folder = format!("/var/lib/ferroband/sim/sys/bus/pci/devices/{}/infiniband", vf_address(index));
        exec_on(&self.node, &format!("ls {folder}")).stdout_or_panic().trim().to_owned()
    }

    /// Runs `ferroband sim …` on the node.
    #[track_caller]
    pub fn sim(&self, words: &str) {
        exec_on(&self.node, &format!("ferroband sim {words}")).stdout_or_panic();
    }
}

impl Drop for SimulatedVfs {
    fn drop(&mut self) {
        let all = ["replug {}", "port {} active", "vfs {} 0", "netns shared"];
        for words in all.map(|words| words.replace("{}", ADAPTER)) {
            let done = exec_on(&self.node, &format!("ferroband sim {words}"));
            // `replug` fails if the adapter was not unplugged.
            if !done.ok && !words.starts_with("replug") {
                eprintln!("{}: {words}: {}", self.node, done.err);
            }
        }
    }
}

/// PCI address of virtual function `index`.
pub fn vf_address(index: usize) -> String {
    let place = index + 2;
    format!("0000:86:{:02x}.{}", place / 8, place % 8)
}

/// The node's allocatable amount of a resource.
pub fn allocatable(node: &str, resource: &str) -> String {
    let node = kubectl_get(&["node", node]);
    node["status"]["allocatable"][resource].as_str().unwrap_or("absent").to_string()
}

/// Waits until the node's allocatable amount is `amount`.
#[track_caller]
pub fn wait_allocatable(node: &str, resource: &str, amount: &str) {
    eventually(&format!("{resource}: {amount} on {node}"), 120, || match allocatable(node, resource) {
        current if current == amount => Ok(()),
        current => Err(current),
    });
}

/// Waits until the node daemon has removed the virtual functions of a deleted policy. Otherwise it would remove the
/// functions that the next scenario creates.
#[track_caller]
pub fn wait_no_vfs(node: &str) {
    let count = format!("cat /var/lib/ferroband/sim/sys/bus/pci/devices/{PF}/sriov_numvfs");
    eventually(&format!("no virtual functions on {node}"), 120, || {
        match exec_on(node, &count).stdout_or_panic().trim() {
            "0" => Ok(()),
            current => Err(current.to_owned()),
        }
    });
}

/// Applies the device ConfigMap with these files. A string value is used as the file's content.
pub fn apply_device_config(objects: &mut TestObjects, files: &[(&str, Value)]) {
    let text = |content: &Value| content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    let data: serde_json::Map<String, Value> =
        files.iter().map(|(name, content)| ((*name).to_owned(), text(content).into())).collect();
    objects.apply(
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "ferroband-devices", "namespace": "ferroband-system"}, "data": data,
        })
        .to_string(),
    );
}

/// A pod on `node` with a resource limit.
pub fn resource_pod(name: &str, node: &str, resource: &str, amount: usize) -> String {
    let amount = amount.to_string();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": "ferroband.lab/tools:1", "resources": {"limits": {resource: amount}},
            }],
        },
    })
    .to_string()
}

/// Kills and restarts the node's kubelet; returns the number of log lines before the restart.
#[track_caller]
pub fn restart_kubelet(node: &str) -> String {
    // Same command line as the lab's.
    let script = "p=$(cat /run/lab/kubelet.pid); a=$(tr '\\0' ' ' < /proc/$p/cmdline); kill -9 $p; \
        while [ -e /proc/$p/exe ]; do sleep 0.05; done; \
        setsid sh -c 'echo $$ > /run/lab/kubelet.pid; exec \"$@\"' kubelet $a </dev/null >>/var/log/lab/kubelet.log 2>&1 & \
        wc -l < /var/log/lab/kubelet.log";
    exec_on(node, script).stdout_or_panic().trim().to_owned()
}

/// Load per core of this machine, between 1 and 4. Time limits are for an idle machine and are multiplied by it.
pub fn load_factor() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(1.0);
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    (load / cores).clamp(1.0, 4.0)
}

/// Runs the shell command `change` on the node, waits until the condition `shown` holds, and returns the seconds
/// between.
#[track_caller]
pub fn seconds_until(node: &str, change: &str, shown: &str) -> f64 {
    let script = format!(
        "{{ {change}; }} >/dev/null || exit 1; t=$(date +%s%N); i=0; until {shown}; do i=$((i+1)); \
         [ $i -gt 3000 ] && exit 2; sleep 0.02; done; echo $(( ($(date +%s%N) - t) / 1000 ))"
    );
    let micros: f64 = exec_on(node, &script).stdout_or_panic().trim().parse().expect("a number");
    micros / 1e6
}

/// A shell condition: the kubelet's checkpoint lists `healthy` healthy devices of the resource.
pub fn kubelet_reports_healthy(resource: &str, healthy: usize) -> String {
    let notes = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
    let word = resource.replace('.', "\\.");
    format!(
        "[ $(grep -o '\"{word}\":\\[[^]]*\\]' {notes} | tail -n 1 | cut -d: -f2- | grep -o '\"[^\"]*\"' | wc -l) = {healthy} ]"
    )
}

/// UID, phase, container ID and restart count: must not change while a pod runs.
#[track_caller]
pub fn pod_identity(pod: &str) -> Value {
    let pod = kubectl_get(&["pod", pod]);
    let status = &pod["status"]["containerStatuses"][0];
    json!([pod["metadata"]["uid"], pod["status"]["phase"], status["containerID"], status["restartCount"]])
}
