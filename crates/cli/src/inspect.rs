//! `ferroband inspect`.

use crate::output::{Output, print};
use crate::table::{table, text};
use clap::Args;
use ferroband_kernel::Root;
use ferroband_node::discover::{DeviceFile, Inventory, Port, RdmaDevice};
use std::path::PathBuf;

/// Show the InfiniBand hardware of this node
///
/// One line for each port: the device, where it is, what it is called as an interface, and how the link is.
#[derive(Args, Debug)]
pub struct Inspect {
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,

    /// Where the host's file system is.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl Inspect {
    /// Look, and print.
    pub fn run(self) -> anyhow::Result<()> {
        let host = ferroband_sim::hardware(&Root::at(self.root))?;
        // Simulated trees are brought up to date by whoever may write them; others see them as they are.
        let _ = host.refresh();
        let inventory = Inventory::read(host.root(), host.simulated())?;
        print(self.output, &inventory, || columns(&inventory, self.output == Output::Wide))
    }
}

/// What every table shows, and what a wide one shows besides.
const HEADS: [&str; 10] = ["DEVICE", "PCI", "ID", "NETDEV", "PORT", "LINK", "STATE", "RATE", "LID", "GUID"];
const MORE: [&str; 8] = ["PF", "VFS", "DRIVER", "FIRMWARE", "NUMA", "SM-LID", "P_KEYS", "FILES"];

/// The inventory for people.
fn columns(inventory: &Inventory, wide: bool) -> String {
    if inventory.devices.is_empty() {
        return "no RDMA devices on this node\n".to_owned();
    }
    let heads = HEADS.iter().chain(MORE.iter().filter(|_| wide)).copied();
    let mut rows = table(heads);
    let none = [Port::default()];
    for device in &inventory.devices {
        let ports = if device.ports.is_empty() { none.as_slice() } else { &device.ports };
        for port in ports {
            let mut cells = row(device, port);
            if wide {
                cells.extend(more(inventory, device, port));
            }
            rows.add_row(cells);
        }
    }
    let notice = if inventory.simulated { "SIMULATED hardware\n" } else { "" };
    let mode = match inventory.exclusive {
        Some(true) if wide => "RDMA namespaces: exclusive\n",
        Some(false) if wide => "RDMA namespaces: shared\n",
        _ => "",
    };
    format!("{notice}{mode}{}", text(rows))
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn listed(list: impl IntoIterator<Item = String>) -> String {
    let all: Vec<_> = list.into_iter().collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
}

fn row(device: &RdmaDevice, port: &Port) -> Vec<String> {
    vec![
        device.name.clone(),
        known(device.pci.as_ref()),
        known(device.id.as_ref()),
        listed(device.netdevs.iter().cloned()),
        port.number.to_string(),
        known(port.link_layer.as_ref()),
        port.state.clone(),
        known(port.rate.as_ref()),
        known(port.lid),
        known(port.guid.as_ref()),
    ]
}

fn more(inventory: &Inventory, device: &RdmaDevice, port: &Port) -> Vec<String> {
    let function = device.pci.as_deref().and_then(|pci| inventory.function(pci));
    let place = function.and_then(|function| Some((function.pf.as_ref()?, function.vf_index)));
    let name = |file: &DeviceFile| Some(file.path.file_name()?.to_string_lossy().into_owned());
    let (vfs, most) = device.vfs;
    vec![
        known(place.map(|(pf, index)| index.map_or_else(|| pf.clone(), |index| format!("{pf}#{index}")))),
        format!("{vfs}/{most}"),
        known(device.driver.as_ref()),
        known(device.firmware.as_ref()),
        known(device.numa),
        known(port.sm_lid),
        listed(port.pkeys.iter().cloned()),
        listed(device.files.iter().filter_map(name)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_node::discover::Function;

    #[test]
    fn a_port_is_a_line_and_simulation_is_said_first() {
        let port = Port {
            number: 1,
            link_layer: Some("InfiniBand".into()),
            state: "Active".into(),
            rate: Some("100 Gb/sec (4X EDR)".into()),
            lid: Some(3),
            guid: Some("b8:59:9f:03:00:a1:b2:c4".into()),
            ..Port::default()
        };
        let device = RdmaDevice {
            name: "mlx5_0".into(),
            pci: Some("0000:86:00.0".into()),
            id: Some("15b3:1017".into()),
            netdevs: vec!["ibs5f0".into()],
            ports: vec![port],
            ..RdmaDevice::default()
        };
        let bare = RdmaDevice { name: "rxe0".into(), ..RdmaDevice::default() };
        let inventory = Inventory { simulated: true, devices: vec![device, bare], ..Inventory::default() };
        assert_eq!(
            columns(&inventory, false),
            "\
SIMULATED hardware
DEVICE  PCI           ID         NETDEV  PORT  LINK        STATE   RATE                 LID  GUID
mlx5_0  0000:86:00.0  15b3:1017  ibs5f0  1     InfiniBand  Active  100 Gb/sec (4X EDR)  3    b8:59:9f:03:00:a1:b2:c4
rxe0    -             -          -       0     -                   -                    -    -
"
        );
        assert_eq!(columns(&Inventory::default(), false), "no RDMA devices on this node\n");
    }

    #[test]
    fn wide_tells_where_a_virtual_function_belongs() {
        let device = RdmaDevice {
            name: "mlx5_2".into(),
            pci: Some("0000:3b:00.2".into()),
            driver: Some("mlx5_core".into()),
            numa: Some(1),
            ..RdmaDevice::named("mlx5_2", Some("/dev/infiniband/uverbs2".into()))
        };
        let function = Function {
            pci: "0000:3b:00.2".into(),
            pf: Some("0000:3b:00.0".into()),
            vf_index: Some(0),
            ..Function::default()
        };
        let inventory = Inventory {
            devices: vec![device],
            functions: vec![function],
            exclusive: Some(true),
            ..Inventory::default()
        };
        let shown = columns(&inventory, true);
        assert!(shown.starts_with("RDMA namespaces: exclusive\n"), "{shown}");
        let last: Vec<_> = shown.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(
            last.get(last.len() - 8..).unwrap_or_default(),
            ["0000:3b:00.0#0", "0/0", "mlx5_core", "-", "1", "-", "-", "uverbs2"]
        );
    }
}
