//! Renders the status report as tables.

use super::StatusPart;
use super::report::{InterfaceRow, NodeRow, StatusReport};
use crate::table::{render as lines, table};

/// Renders the tables of `parts`, or all tables if `parts` is empty.
pub fn render(report: &StatusReport, parts: &[StatusPart], wide: bool) -> String {
    let selected = |part: StatusPart| parts.is_empty() || parts.contains(&part);
    let all = [
        (StatusPart::Daemons, daemons(report, wide)),
        (StatusPart::Nodes, nodes(&report.nodes)),
        (StatusPart::Pods, pods(&report.pods, wide)),
        (StatusPart::Addresses, addresses(report)),
    ];
    let mut shown: Vec<String> =
        all.into_iter().filter(|(part, _)| selected(*part)).map(|(_, text)| text).collect();
    if parts.is_empty() {
        shown.extend(
            (!report.unreadable.is_empty())
                .then(|| format!("Not readable: {}\n", report.unreadable.join("; "))),
        );
    }
    shown.join("\n")
}

fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

fn join_or_dash(list: &[String], between: &str) -> String {
    if list.is_empty() { "-".to_owned() } else { list.join(between) }
}

fn daemons(report: &StatusReport, wide: bool) -> String {
    if report.daemons.is_empty() {
        return "Ferroband is not running in this cluster\n".to_owned();
    }
    if !wide {
        let count = |component: &str| {
            let all = report.daemons.iter().filter(|daemon| daemon.component == component);
            (all.clone().filter(|daemon| daemon.ready).count(), all.count())
        };
        let ((ready, all), (up, replicas)) = (count("node"), count("cluster"));
        let leader = report.daemons.iter().find(|daemon| daemon.leads).map(|daemon| daemon.pod.as_str());
        return format!(
            "Daemons: node {ready}/{all} ready, cluster {up}/{replicas} ready, leader {}\n",
            leader.unwrap_or("none")
        );
    }
    let mut rows = table(["DAEMON", "POD", "NODE", "READY", "LEADER", "RESTARTS", "IMAGE"]);
    for daemon in &report.daemons {
        rows.add_row([
            daemon.component.clone(),
            format!("{}/{}", daemon.namespace, daemon.pod),
            or_dash(daemon.node.as_deref()),
            yes_no(daemon.ready),
            yes_no(daemon.leads),
            daemon.restarts.to_string(),
            or_dash(daemon.image.as_deref()),
        ]);
    }
    lines(rows)
}

fn yes_no(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_owned()
}

fn nodes(nodes: &[NodeRow]) -> String {
    let mut rows = table(["NODE", "STATE", "DAEMON", "HARDWARE", "VFS", "RESOURCES (USED/ALL)"]);
    for node in nodes {
        let state = match (node.ready, node.schedulable) {
            (true, true) => "Ready",
            (true, false) => "Ready,cordoned",
            (false, _) => "NotReady",
        };
        let daemon = node.daemon.map_or("none", |ready| if ready { "ready" } else { "not ready" });
        let resources: Vec<_> = node
            .resources
            .iter()
            .map(|(name, amount)| format!("{name} {}/{}", amount.used, amount.allocatable))
            .collect();
        rows.add_row([
            node.name.clone(),
            state.to_owned(),
            daemon.to_owned(),
            match (node.daemon, node.simulated) {
                (_, true) => "simulated",
                (Some(true), false) => "real",
                // Without a ready daemon, it is unknown whether the hardware is real.
                (_, false) => "-",
            }
            .to_owned(),
            or_dash(node.sync.as_deref()),
            join_or_dash(&resources, ", "),
        ]);
    }
    let mut text = lines(rows);
    for node in nodes {
        for problem in &node.problems {
            text.push_str(&format!("! {}: {problem}\n", node.name));
        }
    }
    text
}

fn pods(pods: &[InterfaceRow], wide: bool) -> String {
    if pods.is_empty() {
        return "No pod has or requests an additional network\n".to_owned();
    }
    let heads = ["POD", "NODE", "INTERFACE", "DEVICE", "IP", "GUID", "P_KEY", "STATE"];
    let more = ["NETWORK", "PCI", "MTU", "MAC"];
    let mut rows = table(heads.into_iter().chain(more.into_iter().filter(|_| wide)));
    for row in pods {
        let mut cells = vec![
            format!("{}/{}", row.namespace, row.pod),
            or_dash(row.node.as_deref()),
            or_dash(row.interface.as_deref()),
            or_dash(row.device.as_deref()),
            join_or_dash(&row.ips, ","),
            or_dash(row.guid.as_deref()),
            or_dash(row.pkey.as_deref()),
            row.state.clone(),
        ];
        if wide {
            cells.extend([
                or_dash(Some(row.network.as_str()).filter(|network| !network.is_empty())),
                or_dash(row.pci.as_deref()),
                row.mtu.map_or_else(|| "-".to_owned(), |mtu| mtu.to_string()),
                or_dash(row.mac.as_deref()),
            ]);
        }
        rows.add_row(cells);
    }
    let mut text = lines(rows);
    let mut messages: Vec<_> = pods
        .iter()
        .filter_map(|row| Some(format!("! {}/{}: {}\n", row.namespace, row.pod, row.message.as_ref()?)))
        .collect();
    messages.dedup();
    text.extend(messages);
    text
}

fn addresses(report: &StatusReport) -> String {
    if report.addresses.is_empty() {
        return "No addresses are assigned\n".to_owned();
    }
    let mut rows = table(["ADDRESSES OF", "SUBNET", "USED", "TOTAL", "BLOCKS"]);
    for space in &report.addresses {
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        rows.add_row([
            space.name.clone(),
            or_dash(space.subnet.as_deref()),
            space.used.to_string(),
            number(space.total),
            number(space.blocks.map(|count| count as u64)),
        ]);
    }
    lines(rows)
}
