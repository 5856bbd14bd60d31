//! RDMA devices in network namespaces.

use super::{Machine, refused};
use crate::state::Which;
use crate::{Error, files};
use ferroband_kernel::{Errno, Error as KernelError, Netns, NetnsId, NetnsMode, RdmaLink};

impl Machine {
    /// The devices that a namespace sees; none is the host's.
    pub(crate) fn devices(&self, netns: Option<NetnsId>) -> Vec<RdmaLink> {
        let shared = self.state.netns_mode == NetnsMode::Shared;
        let seen = self.state.devices().filter(|(_, device)| shared || device.netns == netns);
        let mut devices: Vec<RdmaLink> = seen
            .map(|(which, device)| {
                let mut link = RdmaLink::new(device.index, &device.name, 1);
                link.ports = u32::try_from(device.port_guids.len()).unwrap_or(1);
                link.node_guid = Some(device.node_guid).filter(|guid| !guid.is_unset());
                link.system_guid = Some(self.identity.node_guid(which.adapter));
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
            return Err(refused("move to another namespace the", name, Errno::EOPNOTSUPP));
        }
        let target = to.map(Netns::id);
        if target == from {
            return Ok(());
        }
        self.place_device(which, target)?;
        match to.filter(|_| self.profile.ipoib_follows && which.vf.is_some()) {
            Some(netns) => {
                if let Some(wire) = self.wire(which)? {
                    wire.send(&mut self.route, netns)?;
                }
                self.find_interfaces(which)
            }
            None => Ok(()),
        }
    }

    /// Puts a device into a namespace. All that stands on it is made anew, its interface in the host's.
    pub(super) fn place_device(&mut self, which: Which, netns: Option<NetnsId>) -> Result<(), Error> {
        self.touch()?;
        self.remove_interfaces(which)?;
        let unit = self.unit(which)?;
        let Some(device) = self.state.device(which) else { return Ok(()) };
        let place = unit.device_place(device);
        self.hide(&unit, device)?;
        self.tell("remove", "infiniband", &place);
        self.state.serial += 1;
        let queue_pair = 0x47 + self.state.serial;
        if let Some(device) = self.state.device_mut(which) {
            device.netns = netns;
            device.queue_pair = queue_pair;
        }
        self.write_device(which)?;
        self.drop_empty_spaces()?;
        self.tell("add", "infiniband", &place);
        self.make_interfaces(which)
    }

    /// Makes namespaces shared or exclusive (rdma_compatdev_set of core/device.c). The kernel refuses while
    /// there is any other namespace; here it is one with an interface or a device of ours in it.
    pub(crate) fn set_mode(&mut self, mode: NetnsMode) -> Result<(), Error> {
        if self.state.netns_mode == mode {
            return Ok(());
        }
        let ours = |name: &str| name.starts_with("fbv") || name.starts_with("fbf");
        let away = self.route.links()?.iter().any(|link| ours(&link.name) && link.parent_netns.is_some());
        if away || self.state.devices().any(|(_, device)| device.netns.is_some()) {
            let doing = format!("make the namespaces {mode} of");
            return Err(refused(&doing, "any RDMA", Errno::EBUSY));
        }
        self.touch()?;
        self.state.netns_mode = mode;
        self.tree().mode(mode)
    }

    /// Takes away the trees of namespaces that have no device any more.
    pub(super) fn drop_empty_spaces(&self) -> Result<(), Error> {
        let spaces = self.trees.join("netns");
        let used: Vec<_> =
            self.state.devices().filter_map(|(_, device)| Some(self.space(device.netns?))).collect();
        for entry in std::fs::read_dir(&spaces).into_iter().flatten().flatten() {
            if !used.contains(&entry.path()) {
                files::remove_directory(&entry.path())?;
            }
        }
        Ok(())
    }
}
