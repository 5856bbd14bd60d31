//! Carrying a plan out, one step at a time, each written down before it is done.

use crate::coordinator::{self, CoordinatorSetup};
use crate::daemon::NodeClient;
use crate::delegate::{self, PluginEnv};
use crate::journal::{InterfaceIdentity, Journal, JournalEntry, StepState};
use crate::message::{AttachmentOutcome, DaemonRequest, PortMember};
use crate::plan::{CoordinatorStep, IpoibStep, PlanStep, StepKind, VfStep};
use crate::result::ResultInterface;
use crate::undo::{AttachmentTeardown, finish_cleanup};
use crate::vf::{self, AttachedVf, VfOwner, VfSetup};
use crate::{CniContext, CniResult, CniVersion, Error, FailPoint, Invocation, Lock};
use crate::{args, chain, default_route, device_info, ipoib, protocol, rdma};
use ferroband_kernel::{Netns, RouteSocket};
use serde_json::json;
use std::cell::RefCell;

mod addresses;

pub(crate) use addresses::ipam_stdin;

/// An ADD under way.
pub(crate) struct AddOperation<'a> {
    pub(crate) machine: &'a CniContext<'a>,
    pub(crate) call: &'a Invocation,
    pub(crate) journal: Journal,
    pub(crate) netns: Netns,
    pub(crate) daemon: Option<NodeClient>,
    /// Ports that have to become members of partitions, if the plan says so.
    pub(crate) membership: bool,
    members: Vec<PortMember>,
    inside: RouteSocket,
    lock: Lock,
}

impl<'a> AddOperation<'a> {
    /// Begin: from here on a DEL has something to go by. Who only asks for addresses does nothing else to the machine, and
    /// what the daemon has assigned a DEL releases without a journal too: it is written once, at the end.
    pub(crate) fn begin(
        machine: &'a CniContext<'a>,
        call: &'a Invocation,
        journal: Journal,
        netns: Netns,
        lock: Lock,
    ) -> Result<Self, Error> {
        let alone = journal.plugin_type.is_ipam();
        let inside = if alone { RouteSocket::open()? } else { RouteSocket::open_in(&netns)? };
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
        (self.machine.fail_point)(FailPoint::Journaled);
        Ok(())
    }

    /// Refuse what cannot work, before anything is done.
    pub(crate) fn preflight(&mut self) -> Result<(), Error> {
        for position in 0..self.journal.entries.len() {
            self.preflight_entry(position)
                .map_err(|error| error.on_network(&self.entry(position).attachment.network))?;
        }
        Ok(())
    }

    fn preflight_entry(&mut self, position: usize) -> Result<(), Error> {
        let attachment = &self.journal.entries[position].attachment;
        protocol::check_ifname(&attachment.ifname)?;
        attachment.version()?;
        let earlier = &self.journal.entries[..position];
        if earlier.iter().any(|entry| entry.attachment.ifname == attachment.ifname) {
            return Err(self.name_taken(position));
        }
        for step in &attachment.steps {
            match &step.kind {
                StepKind::Ipoib { child, .. } => ipoib::preflight(self.machine, child, &step.config)?,
                StepKind::IbSriov { vf, .. } => {
                    let owner = VfOwner::from_journal(&self.journal, &attachment.ifname);
                    vf::preflight(self.machine, &owner, vf, &step.config)?;
                }
                StepKind::Rdma { .. } => rdma::require_exclusive_mode(self.machine)?,
                StepKind::Foreign | StepKind::Coordinator(_) => {}
            }
        }
        Ok(())
    }

    /// Do all steps. The addresses are asked for when the interfaces exist: assigning them started with the plan.
    pub(crate) fn apply(&mut self) -> Result<(), Error> {
        let mut waiting = Vec::new();
        for position in 0..self.journal.entries.len() {
            let attached = self.attach(position, &mut waiting);
            attached.map_err(|error| error.on_network(&self.entry(position).attachment.network))?;
        }
        self.wait_for_membership()?;
        self.configure_assigned(&waiting)?;
        self.apply_default_routes()?;
        self.check_interrupted()
    }

    /// Wait until the pod's ports are in their partitions: before that nothing that is sent arrives.
    fn wait_for_membership(&mut self) -> Result<(), Error> {
        if !self.membership {
            return Ok(());
        }
        let unreached = Error::UnexpectedReply { wanted: "a plan before membership" };
        let daemon = self.daemon.as_mut().ok_or(unreached)?;
        daemon.request_done(self.machine, &DaemonRequest::Members(std::mem::take(&mut self.members)))
    }

    /// Give the pod the default routes that were asked for. At the end, because any plugin may have set one; in the
    /// journal they need no place of their own: they go with their interfaces.
    fn apply_default_routes(&mut self) -> Result<(), Error> {
        let wishes: Vec<_> = self.journal.entries.iter().map(|entry| &entry.attachment).collect();
        if wishes.iter().all(|attachment| attachment.default_routes.is_keep()) {
            return Ok(());
        }
        default_route::apply(&mut self.inside, &wishes)?;
        let changed = |entry: &&mut JournalEntry| !entry.attachment.default_routes.is_keep();
        for entry in self.journal.entries.iter_mut().filter(changed) {
            let mut result = read_result(entry)?;
            default_route::update_result(&entry.attachment.default_routes, &mut result);
            entry.result = Some(result.write(CniVersion::NEWEST)?);
        }
        (self.machine.fail_point)(FailPoint::RoutesSet);
        Ok(())
    }

    fn check_interrupted(&self) -> Result<(), Error> {
        if (self.machine.should_stop)() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn attach(&mut self, position: usize, waiting: &mut Vec<usize>) -> Result<(), Error> {
        // A plugin that is chained by somebody else finds the interface that an earlier one made.
        let chained = matches!(
            self.entry(position).attachment.steps.as_slice(),
            [PlanStep { kind: StepKind::Rdma { .. } | StepKind::Coordinator(_), .. }, ..]
        );
        if !chained && self.inside.link(&self.journal.entries[position].attachment.ifname)?.is_some() {
            return Err(self.name_taken(position));
        }
        if self.entry(position).attachment.device.is_some() {
            // What undoing goes by must be on disk before the file that it removes.
            self.save()?;
            device_info::copy_to_cni_file(
                self.machine.root,
                &self.call.container,
                &self.entry(position).attachment,
            )?;
        }
        let steps = self.entry(position).attachment.steps.len();
        for step in 0..steps {
            self.check_interrupted()?;
            match self.entry(position).attachment.steps[step].kind.clone() {
                StepKind::Foreign => self.run_foreign(position, step)?,
                StepKind::Rdma { device } => self.move_rdma_device(position, step, device.as_deref())?,
                StepKind::Coordinator(wish) => self.run_coordinator(position, step, &wish)?,
                by @ (StepKind::Ipoib { .. } | StepKind::IbSriov { .. }) => {
                    let made = match &by {
                        StepKind::IbSriov { vf, .. } => self.attach_vf(position, step, vf)?,
                        StepKind::Ipoib { child, .. } => {
                            self.create_ipoib(position, step, child).map(|()| true)?
                        }
                        StepKind::Foreign | StepKind::Rdma { .. } | StepKind::Coordinator(_) => false,
                    };
                    match by.uses_daemon_ipam() {
                        // A function of vfio-pci has no interface to have addresses.
                        _ if !made => {}
                        // The next plugin of the chain has to see the addresses.
                        true if step + 1 < steps => self.configure_assigned(&[position])?,
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
    fn run_foreign(&mut self, position: usize, step: usize) -> Result<(), Error> {
        // One that is not installed has done nothing, and could not undo it either.
        delegate::find_plugin(self.entry(position).attachment.steps[step].plugin(), &self.call.path)?;
        self.journal.entries[position].steps[step].state = StepState::Intended;
        self.save()?;
        let entry = self.entry(position);
        let (attachment, planned) = (&entry.attachment, &entry.attachment.steps[step]);
        let version = attachment.version()?;
        let previous =
            entry.result.as_ref().map(|result| chain::to_prev_result(result, version)).transpose()?;
        let stdin = chain::build_stdin(attachment, planned, previous.as_ref());
        let result = delegate::add(planned.plugin(), &self.plugin_env(position), &stdin)?;
        (self.machine.fail_point)(FailPoint::PluginExecuted);
        // Understood now, so that a result that nobody can read fails here and not at the end.
        CniResult::read(&result, version)?;
        self.journal.entries[position].result = Some(chain::to_prev_result(&result, version)?);
        Ok(())
    }

    /// Make an IPoIB interface.
    fn create_ipoib(&mut self, position: usize, step: usize, child: &IpoibStep) -> Result<(), Error> {
        let temporary = ipoib::temporary_name(&self.journal.id().file_stem(), position);
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.interface =
            Some(InterfaceIdentity { temporary: temporary.clone(), ..InterfaceIdentity::default() });
        self.save()?;
        let trace = ipoib::create(self.machine, child, &temporary)?;
        self.journal.entries[position].steps[step].interface = Some(trace);
        self.save()?;

        let ifname = self.entry(position).attachment.ifname.clone();
        let (machine, inside) = (self.machine, &mut self.inside);
        let link = ipoib::move_to_pod(machine, &self.netns, inside, child, &temporary, &ifname)?;
        let config = &self.entry(position).attachment.steps[step].config;
        let result = ipoib::build_result(&link, &self.journal.netns, config)?;
        let entry = &mut self.journal.entries[position];
        entry.result = Some(result.write(CniVersion::NEWEST)?);
        let address = ipoib::format_address(&link.address);
        if let Some(trace) = &mut entry.steps[step].interface
            && !trace.addresses.contains(&address)
        {
            trace.addresses.push(address);
        }
        self.members.push(PortMember { attachment: position, ifname, device: None, guid: None });
        Ok(())
    }

    /// Give the sandbox a function. Says whether there is an interface now.
    fn attach_vf(&mut self, position: usize, step: usize, vf: &VfStep) -> Result<bool, Error> {
        self.journal.entries[position].steps[step].state = StepState::Intended;
        self.save()?;
        let ifname = self.entry(position).attachment.ifname.clone();
        let giving = VfSetup {
            machine: self.machine,
            owner: VfOwner::from_journal(&self.journal, &ifname),
            netns: &self.netns,
            inside: &mut self.inside,
            daemon: self.daemon.as_mut(),
        };
        let AttachedVf { link, guid } = giving.run(vf)?;
        let interface = ResultInterface {
            name: ifname.clone(),
            mac: link.as_ref().map(|link| ipoib::format_address(&link.address)).unwrap_or_default(),
            mtu: link.as_ref().map(|link| link.mtu),
            sandbox: self.journal.netns.clone(),
            pci_id: vf.device.to_string(),
            ..ResultInterface::default()
        };
        let result = CniResult { interfaces: vec![interface], ..CniResult::default() };
        self.journal.entries[position].result = Some(result.write(CniVersion::NEWEST)?);
        self.members.push(PortMember { attachment: position, ifname, device: Some(vf.device), guid });
        Ok(link.is_some())
    }

    /// Give the sandbox its ways to the node.
    fn run_coordinator(&mut self, position: usize, step: usize, wish: &CoordinatorStep) -> Result<(), Error> {
        let ifname = self.entry(position).attachment.ifname.clone();
        let wire = self
            .coordinator_setup(&ifname)
            .needs_veth(wish)?
            .then(|| coordinator::host_veth_name(&self.call.container));
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.interface =
            wire.map(|temporary| InterfaceIdentity { temporary, ..InterfaceIdentity::default() });
        self.save()?;
        self.coordinator_setup(&ifname).run(wish)
    }

    fn coordinator_setup<'b>(&'b mut self, ifname: &'b str) -> CoordinatorSetup<'b> {
        CoordinatorSetup {
            machine: self.machine,
            netns: &self.netns,
            inside: &mut self.inside,
            container: &self.call.container,
            ifname,
        }
    }

    /// Give the sandbox the RDMA device behind an interface that it has.
    fn move_rdma_device(&mut self, position: usize, step: usize, device: Option<&str>) -> Result<(), Error> {
        let previous = read_result(self.entry(position))?;
        let lending = rdma::RdmaMove::resolve(self.machine, &previous, device)?;
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.rdma_device = Some(lending.record());
        self.save()?;
        let ifname = self.journal.entries[position].attachment.ifname.clone();
        lending.run(self.machine, &self.netns, &mut self.inside, self.daemon.as_mut(), (&ifname, &previous))
    }

    /// What became of the attachments.
    pub(crate) fn outcomes(&self) -> Result<Vec<AttachmentOutcome>, Error> {
        let outcome = |(attachment, entry): (usize, &JournalEntry)| {
            let container = &self.call.container;
            Ok(AttachmentOutcome {
                attachment,
                result: read_result(entry)?.write(CniVersion::NEWEST)?,
                device_info: device_info::read(self.machine.root, container, &entry.attachment),
            })
        };
        self.journal.entries.iter().enumerate().map(outcome).collect()
    }

    /// It failed: undo what was done, tell or owe the daemon, and return the cause.
    pub(crate) fn roll_back(self, cause: Error) -> Error {
        let Self { machine, call, mut journal, netns, daemon, lock, .. } = self;
        let undoing = AttachmentTeardown {
            machine,
            lock: &lock,
            netns: Some(&netns),
            cni_netns: &journal.netns.clone(),
            path: &call.path,
            call: Some(call),
            daemon: RefCell::new(daemon),
        };
        let errors = undoing.run(&mut journal);
        let daemon = undoing.daemon.into_inner();
        for error in finish_cleanup(machine, journal, lock, daemon, errors) {
            eprintln!("ferroband: undoing: {error}");
        }
        cause
    }

    pub(crate) fn entry(&self, position: usize) -> &JournalEntry {
        &self.journal.entries[position]
    }

    fn name_taken(&self, position: usize) -> Error {
        let attachment = &self.entry(position).attachment;
        Error::NameTaken { ifname: attachment.ifname.clone(), network: attachment.network.clone() }
    }

    fn plugin_env(&self, position: usize) -> PluginEnv<'_> {
        PluginEnv {
            container: &self.call.container,
            netns: &self.journal.netns,
            ifname: &self.entry(position).attachment.ifname,
            args: args::append(&self.call.args, &self.entry(position).attachment.args),
            path: &self.call.path,
            lock: Some(&self.lock),
        }
    }
}

/// The result that an attachment has so far.
pub(crate) fn read_result(entry: &JournalEntry) -> Result<CniResult, Error> {
    let empty = json!({});
    CniResult::read(entry.result.as_ref().unwrap_or(&empty), CniVersion::NEWEST)
}
