//! What is to be done to an adapter. Pure.

use super::{
    Adapter, GuidSource, PfIdentity, Vf,
    record::Record,
    want::{Group, Want},
};
use ferroband_kernel::route::VfState;
use ferroband_model::{Fault, FaultCode, Guid, LinkLayer, PciAddress};
use std::collections::BTreeSet;

/// Drivers that hand a function to user space.
const USER_SPACE: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// What is to be done to an adapter, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Write down what it was like.
    pub record: Option<Record>,
    /// Have so many functions, by way of none.
    pub count: Option<u16>,
    /// Put functions in order.
    pub vfs: Vec<VfDue>,
    /// Give its interface this MTU.
    pub mtu: Option<u32>,
    /// Bring its interface up, or take it down.
    pub up: Option<bool>,
    /// All is as it was before us: forget it.
    pub forget: bool,
    /// The functions that nobody may hold meanwhile.
    pub touches: BTreeSet<PciAddress>,
}

/// What is to be done to a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfDue {
    /// Where it is.
    pub pci: PciAddress,
    /// Its number.
    pub index: u32,
    /// Give it this GUID, before its driver.
    pub guid: Option<Guid>,
    /// Let its link follow the adapter's.
    pub follow: bool,
    /// Take its driver and give it one.
    pub rebind: Option<Driver>,
    /// Give its interface, of this name, this MTU.
    pub mtu: Option<(String, u32)>,
}

/// Whom a function is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The kernel's.
    Own,
    /// vfio-pci.
    Vfio,
}

impl Due {
    /// Whether there is nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What is to be done to the adapter `seen`. `held` are the functions that pods have.
pub fn due(
    want: Option<&Want>,
    seen: &Adapter,
    record: Option<&Record>,
    guids: &dyn GuidSource,
    held: &BTreeSet<PciAddress>,
) -> Result<Due, Fault> {
    match (want, record) {
        // Nobody selects it, and it is as somebody else left it.
        (None, None) => Ok(Due::default()),
        (None, Some(record)) => Ok(undo(seen, record)),
        (Some(want), _) => todo(want, seen, record, guids, held),
    }
}

/// Back to what was before.
fn undo(seen: &Adapter, record: &Record) -> Due {
    let mut due = Due::default();
    let now = count(seen);
    if !record.external && now != record.vfs {
        due.count = Some(record.vfs);
        due.touches = seen.vfs.iter().map(|vf| vf.pci).collect();
        return due;
    }
    if !record.external
        && let Some(interface) = &seen.interface
    {
        due.mtu = record.mtu.filter(|mtu| *mtu != interface.mtu);
        due.up = record.up.filter(|up| *up != interface.up);
    }
    due.forget = due.mtu.is_none() && due.up.is_none();
    due
}

fn todo(
    want: &Want,
    seen: &Adapter,
    record: Option<&Record>,
    guids: &dyn GuidSource,
    held: &BTreeSet<PciAddress>,
) -> Result<Due, Fault> {
    let mut due = Due { record: record.is_none().then(|| Record::of(seen, want.external)), ..Due::default() };
    let now = count(seen);
    if want.external {
        check_external(want, seen, now)?;
    } else if want.count > now {
        if want.count > seen.total {
            return Err(too_many(want, seen));
        }
        due.count = Some(want.count);
        due.touches = seen.vfs.iter().map(|vf| vf.pci).collect();
        // The functions will be others.
        return Ok(due);
    }
    let pf = PfIdentity { pci: seen.pci, guid: seen.guid };
    for vf in &seen.vfs {
        let Some(group) = want.groups.iter().find(|group| group.span.contains(&vf.index)) else { continue };
        let wanted = function(want, seen, vf, group, || guids.guid(pf, vf.index))?;
        // A driver that is away for a moment, under a pod, is that pod's business.
        if let Some(wanted) = wanted
            && !(held.contains(&vf.pci) && vf.driver.is_none())
        {
            if wanted.rebind.is_some() || wanted.guid.is_some() {
                due.touches.insert(vf.pci);
            }
            due.vfs.push(wanted);
        }
    }
    if let Some(interface) = seen.interface.as_ref().filter(|_| !want.external) {
        // Never lowered: others may have set it.
        due.mtu = want.mtu.filter(|mtu| *mtu > interface.mtu);
        due.up = (!interface.up).then_some(true);
    }
    // Nothing to do yet, but it is ours from now on.
    Ok(due)
}

/// What is to be done to one function; nothing if it is right.
fn function(
    want: &Want,
    seen: &Adapter,
    vf: &Vf,
    group: &Group,
    guid: impl FnOnce() -> Result<Guid, Fault>,
) -> Result<Option<VfDue>, Fault> {
    let mut due = VfDue { pci: vf.pci, index: vf.index, guid: None, follow: false, rebind: None, mtu: None };
    let bound = vf.driver.as_deref();
    if group.vfio {
        if bound != Some("vfio-pci") {
            if !vf.iommu && vf.driver.is_some() {
                return Err(no_iommu(vf.pci));
            }
            due.rebind = Some(Driver::Vfio);
        }
        return Ok(due.rebind.is_some().then_some(due));
    }
    if bound.is_none_or(|driver| USER_SPACE.contains(&driver)) {
        due.rebind = Some(Driver::Own);
    }
    if want.link.or(seen.link) == Some(LinkLayer::InfiniBand) && seen.link == Some(LinkLayer::InfiniBand) {
        let given = vf.given.and_then(|(guid, _)| guid);
        // Moved into a pod, its device is out of sight, and what it was given tells.
        let has = vf.guid.or(given).filter(|guid| !guid.is_unset());
        if !(want.external && has.is_some()) {
            let wanted = guid()?;
            // What was given cannot be asked for without an interface of the adapter.
            if has != Some(wanted) || given.is_some_and(|given| given != wanted) {
                due.guid = Some(wanted);
                due.rebind = Some(Driver::Own);
            }
        }
        due.follow = due.guid.is_some() && vf.given.is_some_and(|(_, state)| state != Some(VfState::Auto));
    }
    let mtu = group.mtu.zip(vf.interface.as_ref()).filter(|(mtu, (_, now))| mtu != now);
    due.mtu = mtu.map(|(mtu, (name, _))| (name.clone(), mtu));
    let right = due.guid.is_none() && due.rebind.is_none() && due.mtu.is_none();
    Ok((!right).then_some(due))
}

/// Whether a function is as its group wants it, so that it may be given out.
pub fn is_right(want: &Want, seen: &Adapter, vf: &Vf, group: &Group, guids: &dyn GuidSource) -> bool {
    let pf = PfIdentity { pci: seen.pci, guid: seen.guid };
    let due = function(want, seen, vf, group, || guids.guid(pf, vf.index));
    due.is_ok_and(|due| due.is_none_or(|due| due.rebind.is_none() && due.guid.is_none()))
}

fn count(seen: &Adapter) -> u16 {
    u16::try_from(seen.vfs.len()).unwrap_or(u16::MAX)
}

fn too_many(want: &Want, seen: &Adapter) -> Fault {
    Fault::new(
        FaultCode::InvalidConfig,
        format!("adapter {}", seen.pci),
        format!("{} virtual functions are wanted, sriov_totalvfs is {}", want.count, seen.total),
        "lower numVfs of the policy, or raise NUM_OF_VFS of the firmware",
    )
}

fn no_iommu(pci: PciAddress) -> Fault {
    Fault::new(
        FaultCode::KernelRefused,
        format!("virtual function {pci}"),
        "it has no IOMMU group, so vfio-pci cannot take it",
        "switch the IOMMU on: in the BIOS, and with intel_iommu=on or iommu=pt on the kernel's command line",
    )
}

fn check_external(want: &Want, seen: &Adapter, now: u16) -> Result<(), Fault> {
    let fault = |cause: String| {
        Fault::new(
            FaultCode::InvalidConfig,
            format!("adapter {}", seen.pci),
            cause,
            "it is externallyManaged: change it there, or change the policy",
        )
    };
    if want.count > now {
        return Err(fault(format!("{} virtual functions are wanted, there are {now}", want.count)));
    }
    if let (Some(mtu), Some(interface)) = (want.mtu, &seen.interface)
        && mtu > interface.mtu
    {
        return Err(fault(format!("MTU {mtu} is wanted, it has {}", interface.mtu)));
    }
    if let (Some(wanted), Some(link)) = (want.link, seen.link)
        && wanted != link
    {
        return Err(fault(format!("{wanted} is wanted, it speaks {link}")));
    }
    Ok(())
}
