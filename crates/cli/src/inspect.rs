//! `ferroband inspect`: prints the InfiniBand hardware of this node.

use crate::output::{OutputFormat, print};
use crate::table::{render, table};
use clap::Args;
use ferroband_kernel::Root;
use ferroband_node::discover::{DeviceFile, Inventory, InventoryPort, InventoryRdmaDevice};
use std::path::PathBuf;

/// Show the InfiniBand hardware of this node
///
/// Prints one line for each port: device, PCI address, network interface and link state.
#[derive(Args, Debug)]
pub struct InspectCommand {
    /// Output format of the ports.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    /// Directory where the host's root file system is mounted.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl InspectCommand {
    pub fn run(self) -> anyhow::Result<()> {
        let host = ferroband_sim::hardware(&Root::at(self.root))?;
        // Update the sysfs trees of simulated hardware. Without write permission this fails, and the command
        // shows the trees as they are.
        let _ = host.refresh();
        let inventory = Inventory::read(host.root(), host.is_simulated())?;
        print(self.output, &inventory, || render_table(&inventory, self.output == OutputFormat::Wide))
    }
}

/// Columns of the table that `ferroband inspect` prints. With `-o wide`, the table also has `WIDE_COLUMNS`.
const COLUMNS: [&str; 10] = ["DEVICE", "PCI", "ID", "NETDEV", "PORT", "LINK", "STATE", "RATE", "LID", "GUID"];
const WIDE_COLUMNS: [&str; 8] = ["PF", "VFS", "DRIVER", "FIRMWARE", "NUMA", "SM-LID", "P_KEYS", "FILES"];

fn render_table(inventory: &Inventory, wide: bool) -> String {
    if inventory.devices.is_empty() {
        return "no RDMA devices on this node\n".to_owned();
    }
    let heads = COLUMNS.iter().chain(WIDE_COLUMNS.iter().filter(|_| wide)).copied();
    let mut rows = table(heads);
    let none = [InventoryPort::default()];
    for device in &inventory.devices {
        let ports = if device.ports.is_empty() { none.as_slice() } else { &device.ports };
        for port in ports {
            let mut cells = port_cells(device, port);
            if wide {
                cells.extend(wide_cells(inventory, device, port));
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
    format!("{notice}{mode}{}", render(rows))
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn join_or_dash(list: impl IntoIterator<Item = String>) -> String {
    let all: Vec<_> = list.into_iter().collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
}

fn port_cells(device: &InventoryRdmaDevice, port: &InventoryPort) -> Vec<String> {
    vec![
        device.name.clone(),
        or_dash(device.pci.as_ref()),
        or_dash(device.id.as_ref()),
        join_or_dash(device.netdevs.iter().cloned()),
        port.number.to_string(),
        or_dash(port.link_layer.as_ref()),
        port.state.clone(),
        or_dash(port.rate.as_ref()),
        or_dash(port.lid),
        or_dash(port.guid.as_ref()),
    ]
}

fn wide_cells(inventory: &Inventory, device: &InventoryRdmaDevice, port: &InventoryPort) -> Vec<String> {
    let function = device.pci.as_deref().and_then(|pci| inventory.function(pci));
    let place = function.and_then(|function| Some((function.pf.as_ref()?, function.vf_index)));
    let name = |file: &DeviceFile| Some(file.path.file_name()?.to_string_lossy().into_owned());
    let (vfs, most) = device.vfs;
    vec![
        or_dash(place.map(|(pf, index)| index.map_or_else(|| pf.clone(), |index| format!("{pf}#{index}")))),
        format!("{vfs}/{most}"),
        or_dash(device.driver.as_ref()),
        or_dash(device.firmware.as_ref()),
        or_dash(device.numa),
        or_dash(port.sm_lid),
        join_or_dash(port.pkeys.iter().cloned()),
        join_or_dash(device.files.iter().filter_map(name)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_node::discover::InventoryFunction;

    #[test]
    fn table_has_one_line_per_port_after_the_simulation_notice() {
        let port = InventoryPort {
            number: 1,
            link_layer: Some("InfiniBand".into()),
            state: "Active".into(),
            rate: Some("100 Gb/sec (4X EDR)".into()),
            lid: Some(3),
            guid: Some("b8:59:9f:03:00:a1:b2:c4".into()),
            ..InventoryPort::default()
        };
        let device = InventoryRdmaDevice {
            name: "mlx5_0".into(),
            pci: Some("0000:86:00.0".into()),
            id: Some("15b3:1017".into()),
            netdevs: vec!["ibs5f0".into()],
            ports: vec![port],
            ..InventoryRdmaDevice::default()
        };
        let bare = InventoryRdmaDevice { name: "rxe0".into(), ..InventoryRdmaDevice::default() };
        let inventory = Inventory { simulated: true, devices: vec![device, bare], ..Inventory::default() };
        assert_eq!(
            render_table(&inventory, false),
            "\
SIMULATED hardware
DEVICE  PCI           ID         NETDEV  PORT  LINK        STATE   RATE                 LID  GUID
mlx5_0  0000:86:00.0  15b3:1017  ibs5f0  1     InfiniBand  Active  100 Gb/sec (4X EDR)  3    b8:59:9f:03:00:a1:b2:c4
rxe0    -             -          -       0     -                   -                    -    -
"
        );
        assert_eq!(render_table(&Inventory::default(), false), "no RDMA devices on this node\n");
    }

    #[test]
    fn wide_table_shows_the_physical_function_of_a_vf() {
        let device = InventoryRdmaDevice {
            name: "mlx5_2".into(),
            pci: Some("0000:3b:00.2".into()),
            driver: Some("mlx5_core".into()),
            numa: Some(1),
            ..InventoryRdmaDevice::named("mlx5_2", Some("/dev/infiniband/uverbs2".into()))
        };
        let function = InventoryFunction {
            pci: "0000:3b:00.2".into(),
            pf: Some("0000:3b:00.0".into()),
            vf_index: Some(0),
            ..InventoryFunction::default()
        };
        let inventory = Inventory {
            devices: vec![device],
            functions: vec![function],
            exclusive: Some(true),
            ..Inventory::default()
        };
        let shown = render_table(&inventory, true);
        assert!(shown.starts_with("RDMA namespaces: exclusive\n"), "{shown}");
        let last: Vec<_> = shown.lines().last().unwrap_or_default().split_whitespace().collect();
        assert_eq!(
            last.get(last.len() - 8..).unwrap_or_default(),
            ["0000:3b:00.0#0", "0/0", "mlx5_core", "-", "1", "-", "-", "uverbs2"]
        );
    }
}
