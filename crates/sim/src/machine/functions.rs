//! PCI functions and their drivers. Operations fail with the same errors as in the kernel.

use super::{SimMachine, device_error};
use crate::Error;
use crate::state::{FunctionId, SimAdapter, SimVf};
use crate::sysfs_tree::VFIO_DRIVER;
use ferroband_kernel::Errno;

impl SimMachine {
    /// Plugs an adapter in and binds its driver.
    pub(crate) fn plug(&mut self, adapter: usize) -> Result<(), Error> {
        let id = FunctionId { adapter, vf: None };
        let ports =
            self.profile.hcas.get(adapter).map(|hca| hca.ports.iter().map(|port| port.state).collect());
        match self.state.adapters.get_mut(adapter) {
            Some(state) if !state.plugged => {
                *state = SimAdapter {
                    plugged: true,
                    ports: ports.unwrap_or_default(),
                    last_traffic: std::mem::take(&mut state.last_traffic),
                    ..SimAdapter::default()
                };
            }
            _ => return Ok(()),
        }
        self.mark_dirty()?;
        self.add_function(id)
    }

    /// Unplugs an adapter, and removes its virtual functions, RDMA devices and interfaces.
    pub(crate) fn unplug(&mut self, adapter: usize) -> Result<(), Error> {
        if !self.state.adapters.get(adapter).is_some_and(|adapter| adapter.plugged) {
            return Ok(());
        }
        self.mark_dirty()?;
        let id = FunctionId { adapter, vf: None };
        self.detach_driver(id)?;
        self.remove_function(id)?;
        if let Some(adapter) = self.state.adapters.get_mut(adapter) {
            adapter.plugged = false;
        }
        Ok(())
    }

    /// Sets the number of virtual functions, with the checks of sriov_numvfs_store (drivers/pci/iov.c).
    pub(crate) fn set_vf_count(&mut self, id: FunctionId, count: u16) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let (address, total, current) = (view.address, view.hca.total_vfs, view.adapter.vfs.len());
        let doing = format!("set the number of virtual functions to {count} on");
        let refuse = |errno| Err(device_error(&doing, address, errno));
        if id.vf.is_some() {
            // A virtual function has no attribute `sriov_numvfs`.
            return refuse(Errno::ENOENT);
        }
        match usize::from(count) {
            _ if count > total => return refuse(Errno::ERANGE),
            same if same == current => return Ok(()),
            _ if view.function.driver.as_ref() != Some(&view.hca.driver) => return refuse(Errno::ENOENT),
            0 => return self.remove_vfs(id.adapter),
            _ if current != 0 => return refuse(Errno::EBUSY),
            _ => {}
        }
        self.mark_dirty()?;
        for vf in 0..usize::from(count) {
            if let Some(adapter) = self.state.adapters.get_mut(id.adapter) {
                adapter.vfs.push(SimVf::default());
            }
            self.add_function(FunctionId { vf: Some(vf), ..id })?;
        }
        self.publish_vf_count(id)
    }

    /// Writes the number of virtual functions to the sysfs tree. The driver core then sends an event for the physical
    /// function (pci_enable_sriov).
    fn publish_vf_count(&mut self, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let path = view.sysfs_path();
        self.tree().write_vf_count(&view)?;
        self.push_event("change", "pci", &path);
        Ok(())
    }

    fn remove_vfs(&mut self, adapter: usize) -> Result<(), Error> {
        self.mark_dirty()?;
        let id = FunctionId { adapter, vf: None };
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
        self.publish_vf_count(id)
    }

    /// Adds a function to the PCI bus and binds its driver.
    fn add_function(&mut self, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let (path, driver) = (view.sysfs_path(), view.hca.driver.clone());
        self.tree().write_function(&view)?;
        self.push_event("add", "pci", &path);
        self.attach_driver(id, &driver)
    }

    fn remove_function(&mut self, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let path = view.sysfs_path();
        self.tree().remove_function(&view)?;
        self.push_event("remove", "pci", &path);
        Ok(())
    }

    /// Binds a function to a driver (bind_store of drivers/base/bus.c).
    pub(crate) fn bind(&mut self, id: FunctionId, driver: &str) -> Result<(), Error> {
        let view = self.function_view(id)?;
        let address = view.address;
        let refuse = |errno| Err(device_error(&format!("bind driver {driver} to"), address, errno));
        let own_driver = driver == view.hca.driver;
        match view.function.driver.as_deref() {
            Some(bound) if bound == driver => return Ok(()),
            Some(_) => return refuse(Errno::EBUSY),
            None => {}
        }
        match view.function.driver_override.as_deref() {
            // The simulated host only has the adapter's own driver and vfio-pci.
            _ if !own_driver && driver != VFIO_DRIVER => refuse(Errno::ENOENT),
            Some(only) if only != driver => refuse(Errno::ENODEV),
            // vfio-pci only binds functions whose `driver_override` names it.
            None if !own_driver => refuse(Errno::ENODEV),
            _ => self.attach_driver(id, driver),
        }
    }

    /// Unbinds the driver of a function. Succeeds if there is none.
    pub(crate) fn unbind(&mut self, id: FunctionId) -> Result<(), Error> {
        self.detach_driver(id)
    }

    /// Binds the driver set by `driver_override`, or the one that supports the device ID. Has no effect if a
    /// driver is bound.
    pub(crate) fn probe(&mut self, id: FunctionId) -> Result<(), Error> {
        let view = self.function_view(id)?;
        if view.function.driver.is_some() {
            return Ok(());
        }
        let driver = view.function.driver_override.clone().unwrap_or_else(|| view.hca.driver.clone());
        match driver == view.hca.driver || driver == VFIO_DRIVER {
            true => self.attach_driver(id, &driver),
            // The simulated host does not have the driver that `driver_override` names, so the probe has no
            // effect.
            false => Ok(()),
        }
    }

    /// Sets `driver_override`; `None` clears it. The bound driver does not change.
    pub(crate) fn set_driver_override(&mut self, id: FunctionId, driver: Option<&str>) -> Result<(), Error> {
        self.mark_dirty()?;
        if let Some(function) = self.state.function_mut(id) {
            function.driver_override = driver.map(str::to_owned);
        }
        self.tree().write_driver(&self.function_view(id)?)
    }

    fn attach_driver(&mut self, id: FunctionId, driver: &str) -> Result<(), Error> {
        self.mark_dirty()?;
        if let Some(function) = self.state.function_mut(id) {
            function.driver = Some(driver.to_owned());
        }
        let view = self.function_view(id)?;
        let (path, own_driver) = (view.sysfs_path(), driver == view.hca.driver);
        self.tree().write_driver(&view)?;
        if own_driver {
            self.make_device(id)?;
        }
        self.push_event("bind", "pci", &path);
        Ok(())
    }

    fn detach_driver(&mut self, id: FunctionId) -> Result<(), Error> {
        if self.state.function(id).is_none_or(|function| function.driver.is_none()) {
            return Ok(());
        }
        self.mark_dirty()?;
        if id.vf.is_none() && !self.function_view(id)?.adapter.vfs.is_empty() {
            // Unbinding a physical function removes its virtual functions.
            self.remove_vfs(id.adapter)?;
        }
        self.remove_device(id)?;
        if let Some(function) = self.state.function_mut(id) {
            function.driver = None;
        }
        let view = self.function_view(id)?;
        let path = view.sysfs_path();
        self.tree().write_driver(&view)?;
        self.push_event("unbind", "pci", &path);
        Ok(())
    }
}
