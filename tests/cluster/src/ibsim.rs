//! An ibsim fabric for the lab. It contains the ports of all nodes' simulated hardware, opensm on one node manages it,
//! and its P_Key tables are copied to the simulated ports.
//!
//! ```text
//! opensm (in the node daemon's container) ──MADs──▶ ibsim ◀── smpquery loop ──▶ `ferroband sim fabric` on every node
//! ```
//!
//! All ibsim clients run on one node: its sockets belong to a network namespace.

use crate::opensm_mounts::OpensmMounts;
use crate::{eventually, exec_on, machine_command, node_names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

/// Name of ibsim's sockets.
const SOCKETS: &str = "ferroband-lab";
/// The library that replaces /dev/infiniband, in Debian's multiarch folder.
const PRELOAD: &str = "$(ls /usr/lib/*/umad2sim/libumad2sim.so)";

/// A running ibsim. Drop stops it, resets the P_Key tables and restores the node daemons' containers.
pub struct IbsimFabric {
    node: String,
    ports: BTreeMap<String, String>,
    children: Vec<Child>,
    copier: Option<JoinHandle<()>>,
    opensm_mounts: Option<OpensmMounts>,
}

impl IbsimFabric {
    /// Starts ibsim on a node with all current ports, and mounts the node's opensm and libraries into the daemons'
    /// containers.
    #[track_caller]
    pub fn up(node: &str) -> Self {
        // Port GUID to ibsim's name of the adapter.
        let mut ports = BTreeMap::new();
        for node in node_names() {
            for (device, guid) in rdma_devices(&node) {
                ports.insert(guid, format!("{node}-{device}"));
            }
        }
        let (children, copying, surroundings) = (Vec::new(), None, None);
        let mut ibsim =
            Self { node: node.to_owned(), ports, children, copier: copying, opensm_mounts: surroundings };
        ibsim.start_ibsim();
        ibsim.mount_opensm();
        ibsim.start_table_copier();
        ibsim
    }

    fn start_ibsim(&mut self) {
        let script = format!(
            "mkdir -p /run/ibsim && cd /run/ibsim && cat > net && echo $$ > pid && \
             IBSIM_SOCKNAME={SOCKETS} exec ibsim -s -n net > out 2>&1"
        );
        let mut command = machine_command(&self.node, &["sh", "-c", &script]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("ibsim");
        let mut stdin = child.stdin.take().expect("its standard input");
        stdin.write_all(self.topology().as_bytes()).expect("the fabric");
        drop(stdin);
        self.children.push(child);
        eventually("ibsim listens", 30, || {
            let listens = exec_on(&self.node, &format!("grep -q '{SOCKETS}:ctl' /proc/net/unix"));
            if listens.ok { Ok(()) } else { Err(exec_on(&self.node, "cat /run/ibsim/out").out) }
        });
    }

    /// ibsim's network file: one switch with an adapter per port. A port GUID is its node GUID plus 1.
    fn topology(&self) -> String {
        let mut text = format!("switchguid=0xe41d2d0300000001\nSwitch {} \"SWITCH\"\n", self.ports.len() + 1);
        for (position, name) in self.ports.values().enumerate() {
            let _ = writeln!(text, "[{}] \"{name}\"[1]", position + 1);
        }
        for (position, (guid, name)) in self.ports.iter().enumerate() {
            let number = u64::from_str_radix(&guid.replace(':', ""), 16).expect("a GUID");
            let _ = writeln!(
                text,
                "\ncaguid={:#018x}\nHca 1 \"{name}\"\n[1] \"SWITCH\"[{}]",
                number - 1,
                position + 1
            );
        }
        text
    }

    /// Gives the node daemons' containers what opensm needs.
    fn mount_opensm(&mut self) {
        let host = rdma_devices(&self.node).into_iter().next().expect("an adapter").0;
        let preload = exec_on(&self.node, &format!("echo {PRELOAD}")).stdout_or_panic();
        self.opensm_mounts = Some(OpensmMounts::apply(&[
            json!({"name": "LD_PRELOAD", "value": preload.trim()}),
            json!({"name": "IBSIM_SOCKNAME", "value": SOCKETS}),
            json!({"name": "SIM_HOST", "value": format!("{}-{host}", self.node)}),
        ]));
    }

    /// Starts copying P_Key tables from ibsim to the nodes.
    fn start_table_copier(&mut self) {
        let one = |(guid, name): (&String, &String)| format!("{guid},{name}");
        let all: Vec<String> = self.ports.iter().map(one).collect();
        let script = format!(
            "mkdir -p /run/ibsim/copy && cd /run/ibsim/copy && export IBSIM_SOCKNAME={SOCKETS}; P={PRELOAD}; \
             while [ -e /run/ibsim/pid ]; do for p in {}; do [ -e /run/ibsim/pid ] || exit 0; k=$({}); echo \"${{p%,*}} $k\"; done; echo; sleep 0.1; done",
            all.join(" "),
            pkey_query_command("${p#*,}"),
        );
        let mut reader = machine_command(&self.node, &["sh", "-c", &script]);
        let mut reader = reader.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("smpquery");
        let lines = BufReader::new(reader.stdout.take().expect("its output")).lines();
        self.children.push(reader);
        let writer = |node: &String| {
            let mut command = machine_command(node, &["ferroband", "sim", "fabric"]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("ferroband sim fabric")
        };
        let mut writers: Vec<Child> = node_names().iter().map(writer).collect();
        self.copier = Some(thread::spawn(move || {
            let mut send = |line: &Value| {
                for writer in &mut writers {
                    if let Some(stdin) = &mut writer.stdin {
                        let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
                    }
                }
            };
            let (mut round, mut sent) = (serde_json::Map::new(), Value::Null);
            for line in lines.map_while(Result::ok) {
                if let Some((guid, keys)) = line.split_once(' ') {
                    // A port that no subnet manager has configured has no key.
                    let keys: Vec<&str> = keys.split_whitespace().collect();
                    round.insert(
                        guid.to_owned(),
                        if keys.is_empty() { json!(["0x7fff"]) } else { json!(keys) },
                    );
                    continue;
                }
                let now = json!({"tables": std::mem::take(&mut round), "others": ["0x7fff"]});
                if now != sent {
                    send(&now);
                    sent = now;
                }
            }
            send(&json!({}));
            for mut writer in writers {
                drop(writer.stdin.take());
                let _ = writer.wait();
            }
        }));
    }

    /// A port's P_Key table in ibsim.
    #[track_caller]
    pub fn pkey_table(&self, guid: &str) -> Vec<String> {
        let name = &self.ports[guid];
        let script = format!(
            "d=$(mktemp -d) && cd $d && export IBSIM_SOCKNAME={SOCKETS} && P={PRELOAD} && {}; rm -r $d",
            pkey_query_command(name)
        );
        exec_on(&self.node, &script).stdout_or_panic().split_whitespace().map(str::to_owned).collect()
    }
}

/// Shell command that prints a port's P_Key table, run as that port.
fn pkey_query_command(name: &str) -> String {
    format!(
        "LD_PRELOAD=$P SIM_HOST={name} timeout 20 smpquery pkeys -D 0 | sed -n 's/^ *[0-9]*: //p' | tr ' ' '\\n' | \
         grep -v -e '^0x0000$' -e '^$' | tr '\\n' ' '"
    )
}

/// The RDMA devices of a node with the GUIDs of their ports.
fn rdma_devices(node: &str) -> Vec<(String, String)> {
    let script = "cd /var/lib/ferroband/sim/sys/class/infiniband && for d in *; do echo $d $(cat $d/ports/1/gids/0); done";
    let line = |line: &str| {
        let (device, gid) = line.split_once(' ')?;
        let gid = gid.replace(':', "");
        let bytes: Vec<&str> = (16..32).step_by(2).filter_map(|at| gid.get(at..at + 2)).collect();
        Some((device.to_owned(), bytes.join(":")))
    };
    exec_on(node, script).stdout_or_panic().lines().filter_map(line).collect()
}

impl Drop for IbsimFabric {
    fn drop(&mut self) {
        // Stop the queries first: a query to a stopped ibsim hangs forever.
        exec_on(&self.node, "mv /run/ibsim/pid /run/ibsim/last");
        let _ = self.copier.take().map(JoinHandle::join);
        exec_on(&self.node, "kill $(cat /run/ibsim/last); rm -rf /run/ibsim");
        for mut child in self.children.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.opensm_mounts = None;
    }
}
