//! What the kernel counts.

use super::{
    Holders, Owner, Sandbox, inside,
    text::{Kind, Labels, Metrics},
};
use crate::discover::sysfs::{names, text};
use ferroband_kernel::Root;
use std::path::{Path, PathBuf};

/// Files among the counters that are settings.
const SETTINGS: [&str; 1] = ["lifespan"];

/// Where to read, and for whom.
#[derive(Clone, Debug)]
pub struct Counters {
    /// The machine's trees.
    pub root: Root,
    /// The name of this node.
    pub node: String,
}

impl Counters {
    /// Read all counters of all RDMA devices of the host's namespace, and in exclusive mode of those of `sandboxes`.
    pub fn read(&self, holders: &Holders, sandboxes: &[Sandbox]) -> Metrics {
        let mut metrics = Metrics::default();
        self.namespace(&self.root, &|pci| holders.get(pci).cloned(), &mut metrics);
        let mode = text(&self.root.sys("module/ib_core/parameters/netns_mode"));
        if mode.as_deref() == Some("N") {
            let place = self.root.run("ferroband/sandbox");
            for sandbox in sandboxes {
                let owner = |_: &str| Some(sandbox.owner.clone());
                inside(&sandbox.netns, &place, |root| self.namespace(root, &owner, &mut metrics));
            }
        }
        metrics
    }

    /// Read what the trees under `root` show.
    fn namespace(&self, root: &Root, owner: &Owned<'_>, metrics: &mut Metrics) {
        let devices = root.sys("class/infiniband");
        for name in names(&devices) {
            let folder = devices.join(&name);
            let device = Device { labels: self.labels(&folder, &name, owner), folder };
            device.counters(&device.folder.join("hw_counters"), None, metrics);
            device.traffic_class(metrics);
            for port in names(&device.folder.join("ports")) {
                let folder = device.folder.join("ports").join(&port);
                device.counters(&folder.join("counters"), Some(&port), metrics);
                device.counters(&folder.join("hw_counters"), Some(&port), metrics);
                device.port(&folder, &port, metrics);
            }
        }
    }

    /// Spiderpool's labels, in its order.
    fn labels(&self, folder: &Path, name: &str, owner: &Owned<'_>) -> Labels {
        let guid = |file: &str| text(&folder.join(file)).unwrap_or_default();
        let (node_guid, image_guid) = (guid("node_guid"), guid("sys_image_guid"));
        let first = |place: &str| names(&folder.join(place)).into_iter().next().unwrap_or_default();
        let mut labels = vec![
            ("node_name", self.node.clone()),
            ("ifname", name.to_owned()),
            ("net_dev_name", first("device/net")),
            ("is_root", (node_guid == image_guid).to_string()),
            ("node_guid", node_guid),
            ("sys_image_guid", image_guid),
            ("rdma_parent_name", first("device/physfn/net")),
        ];
        let pci = folder.join("device").canonicalize().ok();
        let pci = pci.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        labels.extend(owner(pci.as_deref().unwrap_or_default()).iter().flat_map(Owner::labels));
        labels
    }
}

/// Says whose the function at an address is.
type Owned<'a> = dyn Fn(&str) -> Option<Owner> + Sync + 'a;

struct Device {
    folder: PathBuf,
    labels: Labels,
}

impl Device {
    fn labels(&self, port: Option<&str>) -> Labels {
        let port = port.map(|port| ("port", port.to_owned()));
        self.labels.iter().cloned().chain(port).collect()
    }

    fn counters(&self, folder: &Path, port: Option<&str>, metrics: &mut Metrics) {
        for counter in names(folder) {
            // A counter that the device lacks cannot be read.
            let value = text(&folder.join(&counter)).and_then(|text| text.parse().ok());
            let Some(value) = value.filter(|_| !SETTINGS.contains(&counter.as_str())) else { continue };
            let name = format!("rdma_{}_total", counter.to_lowercase());
            let help = || match counter.as_str() {
                "port_xmit_data" | "port_rcv_data" => {
                    format!("The kernel's counter {counter}, in words of four bytes.")
                }
                _ => format!("The kernel's counter {counter}."),
            };
            metrics.add(name, Kind::Counter, help, self.labels(port), value);
        }
    }

    fn traffic_class(&self, metrics: &mut Metrics) {
        let class = text(&self.folder.join("tc/1/traffic_class"));
        let class = class.and_then(|text| text.lines().next()?.rsplit('=').next()?.trim().parse().ok());
        if let Some(class) = class {
            let help = || "The traffic class that the device is set to.".to_owned();
            metrics.add("rdma_device_tos_total".to_owned(), Kind::Counter, help, self.labels(None), class);
        }
    }

    fn port(&self, folder: &Path, port: &str, metrics: &mut Metrics) {
        let numbered = |file: &str| text(&folder.join(file))?.split(':').next()?.trim().parse().ok();
        let hex =
            |file: &str| u64::from_str_radix(text(&folder.join(file))?.trim_start_matches("0x"), 16).ok();
        let gauges: [(&str, &str, Option<u64>); 4] = [
            ("rdma_port_state", "State of the port: 1 down, 2 init, 3 armed, 4 active.", numbered("state")),
            ("rdma_port_physical_state", "Physical state of the port: 5 is a link.", numbered("phys_state")),
            ("rdma_port_lid", "Local identifier of the port; 0 without one.", hex("lid")),
            ("rdma_port_sm_lid", "Local identifier of the subnet manager; 0 without one.", hex("sm_lid")),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                metrics.add(name.to_owned(), Kind::Gauge, || help.to_owned(), self.labels(Some(port)), value);
            }
        }
        // `100 Gb/sec (4X EDR)`, `2.5 Gb/sec (1X SDR)`.
        let rate = text(&folder.join("rate")).and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        if let Some(rate) = rate.filter(|rate| *rate >= 0.0) {
            let name = "rdma_vport_speed_mbps_total".to_owned();
            let help = || "The rate of the port in megabits a second.".to_owned();
            metrics.add(name, Kind::Counter, help, self.labels(Some(port)), (rate * 1000.0).round() as u64);
        }
    }
}
