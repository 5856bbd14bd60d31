//! Checks that a sandbox uses only devices of its pod, where this can be told only from the host's sysfs: the parents of
//! IPoIB interfaces, and device operations that the CNI plugin requests.

use crate::build::not_allocated_fault;
use crate::kubelet::PodDevices;
use ferroband_attach::{DeviceOp, plan::Plan};
use ferroband_kernel::Root;
use ferroband_kernel::sysfs::{infiniband, pci};
use ferroband_model::{Fault, PciAddress};
use std::fs;

/// Fails if the IPoIB parent `interface` is a virtual function that was not allocated to the pod. A child of it would
/// stay in the pod, and use the function's P_Keys, when the function is given to another pod. Physical functions are
/// shared by pods: what a pod may use of them is decided by its P_Key.
pub fn check_parent(root: &Root, network: &str, interface: &str, devices: &PodDevices) -> Result<(), Fault> {
    let Some(address) = function_of_interface(root, interface) else { return Ok(()) };
    let function = pci::function(root, address).map_err(|e| e.fault())?;
    let is_virtual = function.is_some_and(|function| function.physical_function.is_some());
    match is_virtual && !devices.contains(&address.to_string()) {
        true => {
            let what = format!("virtual function {address}, which is `master` {interface} of the network,");
            Err(not_allocated_fault(network, &what))
        }
        false => Ok(()),
    }
}

/// Fails if an operation of an ADD changes a device that was not allocated to the pod. The CNI plugin derives the device
/// of `rdma` from a MAC address, which a pod may choose, so the plan does not contain it.
pub fn check_device_op(
    root: &Root,
    plan: &Plan,
    operation: &DeviceOp,
    devices: &PodDevices,
) -> Result<(), Fault> {
    let refused = |device: String| {
        let networks: Vec<&str> = plan.attachments.iter().map(|one| one.network.as_str()).collect();
        Err(not_allocated_fault(&networks.join(", "), &device))
    };
    match operation {
        DeviceOp::Rebind { function } if !devices.contains(&function.to_string()) => {
            refused(format!("function {function}"))
        }
        DeviceOp::MoveToPod { device } if !devices.ids().any(|id| has_rdma_device(root, id, device)) => {
            refused(format!("RDMA device {device}"))
        }
        // A device that returns to the host was in the pod.
        _ => Ok(()),
    }
}

/// Whether the RDMA device `name` belongs to the PCI function or auxiliary device `id`.
fn has_rdma_device(root: &Root, id: &str, name: &str) -> bool {
    match id.parse::<PciAddress>() {
        Ok(function) => infiniband::device_names_of_function(root, function)
            .is_ok_and(|names| names.iter().any(|one| one == name)),
        Err(_) if id.contains('/') || id.starts_with('.') => false,
        Err(_) => root.sys("bus/auxiliary/devices").join(id).join("infiniband").join(name).exists(),
    }
}

/// The PCI function of an interface; `None` for an interface without one, such as that of a software device.
fn function_of_interface(root: &Root, name: &str) -> Option<PciAddress> {
    let target = fs::read_link(root.sys("class/net").join(name).join("device")).ok()?;
    target.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests;
