//! RDMA devices in network namespaces.

use super::{SimMachine, device_error};
use crate::state::FunctionId;
use crate::{Error, files};
use ferroband_kernel::{Errno, Error as KernelError, Netns, NetnsId, NetnsMode, RdmaDeviceInfo};

impl SimMachine {
    /// Returns the RDMA devices that are visible in a network namespace. `None` stands for the host's
    /// namespace.
    pub(crate) fn rdma_devices(&self, netns: Option<NetnsId>) -> Vec<RdmaDeviceInfo> {
        let shared = self.state.netns_mode == NetnsMode::Shared;
        let visible = self.state.devices().filter(|(_, device)| shared || device.netns == netns);
        let mut devices: Vec<_> =
            visible.map(|(_, device)| RdmaDeviceInfo::new(device.index, &device.name)).collect();
        devices.sort_by_key(|device| device.index);
        devices
    }

    /// Moves a device between namespaces (ib_device_set_netns_put of core/device.c).
    pub(crate) fn move_device(
        &mut self,
        name: &str,
        from: Option<NetnsId>,
        to: Option<&Netns>,
    ) -> Result<(), Error> {
        let found = self.state.devices().find(|(_, device)| device.name == name && device.netns == from);
        let Some((id, _)) = found else {
            return Err(KernelError::NoRdmaDevice { device: name.to_owned() }.into());
        };
        if self.state.netns_mode == NetnsMode::Shared {
            return Err(device_error("set the network namespace of", name, Errno::EOPNOTSUPP));
        }
        let target = to.map(Netns::id);
        if target == from {
            return Ok(());
        }
        self.set_device_netns(id, target)?;
        match to.filter(|_| self.profile.ipoib_follows && id.vf.is_some()) {
            Some(netns) => {
                if let Some(veth) = self.desired_veth(id)? {
                    veth.move_to_netns(&mut self.route, netns)?;
                }
                self.refresh_interfaces(id)
            }
            None => Ok(()),
        }
    }

    /// Moves an RDMA device to a network namespace. `None` stands for the host's namespace. The interface of
    /// the device is recreated in the host's namespace, with a different queue pair number.
    pub(super) fn set_device_netns(&mut self, id: FunctionId, netns: Option<NetnsId>) -> Result<(), Error> {
        self.mark_dirty()?;
        self.remove_interfaces(id)?;
        let view = self.function_view(id)?;
        let Some(device) = self.state.device(id) else { return Ok(()) };
        let path = view.device_path(device);
        self.remove_from_tree(&view, device)?;
        self.push_event("remove", "infiniband", &path);
        self.state.serial += 1;
        let queue_pair = 0x47 + self.state.serial;
        if let Some(device) = self.state.device_mut(id) {
            device.netns = netns;
            device.queue_pair = queue_pair;
        }
        self.write_device(id)?;
        self.remove_unused_netns_dirs()?;
        self.push_event("add", "infiniband", &path);
        self.make_interfaces(id)
    }

    /// Sets shared or exclusive mode (rdma_compatdev_set of core/device.c). The kernel refuses this while any
    /// other namespace exists. The simulation refuses it only while another namespace contains a simulated
    /// interface or device.
    pub(crate) fn set_netns_mode(&mut self, mode: NetnsMode) -> Result<(), Error> {
        if self.state.netns_mode == mode {
            return Ok(());
        }
        let is_simulated = |name: &str| name.starts_with("fbv") || name.starts_with("fbf");
        let in_use =
            self.route.links()?.iter().any(|link| is_simulated(&link.name) && link.parent_netns.is_some());
        if in_use || self.state.devices().any(|(_, device)| device.netns.is_some()) {
            let doing = format!("set RDMA namespace mode {mode} of");
            return Err(device_error(&doing, "(all)", Errno::EBUSY));
        }
        self.mark_dirty()?;
        self.state.netns_mode = mode;
        self.tree().write_netns_mode(mode)
    }

    /// Removes the sysfs and /dev trees of network namespaces that no longer contain an RDMA device.
    pub(super) fn remove_unused_netns_dirs(&self) -> Result<(), Error> {
        let netns_dirs = self.trees.join("netns");
        let used: Vec<_> =
            self.state.devices().filter_map(|(_, device)| Some(self.netns_dir(device.netns?))).collect();
        for entry in std::fs::read_dir(&netns_dirs).into_iter().flatten().flatten() {
            if !used.contains(&entry.path()) {
                files::remove_directory(&entry.path())?;
            }
        }
        Ok(())
    }
}
