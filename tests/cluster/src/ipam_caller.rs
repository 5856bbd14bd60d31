//! Calls the IPAM plugin on a node as other CNI plugins do, for a running pod, with the daemon and the API server.

use crate::{TestObjects, exec_on};
use serde_json::{Value, json};
use std::cell::RefCell;

/// IPAM calls for one test pod. Drop sends a DEL for every ADD.
#[derive(Debug)]
pub struct IpamCaller {
    node: String,
    pod: String,
    uid: String,
    added: RefCell<Vec<(String, String, Value)>>,
}

impl IpamCaller {
    /// Creates the pod and a network namespace of the same name.
    #[track_caller]
    pub fn new(objects: &mut TestObjects, pod: &str, node: &str) -> Self {
        objects.apply_pod(pod, node);
        let uid = objects.wait_ready(pod, 90)["metadata"]["uid"].as_str().expect("a uid").to_owned();
        // argv[0] selects the plugin, and a node without Whereabouts has no link of that name.
        let named = "mkdir -p /tmp/called && ln -sf /opt/cni/bin/ferroband /tmp/called/whereabouts";
        exec_on(node, &format!("{named} && ip netns add {pod}")).stdout_or_panic();
        Self { node: node.to_owned(), pod: pod.to_owned(), uid, added: RefCell::default() }
    }

    /// The shell command line of a call.
    fn command_line(&self, command: &str, container: &str, interface: &str, ipam: &Value) -> String {
        let config = json!({"cniVersion": "1.0.0", "name": self.pod, "type": "none", "ipam": ipam});
        let (pod, uid) = (&self.pod, &self.uid);
        format!(
            "printf %s '{config}' | CNI_COMMAND={command} CNI_CONTAINERID={pod}-{container} CNI_IFNAME={interface} \
             CNI_NETNS=/run/netns/{pod} CNI_PATH=/opt/cni/bin \
             CNI_ARGS='IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod};K8S_POD_UID={uid}' \
             /tmp/called/whereabouts"
        )
    }

    fn call(&self, command: &str, container: &str, interface: &str, ipam: &Value) -> (bool, Value) {
        let output = exec_on(&self.node, &self.command_line(command, container, interface, ipam));
        (output.ok, serde_json::from_str(&output.out).unwrap_or_else(|_| output.err.clone().into()))
    }

    /// ADD; returns the addresses or the error message.
    pub fn add(&self, container: &str, interface: &str, ipam: &Value) -> Result<Vec<String>, String> {
        self.added.borrow_mut().push((container.to_owned(), interface.to_owned(), ipam.clone()));
        match self.call("ADD", container, interface, ipam) {
            (true, result) => Ok(addresses(&result)),
            (false, error) => Err(format!(
                "{} {}",
                error["msg"].as_str().unwrap_or(&error.to_string()),
                error["details"].as_str().unwrap_or_default()
            )),
        }
    }

    /// ADD for the next interface; returns its only address.
    #[track_caller]
    pub fn add_one(&self, ipam: &Value) -> String {
        let interface = self.next_interface();
        let assigned = self.add(&interface, &interface, ipam).unwrap_or_else(|e| panic!("{ipam}: {e}"));
        assert_eq!(assigned.len(), 1, "{ipam}: {assigned:?}");
        assigned.into_iter().next().expect("one")
    }

    /// ADD for the next `count` interfaces, one after the other; returns one address each.
    #[track_caller]
    pub fn add_many(&self, ipam: &Value, count: usize) -> Vec<String> {
        let mut calls = Vec::new();
        for _ in 0..count {
            let interface = self.next_interface();
            calls.push(format!(
                "{} | tr -d '\\n'; echo",
                self.command_line("ADD", &interface, &interface, ipam)
            ));
            self.added.borrow_mut().push((interface.clone(), interface, ipam.clone()));
        }
        let output = exec_on(&self.node, &calls.join("\n")).stdout_or_panic();
        let result =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{ipam}: {line}: {e}"));
        let assigned: Vec<_> = output.lines().flat_map(|line| addresses(&result(line))).collect();
        assert_eq!(assigned.len(), count, "{ipam}: {output}");
        assigned
    }

    /// ADD for the next interface, which must fail; returns the error.
    #[track_caller]
    pub fn add_error(&self, ipam: &Value) -> String {
        let interface = self.next_interface();
        self.add(&interface, &interface, ipam).expect_err(&format!("ADD with {ipam} must fail"))
    }

    /// DEL, which must succeed.
    #[track_caller]
    pub fn del(&self, container: &str, interface: &str, ipam: &Value) {
        let (ok, answer) = self.call("DEL", container, interface, ipam);
        assert!(ok, "DEL of {container} {interface}: {answer}");
    }

    fn next_interface(&self) -> String {
        format!("i{}", self.added.borrow().len())
    }

    /// Deletes the sandbox without a DEL.
    pub fn discard_sandbox(&self) {
        self.added.borrow_mut().clear();
        exec_on(&self.node, &format!("ip netns delete {}", self.pod)).stdout_or_panic();
    }
}

/// The addresses in a CNI result.
fn addresses(result: &Value) -> Vec<String> {
    let ips = result["ips"].as_array().into_iter().flatten();
    ips.filter_map(|ip| ip["address"].as_str()).map(str::to_owned).collect()
}

impl Drop for IpamCaller {
    fn drop(&mut self) {
        let added = self.added.take();
        let dels = added.iter().map(|(container, interface, ipam)| {
            format!(
                "{} || echo DEL of {container} {interface} failed",
                self.command_line("DEL", container, interface, ipam)
            )
        });
        let all = dels.chain([format!("ip netns delete {}; true", self.pod)]).collect::<Vec<_>>().join("\n");
        let done = exec_on(&self.node, &all);
        if !done.out.is_empty() {
            eprintln!("{}", done.out);
        }
    }
}
