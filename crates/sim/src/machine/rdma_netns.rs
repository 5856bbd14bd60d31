//! RDMA devices in network namespaces.

use super::{SimMachine, device_error};
use crate::state::FunctionId;
use crate::{Error, files};
use ferroband_kernel::{Errno, Error as KernelError, Netns, NetnsId, NetnsMode, RdmaDeviceInfo};

impl SimMachine {
    /// The devices that a namespace sees; none is the host's.
    pub(crate) fn rdma_devices(&self, netns: Option<NetnsId>) -> Vec<RdmaDeviceInfo> {
        let shared = self.state.netns_mode == NetnsMode::Shared;
        let seen = self.state.devices().filter(|(_, device)| shared || device.netns == netns);
        let mut devices: Vec<RdmaDeviceInfo> = seen
            .map(|(which, device)| {
                let mut link = RdmaDeviceInfo::new(device.index, &device.name, 1);
                link.ports = u32::try_from(device.port_guids.len()).unwrap_or(1);
                link.node_guid = Some(device.node_guid).filter(|guid| !guid.is_unset());
                link.sys_image_guid = Some(self.identity.node_guid(which.adapter));
                link.firmware = self.profile.hcas.get(which.adapter).map(|hca| hca.firmware.clone());
                link
            })
            .collect();
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
        let Some((which, _)) = found else {
            return Err(KernelError::NoRdmaDevice { device: name.to_owned() }.into());
        };
        if self.state.netns_mode == NetnsMode::Shared {
            return Err(device_error("move to another namespace the", name, Errno::EOPNOTSUPP));
        }
        let target = to.map(Netns::id);
        if target == from {
            return Ok(());
        }
        self.set_device_netns(which, target)?;
        match to.filter(|_| self.profile.ipoib_follows && which.vf.is_some()) {
            Some(netns) => {
                if let Some(wire) = self.desired_veth(which)? {
                    wire.move_to_netns(&mut self.route, netns)?;
                }
                self.refresh_interfaces(which)
            }
            None => Ok(()),
        }
    }

    /// Puts a device into a namespace. All that stands on it is made anew, its interface in the host's.
    pub(super) fn set_device_netns(
        &mut self,
        which: FunctionId,
        netns: Option<NetnsId>,
    ) -> Result<(), Error> {
        self.mark_dirty()?;
        self.remove_interfaces(which)?;
        let unit = self.function_view(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        let place = unit.device_path(device);
        self.remove_from_tree(&unit, device)?;
        self.push_event("remove", "infiniband", &place);
        self.state.serial += 1;
        let queue_pair = 0x47 + self.state.serial;
        if let Some(device) = self.state.device_mut(which) {
            device.netns = netns;
            device.queue_pair = queue_pair;
        }
        self.write_device(which)?;
        self.remove_unused_netns_dirs()?;
        self.push_event("add", "infiniband", &place);
        self.make_interfaces(which)
    }

    /// Makes namespaces shared or exclusive (rdma_compatdev_set of core/device.c). The kernel refuses while
    /// there is any other namespace; here it is one with an interface or a device of ours in it.
    pub(crate) fn set_netns_mode(&mut self, mode: NetnsMode) -> Result<(), Error> {
        if self.state.netns_mode == mode {
            return Ok(());
        }
        let ours = |name: &str| name.starts_with("fbv") || name.starts_with("fbf");
        let away = self.route.links()?.iter().any(|link| ours(&link.name) && link.parent_netns.is_some());
        if away || self.state.devices().any(|(_, device)| device.netns.is_some()) {
            let doing = format!("make the namespaces {mode} of");
            return Err(device_error(&doing, "any RDMA", Errno::EBUSY));
        }
        self.mark_dirty()?;
        self.state.netns_mode = mode;
        self.tree().write_netns_mode(mode)
    }

    /// Takes away the trees of namespaces that have no device any more.
    pub(super) fn remove_unused_netns_dirs(&self) -> Result<(), Error> {
        let spaces = self.trees.join("netns");
        let used: Vec<_> =
            self.state.devices().filter_map(|(_, device)| Some(self.netns_dir(device.netns?))).collect();
        for entry in std::fs::read_dir(&spaces).into_iter().flatten().flatten() {
            if !used.contains(&entry.path()) {
                files::remove_directory(&entry.path())?;
            }
        }
        Ok(())
    }
}
