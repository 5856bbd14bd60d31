//! `ferroband inspect`.

use crate::table::{table, text};
use clap::{Args, ValueEnum};
use ferroband_kernel::Root;
use ferroband_node::discover::{Inventory, Port, RdmaDevice};
use std::{
    io::{Write, stdout},
    path::PathBuf,
};

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

/// A form of output.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// Columns, for people.
    Table,
    /// Everything that is known, for programs.
    Json,
}

impl Inspect {
    /// Look, and print.
    pub fn run(self) -> anyhow::Result<()> {
        let host = ferroband_sim::host(&Root::at(self.root))?;
        let inventory = Inventory::read(host.root(), host.simulated())?;
        let shown = match self.output {
            Output::Table => columns(&inventory),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(&inventory)?),
        };
        stdout().write_all(shown.as_bytes())?;
        Ok(())
    }
}

/// The inventory for people.
fn columns(inventory: &Inventory) -> String {
    if inventory.devices.is_empty() {
        return "no RDMA devices on this node\n".to_owned();
    }
    let mut rows = table(["DEVICE", "PCI", "ID", "NETDEV", "PORT", "LINK", "STATE", "RATE", "LID", "GUID"]);
    for device in &inventory.devices {
        for port in &device.ports {
            rows.add_row(row(device, port));
        }
        if device.ports.is_empty() {
            rows.add_row(row(device, &Port::default()));
        }
    }
    let notice = if inventory.simulated { "SIMULATED hardware\n" } else { "" };
    format!("{notice}{}", text(rows))
}

fn row(device: &RdmaDevice, port: &Port) -> [String; 10] {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let netdevs = if device.netdevs.is_empty() { "-".to_owned() } else { device.netdevs.join(",") };
    [
        device.name.clone(),
        known(&device.pci),
        known(&device.id),
        netdevs,
        port.number.to_string(),
        known(&port.link_layer),
        port.state.clone(),
        known(&port.rate),
        port.lid.map_or_else(|| "-".to_owned(), |lid| lid.to_string()),
        known(&port.guid),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let inventory = Inventory { simulated: true, devices: vec![device, bare], rdma_cm: None };
        assert_eq!(
            columns(&inventory),
            "\
SIMULATED hardware
DEVICE  PCI           ID         NETDEV  PORT  LINK        STATE   RATE                 LID  GUID
mlx5_0  0000:86:00.0  15b3:1017  ibs5f0  1     InfiniBand  Active  100 Gb/sec (4X EDR)  3    b8:59:9f:03:00:a1:b2:c4
rxe0    -             -          -       0     -                   -                    -    -
"
        );
        assert_eq!(columns(&Inventory::default()), "no RDMA devices on this node\n");
    }
}
