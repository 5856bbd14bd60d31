//! A fabric of ibsim for the lab: the ports of all nodes' simulated hardware stand in it, an opensm on a node manages it, and
//! what is in its tables is written to the simulated ports.
//!
//! ```text
//! opensm (in the node daemon's container) ──MADs──▶ ibsim ◀── smpquery, round and round ──▶ `ferroband sim fabric` on every node
//! ```
//!
//! Everything of ibsim is on one node: its sockets belong to a network namespace.

use crate::opensm_mounts::OpensmMounts;
use crate::{eventually, exec_on, lab_command, node_names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

/// What ibsim's sockets are called.
const SOCKETS: &str = "ferroband-lab";
/// The library that stands in for /dev/infiniband, wherever Debian put it.
const PRELOAD: &str = "$(ls /usr/lib/*/umad2sim/libumad2sim.so)";

/// The fabric; when dropped, ports are as without a subnet manager, and the node daemons know nothing of ibsim.
pub struct IbsimFabric {
    node: String,
    ports: BTreeMap<String, String>,
    children: Vec<Child>,
    copier: Option<JoinHandle<()>>,
    opensm_mounts: Option<OpensmMounts>,
}

impl IbsimFabric {
    /// Bring it up on a node, with all ports that there are now, and have opensm's surroundings on it: as an image with the
    /// package in it would, the daemon's container sees the node's libraries.
    #[track_caller]
    pub fn up(node: &str) -> Self {
        // By GUID, what ibsim calls the port's adapter.
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
        let mut command = lab_command(&["exec", &self.node, "--", "sh", "-c", &script]);
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

    /// One switch with an adapter for each port, in ibsim's language. A port's GUID is its node's and 1.
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

    /// The node daemons' containers get what opensm needs.
    fn mount_opensm(&mut self) {
        let host = rdma_devices(&self.node).into_iter().next().expect("an adapter").0;
        let preload = exec_on(&self.node, &format!("echo {PRELOAD}")).stdout_or_panic();
        self.opensm_mounts = Some(OpensmMounts::apply(&[
            json!({"name": "LD_PRELOAD", "value": preload.trim()}),
            json!({"name": "IBSIM_SOCKNAME", "value": SOCKETS}),
            json!({"name": "SIM_HOST", "value": format!("{}-{host}", self.node)}),
        ]));
    }

    /// From ibsim's tables to those of the nodes.
    fn start_table_copier(&mut self) {
        let one = |(guid, name): (&String, &String)| format!("{guid},{name}");
        let all: Vec<String> = self.ports.iter().map(one).collect();
        let script = format!(
            "mkdir -p /run/ibsim/copy && cd /run/ibsim/copy && export IBSIM_SOCKNAME={SOCKETS}; P={PRELOAD}; \
             while [ -e /run/ibsim/pid ]; do for p in {}; do [ -e /run/ibsim/pid ] || exit 0; k=$({}); echo \"${{p%,*}} $k\"; done; echo; sleep 0.1; done",
            all.join(" "),
            pkey_query_command("${p#*,}"),
        );
        let mut reader = lab_command(&["exec", &self.node, "--", "sh", "-c", &script]);
        let mut reader = reader.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("smpquery");
        let lines = BufReader::new(reader.stdout.take().expect("its output")).lines();
        self.children.push(reader);
        let writer = |node: &String| {
            let mut command = lab_command(&["exec", node, "--", "ferroband", "sim", "fabric"]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("ferroband sim fabric")
        };
        let mut writers: Vec<Child> = node_names().iter().map(writer).collect();
        self.copier = Some(thread::spawn(move || {
            let mut tell = |line: &Value| {
                for writer in &mut writers {
                    if let Some(stdin) = &mut writer.stdin {
                        let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
                    }
                }
            };
            let (mut round, mut told) = (serde_json::Map::new(), Value::Null);
            for line in lines.map_while(Result::ok) {
                if let Some((guid, keys)) = line.split_once(' ') {
                    // A port that no manager has written to yet has no key.
                    let keys: Vec<&str> = keys.split_whitespace().collect();
                    round.insert(
                        guid.to_owned(),
                        if keys.is_empty() { json!(["0x7fff"]) } else { json!(keys) },
                    );
                    continue;
                }
                let now = json!({"tables": std::mem::take(&mut round), "others": ["0x7fff"]});
                if now != told {
                    tell(&now);
                    told = now;
                }
            }
            tell(&json!({}));
            for mut writer in writers {
                drop(writer.stdin.take());
                let _ = writer.wait();
            }
        }));
    }

    /// The keys in the table of a port, as ibsim has it.
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

/// Asks a port for its table, on the port itself.
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
        // First nobody asks any more: who asks an ibsim that is gone asks for ever.
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
