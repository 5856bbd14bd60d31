//! A partition of the fabric: one bridge on each node, joined between nodes by one VXLAN.

use crate::sysfs_tree::IPOIB_MTU;
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket, Vxlan};
use ferroband_kernel::{Errno, Error};
use ferroband_model::PKey;
use std::net::Ipv4Addr;

/// IANA's port of VXLAN (RFC 7348).
const VXLAN_PORT: u16 = 4789;
/// What VXLAN over IPv4 adds: outer IP 20, UDP 8, VXLAN 8, inner Ethernet 14.
const VXLAN_OVERHEAD: u32 = 50;
/// The bridge ends of children; the kernel puts in the first free number.
pub(crate) const CHILD_NAME_PATTERN: &str = "fbv%d";

/// The stand-in for one partition on this node.
pub(crate) struct SimPartition {
    base: u16,
}

impl SimPartition {
    /// Full and limited members are in the same partition.
    pub(crate) fn from_pkey(pkey: PKey) -> Self {
        Self { base: pkey.base() }
    }

    /// The network of Ethernet ports: 0 is no partition's number.
    pub(crate) fn for_ethernet() -> Self {
        Self { base: 0 }
    }

    fn bridge_name(&self) -> String {
        format!("fbk{:04x}", self.base)
    }

    fn vxlan_name(&self) -> String {
        format!("fbx{:04x}", self.base)
    }

    /// Has the partition on this node: the bridge's index, and the MTU that its members may have.
    ///
    /// Each step is one request that the kernel does wholly or not at all, and finding it done already is
    /// success, so any number of callers may do this at once and any of them may die in between.
    pub(crate) fn ensure(&self, route: &mut RouteSocket, uplink: Option<&Link>) -> Result<(u32, u32), Error> {
        let name = self.bridge_name();
        let bridge =
            ensure_link(route, &NewLink { up: true, ..NewLink::new(&name, LinkKind::Bridge) }, "bridge")?;
        let Some(uplink) = uplink else { return Ok((bridge.index, IPOIB_MTU)) };
        let [high, low] = self.base.to_be_bytes();
        let kind = LinkKind::Vxlan(Vxlan {
            id: 0xfb_0000 | u32::from(self.base),
            group: Ipv4Addr::new(239, 251, high, low),
            port: VXLAN_PORT,
            device: uplink.index,
        });
        let name = self.vxlan_name();
        let mtu = mtu(uplink);
        let vxlan =
            NewLink { mtu: Some(mtu), master: Some(bridge.index), up: true, ..NewLink::new(&name, kind) };
        let vxlan = ensure_link(route, &vxlan, "vxlan")?;
        if vxlan.mtu != mtu {
            // The uplink's has changed since.
            route.set_mtu(vxlan.index, mtu)?;
        }
        Ok((bridge.index, mtu))
    }
}

/// The MTU of a partition whose frames travel over `uplink`: IPoIB's, or what fits.
pub(crate) fn mtu(uplink: &Link) -> u32 {
    uplink.mtu.saturating_sub(VXLAN_OVERHEAD).min(IPOIB_MTU)
}

fn ensure_link(route: &mut RouteSocket, wanted: &NewLink<'_>, kind: &str) -> Result<Link, Error> {
    if let Some(link) = route.link(wanted.name)?.filter(|link| link.kind.as_deref() == Some(kind)) {
        return Ok(link);
    }
    let made = route.create_link(wanted);
    match route.link(wanted.name)? {
        Some(link) if link.kind.as_deref() == Some(kind) => match made {
            Err(error) if error.errno() != Some(Errno::EEXIST) => Err(error),
            _ => Ok(link),
        },
        _ => Err(made.err().unwrap_or_else(|| Error::NoParent { interface: wanted.name.to_owned() })),
    }
}

/// Takes away every partition of this node, children included.
pub(crate) fn remove_all(route: &mut RouteSocket) -> Result<(), Error> {
    let links = route.links()?;
    let bridges: Vec<u32> = links
        .iter()
        .filter(|link| has_prefix_and_kind(link, "fbk", "bridge"))
        .map(|link| link.index)
        .collect();
    for link in &links {
        let wire = has_prefix_and_kind(link, "fbv", "veth") || has_prefix_and_kind(link, "fbf", "veth");
        let child = wire && link.master.is_some_and(|master| bridges.contains(&master));
        if child || has_prefix_and_kind(link, "fbx", "vxlan") {
            route.delete_link(link.index)?;
        }
    }
    bridges.into_iter().try_for_each(|index| route.delete_link(index))
}

fn has_prefix_and_kind(link: &Link, prefix: &str, kind: &str) -> bool {
    link.name.starts_with(prefix) && link.kind.as_deref() == Some(kind)
}
