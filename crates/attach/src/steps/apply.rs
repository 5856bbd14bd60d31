//! Applies a plan step by step. Each step is recorded in the journal before it runs.

use crate::ipc::message::{DaemonRequest, PortMember};
use crate::ipc::node_client::NodeClient;
use crate::ipc::plan::{PlanStep, StepKind};
use crate::protocol::result::{ResultInterface, to_prev_result};
use crate::protocol::{
    CniContext, CniResult, CniVersion, Error, FailPoint, Invocation, PluginType, args, invocation,
};
use crate::state::journal::{InterfaceIdentity, Journal, JournalEntry, StepState};
use crate::state::{Lock, device_info};
use crate::steps::coordinator::{self, CoordinatorSetup};
use crate::steps::delegate::{self, PluginEnv};
use crate::steps::undo::{AttachmentTeardown, finish_cleanup};
use crate::steps::vf::{self, AttachedVf, VfOwner, VfSetup};
use crate::steps::{default_route, ipoib, rdma};
use ferroband_config::{CoordinatorConfig, IbSriovConfig, IpoibConfig};
use ferroband_kernel::{Netns, RouteSocket};
use std::cell::RefCell;
use std::net::IpAddr;

pub(crate) mod addresses;

/// An ADD in progress: its call, journal, sandbox and connection to the daemon.
pub(crate) struct AddOperation<'a> {
    pub(crate) context: &'a CniContext<'a>,
    pub(crate) call: &'a Invocation,
    pub(crate) journal: Journal,
    pub(crate) netns: Netns,
    pub(crate) daemon: Option<NodeClient>,
    /// Whether the pod's ports must be members of their partitions before addresses are configured.
    pub(crate) membership: bool,
    members: Vec<PortMember>,
    pod_netlink: RouteSocket,
    lock: Lock,
}

impl<'a> AddOperation<'a> {
    /// Start an ADD by writing the journal, so that a DEL can undo the ADD even if this process is killed.
    /// The journal of an IPAM-only call is written once, at the end: such a call does not change the node,
    /// and its DEL releases the addresses even without a journal.
    pub(crate) fn begin(
        context: &'a CniContext<'a>,
        call: &'a Invocation,
        journal: Journal,
        netns: Netns,
        lock: Lock,
    ) -> Result<Self, Error> {
        let ipam_only = journal.plugin_type.is_ipam();
        let pod_netlink = if ipam_only { RouteSocket::open()? } else { RouteSocket::open_in(&netns)? };
        let (membership, members) = (false, Vec::new());
        let operation =
            Self { context, call, journal, netns, daemon: None, membership, members, pod_netlink, lock };
        if !ipam_only {
            operation.save()?;
        }
        Ok(operation)
    }

    /// Write the journal to disk, then call the hook with [`FailPoint::Journaled`].
    pub(crate) fn save(&self) -> Result<(), Error> {
        self.journal.save(self.context.root)?;
        (self.context.fail_point)(FailPoint::Journaled);
        Ok(())
    }

    /// Validate interface names, versions and settings of all attachments. Nothing is changed yet.
    pub(crate) fn preflight(&mut self) -> Result<(), Error> {
        for position in 0..self.journal.entries.len() {
            self.preflight_entry(position)
                .map_err(|error| error.on_network(&self.entry(position).attachment.network))?;
        }
        Ok(())
    }

    fn preflight_entry(&mut self, position: usize) -> Result<(), Error> {
        let attachment = &self.journal.entries[position].attachment;
        invocation::check_ifname(&attachment.ifname)?;
        attachment.version()?;
        let earlier = &self.journal.entries[..position];
        if earlier.iter().any(|entry| entry.attachment.ifname == attachment.ifname) {
            return Err(self.name_taken(position));
        }
        for step in &attachment.steps {
            match &step.kind {
                StepKind::Ipoib { child, .. } => ipoib::preflight(self.context, child, &step.config)?,
                StepKind::IbSriov { vf, .. } => {
                    let owner = VfOwner::from_journal(&self.journal, &attachment.ifname);
                    vf::preflight(self.context, &owner, vf, &step.config)?;
                }
                StepKind::Rdma { .. } => rdma::require_exclusive_mode(self.context)?,
                StepKind::Foreign | StepKind::Coordinator(_) => {}
            }
        }
        Ok(())
    }

    /// Run all steps of all attachments. Addresses from the daemon are configured when all interfaces exist.
    /// The daemon has been assigning them since it sent the plan.
    pub(crate) fn apply(&mut self) -> Result<(), Error> {
        let mut to_address = Vec::new();
        for position in 0..self.journal.entries.len() {
            let attached = self.attach(position, &mut to_address);
            attached.map_err(|error| error.on_network(&self.entry(position).attachment.network))?;
        }
        self.wait_for_membership()?;
        self.configure_assigned(&to_address)?;
        self.apply_default_routes()?;
        self.check_interrupted()
    }

    /// Wait until the pod's ports are in their partitions: before that the fabric drops their packets.
    fn wait_for_membership(&mut self) -> Result<(), Error> {
        if !self.membership {
            return Ok(());
        }
        let unreached = Error::UnexpectedReply { expected: "a plan before the membership request" };
        let daemon = self.daemon.as_mut().ok_or(unreached)?;
        daemon.request_done(self.context, &DaemonRequest::Members(std::mem::take(&mut self.members)))
    }

    /// Apply the requested default routes. This runs last, because any plugin may have set a default route.
    /// The journal does not record them: the routes disappear with their interfaces.
    fn apply_default_routes(&mut self) -> Result<(), Error> {
        let attachments: Vec<_> = self.journal.entries.iter().map(|entry| &entry.attachment).collect();
        if attachments.iter().all(|attachment| attachment.default_routes.is_keep()) {
            return Ok(());
        }
        default_route::apply(&mut self.pod_netlink, &attachments)?;
        let changed = |entry: &&mut JournalEntry| !entry.attachment.default_routes.is_keep();
        for entry in self.journal.entries.iter_mut().filter(changed) {
            let mut result = entry.cni_result()?;
            default_route::update_result(&entry.attachment.default_routes, &mut result);
            entry.result = Some(result.write(CniVersion::NEWEST)?);
        }
        (self.context.fail_point)(FailPoint::RoutesSet);
        Ok(())
    }

    fn check_interrupted(&self) -> Result<(), Error> {
        if (self.context.should_stop)() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn attach(&mut self, position: usize, to_address: &mut Vec<usize>) -> Result<(), Error> {
        // A chained plugin uses the interface that an earlier plugin created. For such a plugin it is not an error
        // if the interface already exists.
        let chained = matches!(
            self.entry(position).attachment.steps.as_slice(),
            [PlanStep { kind: StepKind::Rdma { .. } | StepKind::Coordinator(_), .. }, ..]
        );
        if !chained && self.pod_netlink.link(&self.journal.entries[position].attachment.ifname)?.is_some() {
            return Err(self.name_taken(position));
        }
        if self.entry(position).attachment.device.is_some() {
            // Teardown removes the device-info file, so the journal must be on disk before the file is
            // written.
            self.save()?;
            device_info::copy_to_cni_file(
                self.context.root,
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
                StepKind::Coordinator(config) => self.run_coordinator(position, step, &config)?,
                kind @ (StepKind::Ipoib { .. } | StepKind::IbSriov { .. }) => {
                    let has_interface = match &kind {
                        StepKind::IbSriov { vf, .. } => self.attach_vf(position, step, vf)?,
                        StepKind::Ipoib { child, .. } => {
                            self.create_ipoib(position, step, child).map(|()| true)?
                        }
                        StepKind::Foreign | StepKind::Rdma { .. } | StepKind::Coordinator(_) => false,
                    };
                    match kind.uses_daemon_ipam() {
                        // A function bound to vfio-pci has no interface for addresses.
                        _ if !has_interface => {}
                        // Configure the addresses now, because the next plugin of the chain must see them.
                        true if step + 1 < steps => self.configure_assigned(&[position])?,
                        true => to_address.push(position),
                        false => self.delegate_ipam(position, step)?,
                    }
                }
            }
            self.journal.entries[position].steps[step].state = StepState::Done;
        }
        Ok(())
    }

    /// Run the CNI binary of a step and keep its result for the next step.
    fn run_foreign(&mut self, position: usize, step: usize) -> Result<(), Error> {
        // A plugin that is not installed has nothing to undo, so its step must not be recorded.
        delegate::find_step_plugins(&self.entry(position).attachment.steps[step], &self.call.path)?;
        self.journal.entries[position].steps[step].state = StepState::Intended;
        self.save()?;
        let entry = self.entry(position);
        let (attachment, planned) = (&entry.attachment, &entry.attachment.steps[step]);
        let version = attachment.version()?;
        let previous = entry.result.as_ref().map(|result| to_prev_result(result, version)).transpose()?;
        let stdin = attachment.stdin(planned, previous.as_ref());
        let result = delegate::add(planned.plugin(), &self.plugin_env(position), &stdin)?;
        (self.context.fail_point)(FailPoint::PluginExecuted);
        // Parse the result now, so that an invalid one fails here and not at the end.
        CniResult::read(&result, version)?;
        self.journal.entries[position].result = Some(to_prev_result(&result, version)?);
        Ok(())
    }

    /// Create an IPoIB child in the host namespace and move it into the sandbox. The journal records the
    /// temporary name before the creation, and the link kind and hardware address before the move.
    fn create_ipoib(&mut self, position: usize, step: usize, child: &IpoibConfig) -> Result<(), Error> {
        let temporary = ipoib::temporary_name(&self.journal.id().file_stem(), position);
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.interface =
            Some(InterfaceIdentity { temporary: temporary.clone(), ..InterfaceIdentity::default() });
        self.save()?;
        let identity = ipoib::create(self.context, child, &temporary)?;
        self.journal.entries[position].steps[step].interface = Some(identity);
        self.save()?;

        let ifname = self.entry(position).attachment.ifname.clone();
        let (context, pod_netlink) = (self.context, &mut self.pod_netlink);
        let link = ipoib::move_to_pod(context, &self.netns, pod_netlink, child, &temporary, &ifname)?;
        let config = &self.entry(position).attachment.steps[step].config;
        let result = ipoib::build_result(&link, &self.journal.netns, config)?;
        let entry = &mut self.journal.entries[position];
        entry.result = Some(result.write(CniVersion::NEWEST)?);
        let address = ipoib::format_address(&link.address);
        if let Some(identity) = &mut entry.steps[step].interface
            && !identity.addresses.contains(&address)
        {
            identity.addresses.push(address);
        }
        self.members.push(PortMember { attachment: position, ifname, device: None, guid: None });
        Ok(())
    }

    /// Attach a virtual function. Returns whether it has an interface.
    fn attach_vf(&mut self, position: usize, step: usize, vf: &IbSriovConfig) -> Result<bool, Error> {
        self.journal.entries[position].steps[step].state = StepState::Intended;
        self.save()?;
        let ifname = self.entry(position).attachment.ifname.clone();
        let setup = VfSetup {
            context: self.context,
            owner: VfOwner::from_journal(&self.journal, &ifname),
            netns: &self.netns,
            pod_netlink: &mut self.pod_netlink,
            daemon: self.daemon.as_mut(),
        };
        let AttachedVf { link, guid } = setup.run(vf)?;
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

    /// Set up routes between the sandbox and the node. If a veth pair is needed, the journal records it
    /// first.
    fn run_coordinator(
        &mut self,
        position: usize,
        step: usize,
        config: &CoordinatorConfig,
    ) -> Result<(), Error> {
        let ifname = self.entry(position).attachment.ifname.clone();
        let result = self.entry(position).cni_result()?;
        let assigned: Vec<_> = result.ips.iter().map(|ip| ip.address.addr()).collect();
        let first = &self.entry(position).attachment.steps[0];
        let is_pool = |ipam: Option<&str>| ipam == Some(PluginType::Spiderpool.as_str());
        let from_pools = first.interface().is_ok_and(|interface| is_pool(interface.ipam_plugin));
        let addresses = (assigned.as_slice(), from_pools);
        let veth = self
            .coordinator_setup(&ifname, addresses)
            .needs_veth(config)?
            .then(|| coordinator::host_veth_name(&self.call.container));
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.interface =
            veth.map(|temporary| InterfaceIdentity { temporary, ..InterfaceIdentity::default() });
        self.save()?;
        self.coordinator_setup(&ifname, addresses).run(config)?;
        if config.mac_prefix.is_some() {
            self.update_mac(position, &ifname)?;
        }
        Ok(())
    }

    /// Read the interface's MAC address again for the result, because the coordinator may have changed it.
    fn update_mac(&mut self, position: usize, ifname: &str) -> Result<(), Error> {
        let link = ipoib::find_link(&mut self.pod_netlink, ifname, "the sandbox")?;
        let mut result = self.entry(position).cni_result()?;
        let own =
            |interface: &&mut ResultInterface| interface.name == ifname && !interface.sandbox.is_empty();
        if let Some(interface) = result.interfaces.iter_mut().find(own) {
            interface.mac = ipoib::format_address(&link.address);
            self.journal.entries[position].result = Some(result.write(CniVersion::NEWEST)?);
        }
        Ok(())
    }

    fn coordinator_setup<'b>(
        &'b mut self,
        ifname: &'b str,
        (assigned, from_pools): (&'b [IpAddr], bool),
    ) -> CoordinatorSetup<'b> {
        CoordinatorSetup {
            context: self.context,
            netns: &self.netns,
            pod_netlink: &mut self.pod_netlink,
            container: &self.call.container,
            ifname,
            assigned,
            from_pools,
        }
    }

    /// Move the RDMA device of an existing interface into the sandbox.
    fn move_rdma_device(&mut self, position: usize, step: usize, device: Option<&str>) -> Result<(), Error> {
        let previous = self.entry(position).cni_result()?;
        let rdma_move = rdma::RdmaMove::resolve(self.context, &previous, device)?;
        let record = &mut self.journal.entries[position].steps[step];
        record.state = StepState::Intended;
        record.rdma_device = Some(rdma_move.record());
        self.save()?;
        let ifname = self.journal.entries[position].attachment.ifname.clone();
        rdma_move.run(
            self.context,
            &self.netns,
            &mut self.pod_netlink,
            self.daemon.as_mut(),
            (&ifname, &previous),
        )
    }

    /// Roll back after a failure: undo all steps, release the addresses or queue the release, and return the cause.
    pub(crate) fn roll_back(self, cause: Error) -> Error {
        let Self { context, call, mut journal, netns, daemon, lock, .. } = self;
        let teardown = AttachmentTeardown {
            context,
            lock: &lock,
            netns: Some(&netns),
            cni_netns: &journal.netns.clone(),
            path: &call.path,
            call: Some(call),
            daemon: RefCell::new(daemon),
        };
        let errors = teardown.run(&mut journal);
        let daemon = teardown.daemon.into_inner();
        for error in finish_cleanup(context, journal, lock, daemon, errors) {
            eprintln!("ferroband: rollback of the failed ADD is incomplete: {error}");
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
