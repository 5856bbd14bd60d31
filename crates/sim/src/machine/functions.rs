//! Functions that come and go, and their drivers; with the answers that the kernel gives.

use super::{SimMachine, device_error};
use crate::Error;
use crate::state::{FunctionId, SimAdapter, SimVf};
use crate::sysfs_tree::VFIO_DRIVER;
use ferroband_kernel::Errno;

impl SimMachine {
    /// Puts an adapter into its slot, where its driver finds it.
    pub(crate) fn plug(&mut self, adapter: usize) -> Result<(), Error> {
        let which = FunctionId { adapter, vf: None };
        let ports =
            self.profile.hcas.get(adapter).map(|hca| hca.ports.iter().map(|port| port.state).collect());
        match self.state.adapters.get_mut(adapter) {
            Some(there) if !there.plugged => {
                *there = SimAdapter {
                    plugged: true,
                    ports: ports.unwrap_or_default(),
                    last_traffic: std::mem::take(&mut there.last_traffic),
                    ..SimAdapter::default()
                };
            }
            _ => return Ok(()),
        }
        self.mark_dirty()?;
        self.add_function(which)
    }

    /// Pulls an adapter out, with everything that stands on it.
    pub(crate) fn unplug(&mut self, adapter: usize) -> Result<(), Error> {
        if !self.state.adapters.get(adapter).is_some_and(|adapter| adapter.plugged) {
            return Ok(());
        }
        self.mark_dirty()?;
        let which = FunctionId { adapter, vf: None };
        self.detach_driver(which)?;
        self.remove_function(which)?;
        if let Some(adapter) = self.state.adapters.get_mut(adapter) {
            adapter.plugged = false;
        }
        Ok(())
    }

    /// sriov_numvfs_store of drivers/pci/iov.c.
    pub(crate) fn set_vf_count(&mut self, which: FunctionId, count: u16) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let (address, total, now) = (unit.address, unit.hca.total_vfs, unit.adapter.vfs.len());
        let doing = format!("have {count} virtual functions on");
        let refuse = |errno| Err(device_error(&doing, address, errno));
        if which.vf.is_some() {
            // A virtual function has no such file.
            return refuse(Errno::ENOENT);
        }
        match usize::from(count) {
            _ if count > total => return refuse(Errno::ERANGE),
            same if same == now => return Ok(()),
            _ if unit.function.driver.as_ref() != Some(&unit.hca.driver) => return refuse(Errno::ENOENT),
            0 => return self.remove_vfs(which.adapter),
            _ if now != 0 => return refuse(Errno::EBUSY),
            _ => {}
        }
        self.mark_dirty()?;
        for vf in 0..usize::from(count) {
            if let Some(adapter) = self.state.adapters.get_mut(which.adapter) {
                adapter.vfs.push(SimVf::default());
            }
            self.add_function(FunctionId { vf: Some(vf), ..which })?;
        }
        self.tree().write_vf_count(&self.function_view(which)?)?;
        let place = self.function_view(which)?.sysfs_path();
        // The driver core tells of the physical function when it is done (pci_enable_sriov).
        self.push_event("change", "pci", &place);
        Ok(())
    }

    fn remove_vfs(&mut self, adapter: usize) -> Result<(), Error> {
        self.mark_dirty()?;
        let which = FunctionId { adapter, vf: None };
        while let Some(last) =
            self.state.adapters.get(adapter).and_then(|adapter| adapter.vfs.len().checked_sub(1))
        {
            let vf = FunctionId { adapter, vf: Some(last) };
            self.detach_driver(vf)?;
            self.remove_function(vf)?;
            if let Some(adapter) = self.state.adapters.get_mut(adapter) {
                adapter.vfs.pop();
            }
        }
        self.tree().write_vf_count(&self.function_view(which)?)?;
        let place = self.function_view(which)?.sysfs_path();
        self.push_event("change", "pci", &place);
        Ok(())
    }

    /// A function comes to the bus, and its driver takes it.
    fn add_function(&mut self, which: FunctionId) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let (place, driver) = (unit.sysfs_path(), unit.hca.driver.clone());
        self.tree().write_function(&unit)?;
        self.push_event("add", "pci", &place);
        self.attach_driver(which, &driver)
    }

    fn remove_function(&mut self, which: FunctionId) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let place = unit.sysfs_path();
        self.tree().remove_function(&unit)?;
        self.push_event("remove", "pci", &place);
        Ok(())
    }

    /// Binds a function to a driver (bind_store of drivers/base/bus.c).
    pub(crate) fn bind(&mut self, which: FunctionId, driver: &str) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        let address = unit.address;
        let refuse = |errno| Err(device_error(&format!("bind driver {driver} to"), address, errno));
        let own = driver == unit.hca.driver;
        match unit.function.driver.as_deref() {
            Some(bound) if bound == driver => return Ok(()),
            Some(_) => return refuse(Errno::EBUSY),
            None => {}
        }
        match unit.function.driver_override.as_deref() {
            // No such driver, no such file.
            _ if !own && driver != VFIO_DRIVER => refuse(Errno::ENOENT),
            Some(reserved) if reserved != driver => refuse(Errno::ENODEV),
            // It does not know the numbers of the device.
            None if !own => refuse(Errno::ENODEV),
            _ => self.attach_driver(which, driver),
        }
    }

    /// Takes the driver from a function; none is fine.
    pub(crate) fn unbind(&mut self, which: FunctionId) -> Result<(), Error> {
        self.detach_driver(which)
    }

    /// Lets a driver find a function: the one it is reserved for, or the one that knows its numbers.
    pub(crate) fn probe(&mut self, which: FunctionId) -> Result<(), Error> {
        let unit = self.function_view(which)?;
        if unit.function.driver.is_some() {
            return Ok(());
        }
        let driver = unit.function.driver_override.clone().unwrap_or_else(|| unit.hca.driver.clone());
        match driver == unit.hca.driver || driver == VFIO_DRIVER {
            true => self.attach_driver(which, &driver),
            // Nobody of that name: nothing happens.
            false => Ok(()),
        }
    }

    /// Reserves a function for a driver, or gives it free.
    pub(crate) fn set_driver_override(
        &mut self,
        which: FunctionId,
        driver: Option<&str>,
    ) -> Result<(), Error> {
        self.mark_dirty()?;
        if let Some(function) = self.state.function_mut(which) {
            function.driver_override = driver.map(str::to_owned);
        }
        self.tree().write_driver(&self.function_view(which)?)
    }

    fn attach_driver(&mut self, which: FunctionId, driver: &str) -> Result<(), Error> {
        self.mark_dirty()?;
        if let Some(function) = self.state.function_mut(which) {
            function.driver = Some(driver.to_owned());
        }
        let unit = self.function_view(which)?;
        let (place, own) = (unit.sysfs_path(), driver == unit.hca.driver);
        self.tree().write_driver(&unit)?;
        if own {
            self.make_device(which)?;
        }
        self.push_event("bind", "pci", &place);
        Ok(())
    }

    fn detach_driver(&mut self, which: FunctionId) -> Result<(), Error> {
        if self.state.function(which).is_none_or(|function| function.driver.is_none()) {
            return Ok(());
        }
        self.mark_dirty()?;
        if which.vf.is_none() && !self.function_view(which)?.adapter.vfs.is_empty() {
            // A physical function's driver takes its virtual ones with it.
            self.remove_vfs(which.adapter)?;
        }
        self.remove_device(which)?;
        if let Some(function) = self.state.function_mut(which) {
            function.driver = None;
        }
        let unit = self.function_view(which)?;
        let place = unit.sysfs_path();
        self.tree().write_driver(&unit)?;
        self.push_event("unbind", "pci", &place);
        Ok(())
    }
}
