//! Carrying a plan out, one step at a time, each written down before it is done.

use crate::coordinator::{self, Joining};
use crate::daemon::Daemon;
use crate::delegate::{self, Surroundings};
use crate::journal::{Entry, Journal, StepState, Trace};
use crate::message::{Member, Outcome, Request};
use crate::plan::{CoordinatorStep, Doer, IpoibStep, Step, VfStep};
use crate::result::Interface;
use crate::undo::{Undoing, close};
use crate::vf::{self, Given, Giving, Owner};
use crate::{CniResult, Error, Invocation, Lock, Machine, Point, Version};
use crate::{args, chain, default_route, device_info, ipoib, protocol, rdma};
use ferroband_kernel::{Netns, Route};
use serde_json::json;
use std::cell::RefCell;

mod addresses;

pub(crate) use addresses::ipam_stdin;

/// An ADD under way.
pub(crate) struct Work<'a> {
    pub(crate) machine: &'a Machine<'a>,
    pub(crate) call: &'a Invocation,
    pub(crate) journal: Journal,
    pub(crate) netns: Netns,
    pub(crate) daemon: Option<Daemon>,
    /// Ports that have to become members of partitions, if the plan says so.
    pub(crate) membership: bool,
    members: Vec<Member>,
    inside: Route,
    lock: Lock,
}

impl<'a> Work<'a> {
    /// Begin: from here on a DEL has something to go by. Who only asks for addresses does nothing else to the machine, and
    /// what the daemon has assigned a DEL releases without a journal too: it is written once, at the end.
    pub(crate) fn begin(
        machine: &'a Machine<'a>,
        call: &'a Invocation,
        journal: Journal,
        netns: Netns,
        lock: Lock,
    ) -> Result<Self, Error> {
        let alone = journal.role.is_ipam();
        let inside = if alone { Route::here()? } else { Route::inside(&netns)? };
        let (membership, members) = (false, Vec::new());
        let work = Self { machine, call, journal, netns, daemon: None, membership, members, inside, lock };
        if !alone {
            work.save()?;
        }
        Ok(work)
    }

    /// Write down how far we are.
    pub(crate) fn save(&self) -> Result<(), Error> {
        self.journal.save(self.machine.root)?;
        (self.machine.watch)(Point::Journaled);
        Ok(())
    }

    /// Refuse what cannot work, before anything is done.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        for position in 0..self.journal.entries.len() {
            self.check_entry(position).map_err(|error| error.on(&self.entry(position).attachment.network))?;
        }
        Ok(())
    }

    fn check_entry(&mut self, position: usize) -> Result<(), Error> {
        let attachment = &self.journal.entries[position].attachment;
        protocol::check_ifname(&attachment.ifname)?;
        attachment.version()?;
        let earlier = &self.journal.entries[..position];
        if earlier.iter().any(|entry| entry.attachment.ifname == attachment.ifname) {
            return Err(self.taken(position));
        }
        for step in &attachment.steps {
            match &step.by {
                Doer::Ipoib { child, .. } => ipoib::check(self.machine, child, &step.config)?,
                Doer::IbSriov { vf, .. } => {
                    let owner = Owner::of(&self.journal, &attachment.ifname);
                    vf::check(self.machine, &owner, vf, &step.config)?;
                }
                Doer::Rdma { .. } => rdma::check_mode(self.machine)?,
                Doer::Foreign | Doer::Coordinator(_) => {}
            }
        }
        Ok(())
    }

    /// Do all steps. The addresses are asked for when the interfaces exist: assigning them started with the plan.
    pub(crate) fn carry_out(&mut self) -> Result<(), Error> {
        let mut waiting = Vec::new();
        for position in 0..self.journal.entries.len() {
            let attached = self.attach(position, &mut waiting);
            attached.map_err(|error| error.on(&self.entry(position).attachment.network))?;
        }
        self.join()?;
        self.address(&waiting)?;
        self.route()?;
        self.stop_if_asked()
    }

    /// Wait until the pod's ports are in their partitions: before that nothing that is sent arrives.
    fn join(&mut self) -> Result<(), Error> {
        if !self.membership {
            return Ok(());
        }
        let unreached = Error::Unexpected { wanted: "a plan before membership" };
        let daemon = self.daemon.as_mut().ok_or(unreached)?;
        daemon.tell(self.machine, &Request::Members(std::mem::take(&mut self.members)))
    }

    /// Give the pod the default routes that were asked for. At the end, because any plugin may have set one; in the
    /// journal they need no place of their own: they go with their interfaces.
    fn route(&mut self) -> Result<(), Error> {
        let wishes: Vec<_> = self.journal.entries.iter().map(|entry| &entry.attachment).collect();
        if wishes.iter().all(|attachment| attachment.default_routes.is_keep()) {
            return Ok(());
        }
        default_route::settle(&mut self.inside, &wishes)?;
        let changed = |entry: &&mut Entry| !entry.attachment.default_routes.is_keep();
        for entry in self.journal.entries.iter_mut().filter(changed) {
            let mut result = read_result(entry)?;
            default_route::tell(&entry.attachment.default_routes, &mut result);
            entry.result = Some(result.write(Version::NEWEST)?);
        }
        (self.machine.watch)(Point::Routed);
        Ok(())
    }

    fn stop_if_asked(&self) -> Result<(), Error> {
        if (self.machine.stop)() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn attach(&mut self, position: usize, waiting: &mut Vec<usize>) -> Result<(), Error> {
        // A plugin that is chained by somebody else finds the interface that an earlier one made.
        let chained = matches!(
            self.entry(position).attachment.steps.as_slice(),
            [Step { by: Doer::Rdma { .. } | Doer::Coordinator(_), .. }, ..]
        );
        if !chained && self.inside.link(&self.journal.entries[position].attachment.ifname)?.is_some() {
            return Err(self.taken(position));
        }
        if self.entry(position).attachment.device.is_some() {
            // What undoing goes by must be on disk before the file that it removes.
            self.save()?;
            device_info::hand_over(
                self.machine.root,
                &self.call.container,
                &self.entry(position).attachment,
            )?;
        }
        let steps = self.entry(position).attachment.steps.len();
        for step in 0..steps {
            self.stop_if_asked()?;
            match self.entry(position).attachment.steps[step].by.clone() {
                Doer::Foreign => self.execute(position, step)?,
                Doer::Rdma { device } => self.rdma(position, step, device.as_deref())?,
                Doer::Coordinator(wish) => self.coordinate(position, step, &wish)?,
                by @ (Doer::Ipoib { .. } | Doer::IbSriov { .. }) => {
                    let made = match &by {
                        Doer::IbSriov { vf, .. } => self.function(position, step, vf)?,
                        Doer::Ipoib { child, .. } => self.interface(position, step, child).map(|()| true)?,
                        Doer::Foreign | Doer::Rdma { .. } | Doer::Coordinator(_) => false,
                    };
                    match by.is_addressed() {
                        // A function of vfio-pci has no interface to have addresses.
                        _ if !made => {}
                        // The next plugin of the chain has to see the addresses.
                        true if step + 1 < steps => self.address(&[position])?,
                        true => waiting.push(position),
                        false => self.delegate_ipam(position, step)?,
                    }
                }
            }
            self.journal.entries[position].steps[step].state = StepState::Done;
        }
        Ok(())
    }

    /// Run a foreign plugin.
    fn execute(&mut self, position: usize, step: usize) -> Result<(), Error> {
        // One that is not installed has done nothing, and could not undo it either.
        delegate::find(self.entry(position).attachment.steps[step].plugin(), &self.call.path)?;
        self.journal.entries[position].steps[step].state = StepState::Intended;
        self.save()?;
        let entry = self.entry(position);
        let (attachment, planned) = (&entry.attachment, &entry.attachment.steps[step]);
        let version = attachment.version()?;
        let previous = entry.result.as_ref().map(|result| chain::previous(result, version)).transpose()?;
        let stdin = chain::stdin(attachment, planned, previous.as_ref());
        let result = delegate::add(planned.plugin(), &self.around(position), &stdin)?;
        (self.machine.watch)(Point::Executed);
        // Understood now, so that a result that nobody can read fails here and not at the end.
        CniResult::read(&result, version)?;
        self.journal.entries[position].result = Some(chain::previous(&result, version)?);
        Ok(())
    }

    /// Make an IPoIB interface.
    fn interface(&mut self, position: usize, step: usize, child: &IpoibStep) -> Result<(), Error> {
        let temporary = ipoib::temporary(&self.journal.key().stem(), position);
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.trace = Some(Trace { temporary: temporary.clone(), ..Trace::default() });
        self.save()?;
        let trace = ipoib::make(self.machine, child, &temporary)?;
        self.journal.entries[position].steps[step].trace = Some(trace);
        self.save()?;

        let ifname = self.entry(position).attachment.ifname.clone();
        let (machine, inside) = (self.machine, &mut self.inside);
        let link = ipoib::place(machine, &self.netns, inside, child, &temporary, &ifname)?;
        let config = &self.entry(position).attachment.steps[step].config;
        let result = ipoib::result(&link, &self.journal.netns, config)?;
        let entry = &mut self.journal.entries[position];
        entry.result = Some(result.write(Version::NEWEST)?);
        let address = ipoib::text(&link.address);
        if let Some(trace) = &mut entry.steps[step].trace
            && !trace.addresses.contains(&address)
        {
            trace.addresses.push(address);
        }
        self.members.push(Member { attachment: position, ifname, device: None, guid: None });
        Ok(())
    }

    /// Give the sandbox a function. Says whether there is an interface now.
    fn function(&mut self, position: usize, step: usize, vf: &VfStep) -> Result<bool, Error> {
        self.journal.entries[position].steps[step].state = StepState::Intended;
        self.save()?;
        let ifname = self.entry(position).attachment.ifname.clone();
        let giving = Giving {
            machine: self.machine,
            owner: Owner::of(&self.journal, &ifname),
            netns: &self.netns,
            inside: &mut self.inside,
            daemon: self.daemon.as_mut(),
        };
        let Given { link, guid } = giving.run(vf)?;
        let interface = Interface {
            name: ifname.clone(),
            mac: link.as_ref().map(|link| ipoib::text(&link.address)).unwrap_or_default(),
            mtu: link.as_ref().map(|link| link.mtu),
            sandbox: self.journal.netns.clone(),
            pci_id: vf.device.to_string(),
            ..Interface::default()
        };
        let result = CniResult { interfaces: vec![interface], ..CniResult::default() };
        self.journal.entries[position].result = Some(result.write(Version::NEWEST)?);
        self.members.push(Member { attachment: position, ifname, device: Some(vf.device), guid });
        Ok(link.is_some())
    }

    /// Give the sandbox its ways to the node.
    fn coordinate(&mut self, position: usize, step: usize, wish: &CoordinatorStep) -> Result<(), Error> {
        let ifname = self.entry(position).attachment.ifname.clone();
        let wire =
            self.joining(&ifname).needs_wire(wish)?.then(|| coordinator::host_end(&self.call.container));
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.trace = wire.map(|temporary| Trace { temporary, ..Trace::default() });
        self.save()?;
        self.joining(&ifname).run(wish)
    }

    fn joining<'b>(&'b mut self, ifname: &'b str) -> Joining<'b> {
        Joining {
            machine: self.machine,
            netns: &self.netns,
            inside: &mut self.inside,
            container: &self.call.container,
            ifname,
        }
    }

    /// Give the sandbox the RDMA device behind an interface that it has.
    fn rdma(&mut self, position: usize, step: usize, device: Option<&str>) -> Result<(), Error> {
        let previous = read_result(self.entry(position))?;
        let lending = rdma::Lending::of(self.machine, &previous, device)?;
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.rdma = Some(lending.trace());
        self.save()?;
        let ifname = self.journal.entries[position].attachment.ifname.clone();
        lending.run(self.machine, &self.netns, &mut self.inside, self.daemon.as_mut(), (&ifname, &previous))
    }

    /// What became of the attachments.
    pub(crate) fn outcomes(&self) -> Result<Vec<Outcome>, Error> {
        let outcome = |(attachment, entry): (usize, &Entry)| {
            let container = &self.call.container;
            Ok(Outcome {
                attachment,
                result: read_result(entry)?.write(Version::NEWEST)?,
                device_info: device_info::read(self.machine.root, container, &entry.attachment),
            })
        };
        self.journal.entries.iter().enumerate().map(outcome).collect()
    }

    /// It failed: undo what was done, tell or owe the daemon, and return the cause.
    pub(crate) fn abandon(self, cause: Error) -> Error {
        let Self { machine, call, mut journal, netns, daemon, lock, .. } = self;
        let undoing = Undoing {
            machine,
            lock: &lock,
            netns: Some(&netns),
            told_netns: &journal.netns.clone(),
            path: &call.path,
            call: Some(call),
            daemon: RefCell::new(daemon),
        };
        let errors = undoing.run(&mut journal);
        let daemon = undoing.daemon.into_inner();
        for error in close(machine, journal, lock, daemon, errors) {
            eprintln!("ferroband: undoing: {error}");
        }
        cause
    }

    pub(crate) fn entry(&self, position: usize) -> &Entry {
        &self.journal.entries[position]
    }

    fn taken(&self, position: usize) -> Error {
        let attachment = &self.entry(position).attachment;
        Error::NameTaken { ifname: attachment.ifname.clone(), network: attachment.network.clone() }
    }

    fn around(&self, position: usize) -> Surroundings<'_> {
        Surroundings {
            container: &self.call.container,
            netns: &self.journal.netns,
            ifname: &self.entry(position).attachment.ifname,
            args: args::with(&self.call.args, &self.entry(position).attachment.args),
            path: &self.call.path,
            lock: Some(&self.lock),
        }
    }
}

/// The result that an attachment has so far.
pub(crate) fn read_result(entry: &Entry) -> Result<CniResult, Error> {
    let empty = json!({});
    CniResult::read(entry.result.as_ref().unwrap_or(&empty), Version::NEWEST)
}
