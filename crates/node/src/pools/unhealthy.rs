//! Explains why devices are unhealthy.

use super::AdvertisedDevice;
use crate::discover::Inventory;
use std::collections::BTreeMap;

/// Name and error of an RDMA device of the function at `pci` that cannot be read, if any.
pub fn device_error<'a>(inventory: &'a Inventory, pci: &str) -> Option<(&'a str, &'a str)> {
    let devices = inventory.devices.iter().filter(|device| device.pci.as_deref() == Some(pci));
    devices.filter_map(|device| Some((device.name.as_str(), device.error.as_deref()?))).next()
}

/// Explains why devices are unhealthy, with one text per physical function.
pub fn unhealthy_causes(inventory: &Inventory, devices: &[AdvertisedDevice]) -> Vec<String> {
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for device in devices.iter().filter(|device| !device.healthy) {
        let (uplink, id) = (device.uplink.as_str(), device.id.as_str());
        let error = device_error(inventory, uplink).or_else(|| device_error(inventory, id));
        let cause = match error {
            Some((name, error)) => format!(
                "{name} cannot be read: {error}; look for errors of the adapter in the kernel log, and reset it"
            ),
            None => port_cause(inventory, uplink),
        };
        *counts.entry((uplink, cause)).or_default() += 1;
    }
    let text = |((uplink, cause), count)| format!("{count} devices of {uplink} are unhealthy: {cause}");
    counts.into_iter().map(text).collect()
}

/// Explains why no port of the physical function `pf` is active.
fn port_cause(inventory: &Inventory, pf: &str) -> String {
    let ports = inventory
        .rdma_devices_of(pf)
        .flat_map(|device| device.ports.iter().map(move |port| (&device.name, port)))
        .filter(|(_, port)| port.state != "Active");
    let texts: Vec<_> = ports
        .map(|(name, port)| {
            let remedy = match port.state.as_str() {
                "Down" => "check the cable and the port of the switch",
                "Init" | "Armed" => "check that a subnet manager runs on the fabric",
                _ => "check the port with ibstat",
            };
            format!("port {} of {name} is {}; {remedy}", port.number, port.state)
        })
        .collect();
    // The port was down and is active again, but not for long enough.
    if texts.is_empty() { "its port was down a moment ago".to_owned() } else { texts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::super::{
        build_advertised_pools,
        fixture::{A, node, parse_config, vf_address},
    };
    use crate::discover::Inventory;
    use std::collections::BTreeSet;

    const VFS: &str =
        r#"{"resourceList":[{"resourceName":"ib_vfs","selectors":{"pfNames":["ibs1"],"isRdma":true}}]}"#;

    /// Returns the health of the functions and the problems, if the ports of the functions in `down` are down.
    fn health(inventory: &Inventory, down: &[&str]) -> (Vec<bool>, Vec<String>) {
        let config = parse_config(VFS);
        let is_up = |pci: &str| !down.contains(&pci);
        let (pools, problems) = build_advertised_pools(&config.pools, inventory, &BTreeSet::new(), &is_up);
        let healthy = pools[0].devices.iter().map(|device| device.healthy).collect();
        (healthy, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn port_that_is_down_is_named_as_the_reason() {
        let mut inventory = node(3);
        assert_eq!(health(&inventory, &[]), (vec![true; 3], vec![]));
        inventory.devices[0].ports[0].state = "Down".to_owned();
        let (healthy, problems) = health(&inventory, &[A]);
        assert_eq!(healthy, [false; 3]);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        for part in ["3 devices", A, "port 1 of mlx5_0 is Down", "cable"] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
        inventory.devices[0].ports[0].state = "Init".to_owned();
        assert!(health(&inventory, &[A]).1[0].contains("subnet manager"));
    }

    #[test]
    fn device_that_cannot_be_read_is_unhealthy_and_the_others_are_not() {
        let mut inventory = node(3);
        let sick = vf_address(1);
        let device = inventory.devices.iter_mut().find(|device| device.pci.as_ref() == Some(&sick)).unwrap();
        device.error = Some("cannot read node_guid: Input/output error".to_owned());
        let (healthy, problems) = health(&inventory, &[]);
        assert_eq!(healthy, [true, false, true]);
        assert!(
            problems[0].contains("1 devices") && problems[0].contains("Input/output error"),
            "{problems:?}"
        );
    }
}
