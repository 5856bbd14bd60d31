//! Selects the port that opensm runs on.

use ferroband_kernel::{
    Root,
    sysfs::{
        infiniband::{self, SysfsPort, SysfsRdmaDevice},
        pci,
    },
};
use ferroband_model::{Guid, LinkLayer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmPort {
    /// Kernel name of the RDMA device.
    pub device: String,
    pub port: u32,
    pub guid: Guid,
    /// LID of the subnet manager (`sm_lid`) and LID of the port (`lid`). Each is 0 if it is not set.
    pub lids: (u16, u16),
}

/// Selects the port that a value of the label `node-restriction.kubernetes.io/ferroband-subnet-manager` names: a device
/// (`mlx5_0`), a port of a device (`mlx5_0.2`), or the first port with a link (empty, `true`). Virtual functions
/// are excluded, because a subnet manager needs a physical port.
pub fn select_port(root: &Root, label: &str) -> Result<SmPort, String> {
    let devices = infiniband::devices(root).map_err(|error| error.to_string())?;
    let is_virtual = |device: &SysfsRdmaDevice| {
        device.pci.is_some_and(|at| pci::physical_function(root, at).is_ok_and(|found| found.is_some()))
    };
    let ports: Vec<(&SysfsRdmaDevice, &SysfsPort)> = devices
        .iter()
        .filter(|device| !is_virtual(device))
        .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
        .filter(|(_, port)| port.link_layer == Some(LinkLayer::InfiniBand))
        .collect();
    let is_named = |(device, port): &&(&SysfsRdmaDevice, &SysfsPort)| {
        label == device.name || label == format!("{}.{}", device.name, port.number)
    };
    let has_link = |(_, port): &&(&SysfsRdmaDevice, &SysfsPort)| port.phys_state.as_deref() == Some("LinkUp");
    let found = match label {
        "" | "true" => ports.iter().find(has_link).or(ports.first()),
        _ => ports.iter().find(is_named),
    };
    let Some((device, port)) = found else {
        let all: Vec<String> =
            ports.iter().map(|(device, port)| format!("{}.{}", device.name, port.number)).collect();
        return Err(match (label, all.is_empty()) {
            (_, true) => "the node has no InfiniBand port".to_owned(),
            (label, false) => {
                format!("the node has no InfiniBand port {label:?}; available: {}", all.join(", "))
            }
        });
    };
    let guid = port.guid.ok_or_else(|| format!("port {}.{} has no GUID", device.name, port.number))?;
    let lids = (port.sm_lid.unwrap_or_default(), port.lid.unwrap_or_default());
    Ok(SmPort { device: device.name.clone(), port: port.number, guid, lids })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn device(root: &Path, name: &str, layer: &str, physical: &str, guid: u64) {
        let port = root.join(format!("sys/class/infiniband/{name}/ports/1"));
        fs::create_dir_all(port.join("gids")).unwrap();
        let digits = format!("{guid:016x}");
        let parts: Vec<&str> = (0..16).step_by(4).map(|at| &digits[at..at + 4]).collect();
        let put = |file: &str, text: &str| fs::write(port.join(file), format!("{text}\n")).unwrap();
        put("gids/0", &format!("fe80:0000:0000:0000:{}", parts.join(":")));
        put("link_layer", layer);
        put("state", "4: ACTIVE");
        put("phys_state", physical);
        put("lid", "0x2");
        put("sm_lid", "0x1");
        fs::write(root.join(format!("sys/class/infiniband/{name}/node_type")), "1: CA\n").unwrap();
    }

    #[test]
    fn first_port_with_a_link_or_the_named_port_is_selected() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(select_port(&root, "").unwrap_err().contains("no InfiniBand port"));
        device(folder.path(), "mlx5_0", "Ethernet", "5: LinkUp", 1);
        device(folder.path(), "mlx5_1", "InfiniBand", "3: Disabled", 2);
        device(folder.path(), "mlx5_2", "InfiniBand", "5: LinkUp", 3);
        let of = |label: &str| select_port(&root, label).map(|port| (port.device, port.guid, port.lids));
        assert_eq!(of("").unwrap(), ("mlx5_2".to_owned(), Guid::new(3), (1, 2)));
        assert_eq!(of("true").unwrap(), of("mlx5_2.1").unwrap());
        assert_eq!(of("mlx5_1").unwrap().1, Guid::new(2));
        for label in ["mlx5_0", "mlx5_2.2", "nonsense"] {
            let problem = of(label).unwrap_err();
            assert!(problem.contains("mlx5_1.1, mlx5_2.1"), "{problem}");
        }
    }
}
