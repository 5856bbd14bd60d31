use super::*;
use ferroband_model::FaultCode;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const PHYSICAL: &str = "0000:86:00.0";
const OWN: &str = "0000:86:00.2";
const OF_ANOTHER_POD: &str = "0000:86:00.3";

/// A host with a physical function, `ibs5f0`, and two virtual functions, `v0` and `v1`, each with an RDMA device.
fn host() -> (TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let sys = folder.path().join("sys");
    for (function, interface, rdma) in
        [(PHYSICAL, "ibs5f0", "mlx5_0"), (OWN, "v0", "mlx5_1"), (OF_ANOTHER_POD, "v1", "mlx5_2")]
    {
        let device = sys.join("bus/pci/devices").join(function);
        fs::create_dir_all(device.join("infiniband").join(rdma)).unwrap();
        fs::create_dir_all(device.join("net").join(interface)).unwrap();
        fs::write(device.join("vendor"), "0x15b3\n").unwrap();
        fs::write(device.join("device"), "0x1017\n").unwrap();
        fs::create_dir_all(sys.join("class/net")).unwrap();
        symlink(&device, device.join("net").join(interface).join("device")).unwrap();
        symlink(device.join("net").join(interface), sys.join("class/net").join(interface)).unwrap();
        if function != PHYSICAL {
            symlink(sys.join("bus/pci/devices").join(PHYSICAL), device.join("physfn")).unwrap();
        }
    }
    let root = Root::at(folder.path());
    (folder, root)
}

fn devices(ids: &[&str]) -> PodDevices {
    let mut devices = PodDevices::default();
    devices.add("x/vf", ids.iter().map(|id| (*id).to_owned()));
    devices
}

#[test]
fn a_virtual_function_of_another_pod_is_no_parent() {
    let (_folder, root) = host();
    let check = |interface: &str, ids: &[&str]| check_parent(&root, "a/ib", interface, &devices(ids));
    check("ibs5f0", &[]).unwrap();
    check("no-pci-device", &[]).unwrap();
    check("v0", &[OWN]).unwrap();
    let fault = check("v1", &[OWN]).unwrap_err();
    assert_eq!(fault.code, FaultCode::DeviceNotAllocated);
    for word in ["a/ib", "v1", OF_ANOTHER_POD] {
        assert!(fault.to_string().contains(word), "{word}: {fault}");
    }
}

#[test]
fn a_device_operation_changes_only_devices_of_the_pod() {
    let (_folder, root) = host();
    let check =
        |operation: DeviceOp| check_device_op(&root, &Plan::default(), &operation, &devices(&[OWN, "sf.1"]));
    let to_pod = |device: &str| DeviceOp::MoveToPod { device: device.to_owned() };
    check(to_pod("mlx5_1")).unwrap();
    for foreign in ["mlx5_2", "mlx5_0", "mlx5_9", ".."] {
        assert_eq!(check(to_pod(foreign)).unwrap_err().code, FaultCode::DeviceNotAllocated, "{foreign}");
    }
    check(DeviceOp::Rebind { function: OWN.parse().unwrap() }).unwrap();
    for foreign in [OF_ANOTHER_POD, PHYSICAL] {
        let fault = check(DeviceOp::Rebind { function: foreign.parse().unwrap() }).unwrap_err();
        assert_eq!(fault.code, FaultCode::DeviceNotAllocated, "{fault}");
    }
    // Cleanup is never refused.
    check(DeviceOp::MoveToHost { device: "mlx5_2".to_owned() }).unwrap();

    let subfunction = root.sys("bus/auxiliary/devices/sf.1/infiniband/mlx5_7");
    fs::create_dir_all(subfunction).unwrap();
    check(to_pod("mlx5_7")).unwrap();
}
