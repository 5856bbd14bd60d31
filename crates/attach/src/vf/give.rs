//! Giving a function to a sandbox.

use super::check::{isolated, usable};
use super::held::{self, Before};
use super::interface::{self, Place};
use super::{Function, Held, Owner, Restoring};
use crate::daemon::Daemon;
use crate::plan::VfStep;
use crate::{Error, Lock, Machine, Point, Unbroken, ipoib};
use ferroband_kernel::route::{GuidKind, VfState};
use ferroband_kernel::{Hardware, Link, Netns, Route};
use ferroband_model::Guid;

/// All that giving takes.
pub(crate) struct Giving<'a> {
    pub(crate) machine: &'a Machine<'a>,
    pub(crate) owner: Owner,
    pub(crate) netns: &'a Netns,
    pub(crate) inside: &'a mut Route,
    pub(crate) daemon: Option<&'a mut Daemon>,
}

/// What the sandbox has got.
#[derive(Debug)]
pub(crate) struct Given {
    /// Its interface; a function of vfio-pci has none.
    pub(crate) link: Option<Link>,
    /// The GUID of its port.
    pub(crate) guid: Option<Guid>,
}

impl Giving<'_> {
    /// Give the function of `vf`. Whatever fails, [`Restoring`] takes it back.
    pub(crate) fn run(mut self, vf: &VfStep) -> Result<Given, Error> {
        let hardware = self.machine.adapters()?;
        let lock = held::lock(self.machine.root, vf.device, self.machine.patience.lock)?;
        self.take_over(vf, &lock)?;
        let function = Function::get(hardware, vf.device)?;
        usable(hardware, vf, &function)?;
        let mut held = self.hold(hardware, vf, &function)?;
        self.save(&held)?;
        if function.physical.is_none() {
            return Ok(Given { link: None, guid: None });
        }
        let guid = vf.guid.or(function.guids().1);
        self.set(hardware, vf, &function, &held)?;
        if held.vfio {
            return Ok(Given { link: None, guid });
        }
        let took_on = function.guids();
        let wrong = |guid: Guid| took_on != (Some(guid), Some(guid));
        if function.driver.is_none() || held.guid.is_some_and(wrong) {
            let work = Unbroken::Rebind { function: vf.device };
            work.have_done(self.machine, self.daemon.as_deref_mut(), None, &lock)?;
            self.wait(hardware, vf, None)?;
        }
        if isolated(hardware, vf)? {
            let device = Function::get(hardware, vf.device)?.rdma()?.name.clone();
            held.rdma = Some(device.clone());
            self.save(&held)?;
            let work = Unbroken::Lend { device };
            work.have_done(self.machine, self.daemon.as_deref_mut(), Some(self.netns), &lock)?;
        }
        let link = self.place(hardware, vf)?;
        Ok(Given { link: Some(link), guid })
    }

    /// Take the function from an owner whose end has not been told yet.
    fn take_over(&mut self, vf: &VfStep, lock: &Lock) -> Result<(), Error> {
        let Some(held) = Held::load(self.machine.root, vf.device)? else { return Ok(()) };
        if held.owner != self.owner && held.owner.lives(self.machine.root)? {
            return Err(Error::FunctionInUse { function: vf.device, container: held.owner.container });
        }
        let daemon = self.daemon.as_deref_mut();
        Restoring { machine: self.machine, netns: None, daemon }.restore(&held, lock)
    }

    /// What is going to be changed, and what it is like before.
    fn hold(&self, hardware: &dyn Hardware, vf: &VfStep, function: &Function) -> Result<Held, Error> {
        let vfio = function.is_vfio();
        let mut before = Before::default();
        let mut held = Held {
            function: vf.device,
            owner: self.owner.clone(),
            before: Before::default(),
            guid: None,
            state: false,
            rdma: None,
            vfio,
        };
        if !vfio && function.driver.is_some() {
            let link = self.wait(hardware, vf, None)?;
            before = Before {
                name: link.name,
                altnames: link.altnames,
                mtu: Some(link.mtu),
                up: link.up,
                ..before
            };
        }
        if function.physical.is_some() && (vf.guid.is_some() || vf.link_state.is_some()) {
            let now = function.settings(hardware)?;
            before =
                Before { node_guid: now.node_guid, port_guid: now.port_guid, state: now.state, ..before };
            let has = |guid: Guid| (now.node_guid, now.port_guid) == (Some(guid), Some(guid));
            let took_on = |guid: Guid| vfio || function.guids() == (Some(guid), Some(guid));
            held.guid = vf.guid.filter(|guid| !(has(*guid) && took_on(*guid)));
            held.state = vf.link_state.is_some_and(|state| state != now.state.unwrap_or(VfState::Auto));
        }
        Ok(Held { before, ..held })
    }

    fn set(
        &self,
        hardware: &dyn Hardware,
        vf: &VfStep,
        function: &Function,
        held: &Held,
    ) -> Result<(), Error> {
        let (physical, index) = function.as_virtual()?;
        if let Some(state) = vf.link_state.filter(|_| held.state) {
            hardware.set_vf_state(physical, index, state)?;
            (self.machine.watch)(Point::Set);
        }
        if let Some(guid) = held.guid {
            for kind in [GuidKind::Node, GuidKind::Port] {
                hardware.set_vf_guid(physical, index, kind, guid)?;
                (self.machine.watch)(Point::Set);
            }
        }
        Ok(())
    }

    /// Have the interface in the sandbox under its name.
    fn place(&mut self, hardware: &dyn Hardware, vf: &VfStep) -> Result<Link, Error> {
        let inside = (&mut *self.inside, &*self.owner.ifname);
        let link = interface::bring((self.machine, hardware), vf.device, self.netns, inside)?;
        if let Some(mtu) = vf.mtu {
            self.inside.set_mtu(link.index, mtu)?;
        }
        self.inside.up(link.index)?;
        let link = ipoib::find(self.inside, &self.owner.ifname, "the sandbox")?;
        ipoib::tell_mtu(&link, vf.mtu);
        Ok(link)
    }

    fn wait(&self, hardware: &dyn Hardware, vf: &VfStep, netns: Option<&Netns>) -> Result<Link, Error> {
        match interface::appear(self.machine, hardware, vf.device, netns)? {
            Some(Place::Here(link) | Place::Inside(link)) => Ok(link),
            None => Err(Error::NoNetdev { function: vf.device }),
        }
    }

    fn save(&self, held: &Held) -> Result<(), Error> {
        held.save(self.machine.root)?;
        (self.machine.watch)(Point::Journaled);
        Ok(())
    }
}
