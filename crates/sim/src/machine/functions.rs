//! Functions that come and go, and their drivers; with the answers that the kernel gives.

use super::{Machine, refused};
use crate::Error;
use crate::state::{Adapter, Virtual, Which};
use crate::tree::VFIO;
use ferroband_kernel::Errno;

impl Machine {
    /// Puts an adapter into its slot, where its driver finds it.
    pub(crate) fn plug(&mut self, adapter: usize) -> Result<(), Error> {
        let which = Which { adapter, vf: None };
        let ports =
            self.profile.hcas.get(adapter).map(|hca| hca.ports.iter().map(|port| port.state).collect());
        match self.state.adapters.get_mut(adapter) {
            Some(there) if !there.plugged => {
                *there = Adapter {
                    plugged: true,
                    ports: ports.unwrap_or_default(),
                    seen: std::mem::take(&mut there.seen),
                    ..Adapter::default()
                };
            }
            _ => return Ok(()),
        }
        self.touch()?;
        self.add_function(which)
    }

    /// Pulls an adapter out, with everything that stands on it.
    pub(crate) fn unplug(&mut self, adapter: usize) -> Result<(), Error> {
        if !self.state.adapters.get(adapter).is_some_and(|adapter| adapter.plugged) {
            return Ok(());
        }
        self.touch()?;
        let which = Which { adapter, vf: None };
        self.detach(which)?;
        self.remove_function(which)?;
        if let Some(adapter) = self.state.adapters.get_mut(adapter) {
            adapter.plugged = false;
        }
        Ok(())
    }

    /// sriov_numvfs_store of drivers/pci/iov.c.
    pub(crate) fn set_vf_count(&mut self, which: Which, count: u16) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let (address, total, now) = (unit.address, unit.hca.total_vfs, unit.adapter.vfs.len());
        let doing = format!("have {count} virtual functions on");
        let refuse = |errno| Err(refused(&doing, address, errno));
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
        self.touch()?;
        for vf in 0..usize::from(count) {
            if let Some(adapter) = self.state.adapters.get_mut(which.adapter) {
                adapter.vfs.push(Virtual::default());
            }
            self.add_function(Which { vf: Some(vf), ..which })?;
        }
        self.tree().vf_count(&self.unit(which)?)?;
        let place = self.unit(which)?.place();
        // The driver core tells of the physical function when it is done (pci_enable_sriov).
        self.tell("change", "pci", &place);
        Ok(())
    }

    fn remove_vfs(&mut self, adapter: usize) -> Result<(), Error> {
        self.touch()?;
        let which = Which { adapter, vf: None };
        while let Some(last) =
            self.state.adapters.get(adapter).and_then(|adapter| adapter.vfs.len().checked_sub(1))
        {
            let vf = Which { adapter, vf: Some(last) };
            self.detach(vf)?;
            self.remove_function(vf)?;
            if let Some(adapter) = self.state.adapters.get_mut(adapter) {
                adapter.vfs.pop();
            }
        }
        self.tree().vf_count(&self.unit(which)?)?;
        let place = self.unit(which)?.place();
        self.tell("change", "pci", &place);
        Ok(())
    }

    /// A function comes to the bus, and its driver takes it.
    fn add_function(&mut self, which: Which) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let (place, driver) = (unit.place(), unit.hca.driver.clone());
        self.tree().function(&unit)?;
        self.tell("add", "pci", &place);
        self.attach(which, &driver)
    }

    fn remove_function(&mut self, which: Which) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let place = unit.place();
        self.tree().remove_function(&unit)?;
        self.tell("remove", "pci", &place);
        Ok(())
    }

    /// Binds a function to a driver (bind_store of drivers/base/bus.c).
    pub(crate) fn bind(&mut self, which: Which, driver: &str) -> Result<(), Error> {
        let unit = self.unit(which)?;
        let address = unit.address;
        let refuse = |errno| Err(refused(&format!("bind driver {driver} to"), address, errno));
        let own = driver == unit.hca.driver;
        match unit.function.driver.as_deref() {
            Some(bound) if bound == driver => return Ok(()),
            Some(_) => return refuse(Errno::EBUSY),
            None => {}
        }
        match unit.function.reserved.as_deref() {
            // No such driver, no such file.
            _ if !own && driver != VFIO => refuse(Errno::ENOENT),
            Some(reserved) if reserved != driver => refuse(Errno::ENODEV),
            // It does not know the numbers of the device.
            None if !own => refuse(Errno::ENODEV),
            _ => self.attach(which, driver),
        }
    }

    /// Takes the driver from a function; none is fine.
    pub(crate) fn unbind(&mut self, which: Which) -> Result<(), Error> {
        self.detach(which)
    }

    /// Lets a driver find a function: the one it is reserved for, or the one that knows its numbers.
    pub(crate) fn probe(&mut self, which: Which) -> Result<(), Error> {
        let unit = self.unit(which)?;
        if unit.function.driver.is_some() {
            return Ok(());
        }
        let driver = unit.function.reserved.clone().unwrap_or_else(|| unit.hca.driver.clone());
        match driver == unit.hca.driver || driver == VFIO {
            true => self.attach(which, &driver),
            // Nobody of that name: nothing happens.
            false => Ok(()),
        }
    }

    /// Reserves a function for a driver, or gives it free.
    pub(crate) fn reserve(&mut self, which: Which, driver: Option<&str>) -> Result<(), Error> {
        self.touch()?;
        if let Some(function) = self.state.function_mut(which) {
            function.reserved = driver.map(str::to_owned);
        }
        self.tree().driver(&self.unit(which)?)
    }

    fn attach(&mut self, which: Which, driver: &str) -> Result<(), Error> {
        self.touch()?;
        if let Some(function) = self.state.function_mut(which) {
            function.driver = Some(driver.to_owned());
        }
        let unit = self.unit(which)?;
        let (place, own) = (unit.place(), driver == unit.hca.driver);
        self.tree().driver(&unit)?;
        if own {
            self.make_device(which)?;
        }
        self.tell("bind", "pci", &place);
        Ok(())
    }

    fn detach(&mut self, which: Which) -> Result<(), Error> {
        if self.state.function(which).is_none_or(|function| function.driver.is_none()) {
            return Ok(());
        }
        self.touch()?;
        if which.vf.is_none() && !self.unit(which)?.adapter.vfs.is_empty() {
            // A physical function's driver takes its virtual ones with it.
            self.remove_vfs(which.adapter)?;
        }
        self.remove_device(which)?;
        if let Some(function) = self.state.function_mut(which) {
            function.driver = None;
        }
        let unit = self.unit(which)?;
        let place = unit.place();
        self.tree().driver(&unit)?;
        self.tell("unbind", "pci", &place);
        Ok(())
    }
}
