//! Reads the counters of RDMA devices from sysfs.

use super::{
    MetricsSandbox, PodWithController, PodsByPciAddress,
    exposition::{MetricFamilies, MetricKind, MetricLabels},
    vport,
};
use crate::{
    discover::sysfs::{read_text, sorted_names},
    error::error_chain,
};
use ferroband_kernel::{Hardware, Netns, Root, sysfs::counters};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::debug;

#[derive(Clone)]
pub struct RdmaCounterCollector {
    pub hardware: Arc<dyn Hardware>,
    pub node: String,
}

impl RdmaCounterCollector {
    /// Collects the counters of all RDMA devices in the host's network namespace. In exclusive RDMA mode,
    /// also collects those in the network namespaces of `sandboxes`.
    pub fn collect(&self, holders: &PodsByPciAddress, sandboxes: &[MetricsSandbox]) -> MetricFamilies {
        let mut metrics = MetricFamilies::default();
        // Only simulated hardware needs the refresh. If it fails, the previous values are reported.
        let _ = self.hardware.refresh();
        let root = self.hardware.root();
        self.collect_namespace(root, None, &|pci| holders.get(pci).cloned(), &mut metrics);
        let mode = read_text(&root.sys("module/ib_core/parameters/netns_mode"));
        if mode.as_deref() == Some("N") {
            for sandbox in sandboxes {
                // A namespace that no longer exists has no devices, so it is skipped.
                let Ok(netns) = Netns::open(&sandbox.netns) else { continue };
                let owner = |_: &str| Some(sandbox.pod.clone());
                let collected = self.hardware.with_netns_sysfs(&netns, &mut |root| {
                    self.collect_namespace(root, Some(&netns), &owner, &mut metrics);
                });
                if let Err(e) = collected {
                    debug!(
                        netns = %sandbox.netns.display(), error = %error_chain(&e),
                        "cannot read the RDMA counters of a pod"
                    );
                }
            }
        }
        metrics
    }

    /// Collects the counters of the devices under `root`, which shows sysfs as seen from `netns` (`None` for
    /// the host's network namespace).
    fn collect_namespace(
        &self,
        root: &Root,
        netns: Option<&Netns>,
        owner: &PodLookup<'_>,
        metrics: &mut MetricFamilies,
    ) {
        let devices = root.sys("class/infiniband");
        for name in sorted_names(&devices) {
            let folder = devices.join(&name);
            let device = RdmaDeviceMetrics { labels: self.labels(&folder, &name, owner), folder };
            device.add_counters(counters::device(root, &name).unwrap_or_default(), None, metrics);
            device.add_traffic_class(metrics);
            for port in sorted_names(&device.folder.join("ports")) {
                // A device that is removed during the scrape has no counters.
                let number = port.parse().unwrap_or_default();
                let counted = counters::port(root, &name, number).unwrap_or_default();
                device.add_counters(counted.port, Some(&port), metrics);
                device.add_counters(counted.hardware, Some(&port), metrics);
                device.add_port(&device.folder.join("ports").join(&port), &port, metrics);
            }
            for interface in sorted_names(&device.folder.join("device/net")).iter().take(1) {
                let counted = self.hardware.ethtool_statistics(interface, netns).unwrap_or_default();
                vport::add_driver_statistics(&counted, &device.labels, metrics);
            }
        }
    }

    /// Returns the labels of an RDMA device with Spiderpool's names, in Spiderpool's order.
    fn labels(&self, folder: &Path, name: &str, owner: &PodLookup<'_>) -> MetricLabels {
        let guid = |file: &str| read_text(&folder.join(file)).unwrap_or_default();
        let (node_guid, image_guid) = (guid("node_guid"), guid("sys_image_guid"));
        let first = |place: &str| sorted_names(&folder.join(place)).into_iter().next().unwrap_or_default();
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
        labels.extend(owner(pci.as_deref().unwrap_or_default()).iter().flat_map(PodWithController::labels));
        labels
    }
}

/// Returns the pod that the device with this PCI address is allocated to.
type PodLookup<'a> = dyn Fn(&str) -> Option<PodWithController> + Sync + 'a;

struct RdmaDeviceMetrics {
    folder: PathBuf,
    labels: MetricLabels,
}

impl RdmaDeviceMetrics {
    fn labels(&self, port: Option<&str>) -> MetricLabels {
        let port = port.map(|port| ("port", port.to_owned()));
        self.labels.iter().cloned().chain(port).collect()
    }

    fn add_counters(&self, counted: BTreeMap<String, u64>, port: Option<&str>, metrics: &mut MetricFamilies) {
        for (counter, value) in counted {
            let name = format!("rdma_{}_total", counter.to_lowercase());
            let help = || match counter.as_str() {
                "port_xmit_data" | "port_rcv_data" => {
                    format!("Kernel counter {counter}, in units of four bytes.")
                }
                _ => format!("Kernel counter {counter}."),
            };
            metrics.add(name, MetricKind::Counter, help, self.labels(port), value);
        }
    }

    fn add_traffic_class(&self, metrics: &mut MetricFamilies) {
        let class = read_text(&self.folder.join("tc/1/traffic_class"));
        let class = class.and_then(|text| text.lines().next()?.rsplit('=').next()?.trim().parse().ok());
        if let Some(class) = class {
            let help = || "Traffic class configured on the device.".to_owned();
            metrics.add(
                "rdma_device_tos_total".to_owned(),
                MetricKind::Counter,
                help,
                self.labels(None),
                class,
            );
        }
    }

    fn add_port(&self, folder: &Path, port: &str, metrics: &mut MetricFamilies) {
        let numbered = |file: &str| read_text(&folder.join(file))?.split(':').next()?.trim().parse().ok();
        let hex = |file: &str| {
            u64::from_str_radix(read_text(&folder.join(file))?.trim_start_matches("0x"), 16).ok()
        };
        let gauges: [(&str, &str, Option<u64>); 4] = [
            ("rdma_port_state", "State of the port: 1 down, 2 init, 3 armed, 4 active.", numbered("state")),
            ("rdma_port_physical_state", "Physical state of the port: 5 is LinkUp.", numbered("phys_state")),
            ("rdma_port_lid", "LID of the port; 0 if unassigned.", hex("lid")),
            ("rdma_port_sm_lid", "LID of the subnet manager; 0 if unknown.", hex("sm_lid")),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                metrics.add(
                    name.to_owned(),
                    MetricKind::Gauge,
                    || help.to_owned(),
                    self.labels(Some(port)),
                    value,
                );
            }
        }
        // The sysfs file `rate` contains, for example, `100 Gb/sec (4X EDR)` or `2.5 Gb/sec (1X SDR)`.
        let rate =
            read_text(&folder.join("rate")).and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        if let Some(rate) = rate.filter(|rate| *rate >= 0.0) {
            let name = "rdma_vport_speed_mbps_total".to_owned();
            let help = || "Rate of the port in Mbit/s.".to_owned();
            metrics.add(
                name,
                MetricKind::Counter,
                help,
                self.labels(Some(port)),
                (rate * 1000.0).round() as u64,
            );
        }
    }
}
