//! Simulation of a fabric partition: one bridge on each node, connected between nodes by one VXLAN.

use crate::sysfs_tree::IPOIB_MTU;
use ferroband_kernel::rtnetlink::{Link, LinkKind, NewLink, RouteSocket, Vxlan};
use ferroband_kernel::{Errno, Error};
use ferroband_model::PKey;
use std::net::Ipv4Addr;

/// IANA port of VXLAN (RFC 7348).
const VXLAN_PORT: u16 = 4789;
/// Overhead of VXLAN over IPv4: outer IP 20, UDP 8, VXLAN 8, inner Ethernet 14.
const VXLAN_OVERHEAD: u32 = 50;
/// Name pattern of the host ends of IPoIB children. The kernel replaces `%d` with the first free number.
pub(crate) const CHILD_NAME_PATTERN: &str = "fbv%d";

/// A partition on this node, identified by the P_Key without the membership bit.
pub(crate) struct SimPartition {
    base: u16,
}

impl SimPartition {
    /// Returns the partition of a P_Key. The membership bit is ignored, because full and limited members are
    /// in the same partition.
    pub(crate) fn from_pkey(pkey: PKey) -> Self {
        Self { base: pkey.base() }
    }

    /// The network of all Ethernet ports. It has number 0, which is not a valid P_Key.
    pub(crate) fn for_ethernet() -> Self {
        Self { base: 0 }
    }

    fn bridge_name(&self) -> String {
        format!("fbk{:04x}", self.base)
    }

    fn vxlan_name(&self) -> String {
        format!("fbx{:04x}", self.base)
    }

    /// Creates the partition on this node if necessary. Returns the interface index of the bridge and the MTU
    /// of the members.
    ///
    /// Each step is one atomic request to the kernel and succeeds if it was done before, so concurrent
    /// callers and callers that are killed halfway are safe.
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
            // The MTU of the uplink has changed since the VXLAN was created.
            route.set_mtu(vxlan.index, mtu)?;
        }
        Ok((bridge.index, mtu))
    }
}

/// Returns the interface that connects the partitions of several nodes; `None` if the simulation has no uplink.
pub(crate) fn find_uplink(route: &mut RouteSocket, name: Option<&str>) -> Result<Option<Link>, crate::Error> {
    let Some(name) = name else { return Ok(None) };
    match route.link(name)? {
        Some(link) => Ok(Some(link)),
        None => Err(crate::Error::NoUplink { uplink: name.to_owned() }),
    }
}

/// The MTU of a partition over `uplink`: IPoIB's MTU, or less if the uplink is smaller.
pub(crate) fn mtu(uplink: &Link) -> u32 {
    uplink.mtu.saturating_sub(VXLAN_OVERHEAD).min(IPOIB_MTU)
}

fn ensure_link(route: &mut RouteSocket, desired: &NewLink<'_>, kind: &str) -> Result<Link, Error> {
    if let Some(link) = route.link(desired.name)?.filter(|link| link.kind.as_deref() == Some(kind)) {
        return Ok(link);
    }
    let created = route.create_link(desired);
    match route.link(desired.name)? {
        Some(link) if link.kind.as_deref() == Some(kind) => match created {
            Err(error) if error.errno() != Some(Errno::EEXIST) => Err(error),
            _ => Ok(link),
        },
        _ => Err(created.err().unwrap_or_else(|| Error::NoParent { interface: desired.name.to_owned() })),
    }
}

/// Removes all partitions of this node, including the veth pairs of IPoIB children and virtual functions.
pub(crate) fn remove_all(route: &mut RouteSocket) -> Result<(), Error> {
    let links = route.links()?;
    let bridges: Vec<u32> = links
        .iter()
        .filter(|link| has_prefix_and_kind(link, "fbk", "bridge"))
        .map(|link| link.index)
        .collect();
    for link in &links {
        let veth = has_prefix_and_kind(link, "fbv", "veth") || has_prefix_and_kind(link, "fbf", "veth");
        let child = veth && link.master.is_some_and(|master| bridges.contains(&master));
        if child || has_prefix_and_kind(link, "fbx", "vxlan") {
            route.delete_link(link.index)?;
        }
    }
    bridges.into_iter().try_for_each(|index| route.delete_link(index))
}

fn has_prefix_and_kind(link: &Link, prefix: &str, kind: &str) -> bool {
    link.name.starts_with(prefix) && link.kind.as_deref() == Some(kind)
}
