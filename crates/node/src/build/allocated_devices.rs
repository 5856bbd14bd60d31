//! Checks that the plugins of a network use only devices of the pod.
//!
//! A device in a network configuration or in a pod's annotation is input of a tenant. Without this check it could be
//! the virtual function of another tenant, or a physical function with all its functions.

use crate::kubelet::PodDevices;
use ferroband_config::named_devices;
use ferroband_model::{Fault, FaultCode};
use serde_json::{Map, Value};

/// Fails if a plugin names a device that was not allocated to the pod. `plugins` are the configurations as the plugins
/// get them, so that the device that is checked is the one that is used.
pub fn check_allocated_devices(
    network: &str,
    plugins: &[Map<String, Value>],
    devices: &PodDevices,
) -> Result<(), Fault> {
    let mut named = plugins.iter().flat_map(named_devices);
    match named.find(|device| !devices.contains(device)) {
        Some(device) => Err(not_allocated_fault(network, &format!("device {device}"))),
        None => Ok(()),
    }
}

/// The fault for `device`, which is a device with its kind.
pub fn not_allocated_fault(network: &str, device: &str) -> Fault {
    Fault::new(
        FaultCode::DeviceNotAllocated,
        format!("network {network}"),
        format!("{device} is not allocated to the pod"),
        "name no device in the network or the annotation; set the resource in the network's annotation \
         k8s.v1.cni.cncf.io/resourceName, and the kubelet allocates a device to the pod",
    )
}
