//! Virtual functions, as the interface of their physical function reports them (IFLA_VF* of linux/if_link.h).

use super::RouteSocket;
use super::link::link_request;
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage, attr};
use ferroband_model::{Guid, VfLinkState, named_enum};
use nix::libc::{
    IFLA_EXT_MASK, IFLA_NUM_VF, IFLA_VFINFO_LIST, RTEXT_FILTER_SKIP_STATS, RTEXT_FILTER_VF, RTM_GETLINK,
    RTM_NEWLINK, RTM_SETLINK,
};
use serde::{Deserialize, Serialize};

/// Length of struct ifinfomsg in bytes: family 1, padding 1, type 2, index 4, flags 4, change 4.
const HEAD: usize = 16;
/// Requests the VFs without their statistics.
const EXT_MASK: i32 = RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS;

/// IFLA_VF_* of linux/if_link.h, which libc lacks.
const IFLA_VF_INFO: u16 = 1;
const IFLA_VF_MAC: u16 = 1;
const IFLA_VF_LINK_STATE: u16 = 5;
const IFLA_VF_IB_NODE_GUID: u16 = 10;
const IFLA_VF_IB_PORT_GUID: u16 = 11;

/// Administrative settings of a virtual function. GUIDs take effect when the driver of the virtual function is
/// bound the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VfInfo {
    /// Index on the physical function, starting at 0.
    pub index: u32,
    /// Link state; `None` if the driver does not report it.
    pub link_state: Option<VfLinkState>,
    /// Node GUID; `None` if not set.
    pub node_guid: Option<Guid>,
    /// Port GUID; `None` if not set.
    pub port_guid: Option<Guid>,
    /// MAC address; `None` if not set.
    pub mac: Option<[u8; 6]>,
}

impl VfInfo {
    /// Creates a virtual function whose settings are all `None`.
    pub const fn new(index: u32) -> Self {
        Self { index, link_state: None, node_guid: None, port_guid: None, mac: None }
    }
}

named_enum! {
    /// Which GUID of a virtual function.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum GuidKind {
        /// GUID of the RDMA device as a node of the fabric.
        Node = "node GUID",
        /// GUID of the port, which is the lower half of its GID.
        Port = "port GUID",
    }
}

impl RouteSocket {
    /// Virtual functions of the physical function whose interface has this index, ordered by index.
    ///
    /// The interface must be in the namespace of the socket. It is created by IPoIB or by the driver of the
    /// physical function. The kernel reports GUIDs since 5.6.
    pub fn vfs(&mut self, index: u32) -> Result<Vec<VfInfo>, Error> {
        let body = link_request(index, None).with(IFLA_EXT_MASK, &EXT_MASK.to_ne_bytes());
        match self.socket.request(body.build(RTM_GETLINK), 0) {
            Ok(replies) => Ok(replies.iter().find_map(decode).unwrap_or_default()),
            Err(failure) => Err(self.interface_error("list the virtual functions of", index, failure)),
        }
    }

    /// Sets a GUID of virtual function `vf`. The GUID takes effect when the driver of the virtual function is
    /// bound the next time.
    pub fn set_vf_guid(&mut self, index: u32, vf: u32, kind: GuidKind, guid: Guid) -> Result<(), Error> {
        let message = set_vf_message(index, guid_attribute(vf, kind, guid));
        let doing = format!("set {kind} {guid} of virtual function {vf} of");
        self.request_on(doing, index, message, 0, &[])
    }

    /// Sets the link state of virtual function `vf`, effective immediately.
    pub fn set_vf_link_state(&mut self, index: u32, vf: u32, state: VfLinkState) -> Result<(), Error> {
        let value = [vf.to_ne_bytes(), state.number().to_ne_bytes()].concat();
        let message = set_vf_message(index, MessageBuilder::default().with(IFLA_VF_LINK_STATE, &value));
        let doing = format!("set link state {state} of virtual function {vf} of");
        self.request_on(doing, index, message, 0, &[])
    }
}

/// Builds an RTM_SETLINK message for one virtual function: IFLA_VFINFO_LIST { IFLA_VF_INFO { `info` } }.
fn set_vf_message(index: u32, info: MessageBuilder) -> RawMessage {
    let list = MessageBuilder::default().with_nest(IFLA_VF_INFO, &info);
    link_request(index, None).with_nest(IFLA_VFINFO_LIST, &list).build(RTM_SETLINK)
}

/// Builds the attribute with struct ifla_vf_guid: VF index (4 bytes), padding (4 bytes), GUID as an integer
/// in native byte order (8 bytes).
fn guid_attribute(vf: u32, kind: GuidKind, guid: Guid) -> MessageBuilder {
    let value = [vf.to_ne_bytes().as_slice(), &[0; 4], &guid.value().to_ne_bytes()].concat();
    let kind = match kind {
        GuidKind::Node => IFLA_VF_IB_NODE_GUID,
        GuidKind::Port => IFLA_VF_IB_PORT_GUID,
    };
    MessageBuilder::default().with(kind, &value)
}

/// Decodes the virtual functions of a reply. Returns `None` if the reply has no VF list.
///
/// With many functions the list exceeds the sixteen bits of its length field, which the kernel then writes modulo
/// 65536 (nla_nest_end). This function therefore ignores the length of the list. It uses the number of VFs in
/// IFLA_NUM_VF, which precedes the list, and the lengths of the list's elements, which are correct.
pub(super) fn decode(reply: &RawMessage) -> Option<Vec<VfInfo>> {
    reply.head::<HEAD>(RTM_NEWLINK)?;
    let mut rest = reply.payload.get(HEAD..)?;
    let mut count = 0;
    loop {
        // NLA_TYPE_MASK of linux/netlink.h.
        if attr::u16(rest.get(2..)?)? & 0x3fff == IFLA_VFINFO_LIST {
            let infos = attr::iter(rest.get(4..)?).take_while(|(kind, _)| *kind == IFLA_VF_INFO);
            return Some(infos.take(count).filter_map(|(_, info)| decode_vf(info)).collect());
        }
        let (kind, value) = attr::iter(rest).next()?;
        if kind == IFLA_NUM_VF {
            count = attr::u32(value)? as usize;
        }
        rest = rest.get((4 + value.len()).next_multiple_of(4)..)?;
    }
}

fn decode_vf(info: &[u8]) -> Option<VfInfo> {
    // Every attribute of a virtual function starts with the index of the function.
    let mut vf = VfInfo::new(attr::iter(info).find_map(|(_, value)| attr::u32(value))?);
    for (kind, value) in attr::iter(info) {
        let guid = || value.get(8..).and_then(attr::u64).map(Guid::new).filter(|guid| !guid.is_unset());
        match kind {
            // struct ifla_vf_mac: VF index (4 bytes), address (32 bytes). On InfiniBand the address contains
            // the GUID.
            IFLA_VF_MAC => {
                let mac = value.get(4..10).and_then(|mac| mac.try_into().ok());
                vf.mac = mac.filter(|mac| *mac != [0; 6]);
            }
            IFLA_VF_LINK_STATE => {
                vf.link_state = value.get(4..).and_then(attr::u32).and_then(VfLinkState::from_number);
            }
            IFLA_VF_IB_NODE_GUID => vf.node_guid = guid(),
            IFLA_VF_IB_PORT_GUID => vf.port_guid = guid(),
            _ => {}
        }
    }
    Some(vf)
}

#[cfg(test)]
mod tests;
