//! Symmetric routing of replies with connection marks: two nf_tables rules in a network namespace.
//!
//! ```text
//! new connection through IFACE ──▶ set the connection mark (conntrack)
//! outgoing reply               ──▶ copy the connection mark to the packet ──▶ an `fwmark` rule selects the table
//! ```
//!
//! Uses netlink (linux/netfilter/nf_tables.h), so a node needs neither `nft` nor `iptables`. All rules are in
//! one nf_tables table. Other tables of the namespace are not changed.

use crate::netlink::{MessageBuilder, NetlinkError, NetlinkFamily, NetlinkSocket, RawMessage};
use crate::{Error, Netns};
use nix::errno::Errno;

const TABLE: &str = "ferroband";
const NEW_CONNECTIONS_CHAIN: &str = "arriving";
const REPLIES_CHAIN: &str = "answering";

/// NFNL_SUBSYS_NFTABLES of linux/netfilter/nfnetlink.h, the upper byte of the message type.
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const DELETE_TABLE: u16 = NEW_TABLE | 2;
const NEW_CHAIN: u16 = NEW_TABLE | 3;
const NEW_RULE: u16 = NEW_TABLE | 6;
/// NLM_F_CREATE and NLM_F_APPEND of linux/netlink.h.
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// NFPROTO_INET: IPv4 and IPv6 in one table.
const INET: u8 = 1;
const PRE_ROUTING: u32 = 0;
const LOCAL_OUT: u32 = 3;
/// NF_IP_PRI_MANGLE: after connection tracking, before NAT.
const MANGLE: i32 = -150;
const ACCEPT: u32 = 1;

const META_MARK: u32 = 3;
const META_IIFNAME: u32 = 6;
const CT_STATE: u32 = 0;
const CT_MARK: u32 = 3;
/// NF_CT_STATE_BIT(IP_CT_NEW): the packet starts a new connection.
const NEW: u32 = 8;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
/// NFT_REG_1, the only nf_tables register that the expressions use, in network byte order.
const REGISTER: [u8; 4] = 1u32.to_be_bytes();

/// Marks new connections through `interface` of `netns` and every reply packet of these connections. Idempotent.
/// Returns false if the kernel lacks the required features.
pub fn add_connmark_rules(netns: &Netns, interface: &str, mark: u32) -> Result<bool, Error> {
    let new_connections = [
        meta(1, META_IIFNAME),
        compare(EQUAL, &interface_name_value(interface)),
        conntrack(1, CT_STATE),
        bitmask(NEW),
        compare(NOT_EQUAL, &[0; 4]),
        immediate(mark),
        conntrack(4, CT_MARK),
    ];
    let replies =
        [conntrack(1, CT_MARK), compare(EQUAL, &mark.to_ne_bytes()), immediate(mark), meta(3, META_MARK)];
    let first = [
        (table(NEW_TABLE), CREATE),
        (table(DELETE_TABLE), 0),
        (table(NEW_TABLE), CREATE),
        (chain(NEW_CONNECTIONS_CHAIN, "filter", PRE_ROUTING), CREATE),
        (chain(REPLIES_CHAIN, "route", LOCAL_OUT), CREATE),
        (rule(NEW_CONNECTIONS_CHAIN, &new_connections), CREATE | APPEND),
    ];
    let last = (rule(REPLIES_CHAIN, &replies), CREATE | APPEND);
    commit(netns, first, last, ("mark connections through", interface))
}

/// Removes the table that [`add_connmark_rules`] created, with all its rules. Does nothing if the table does
/// not exist.
pub fn remove_connmark_rules(netns: &Netns) -> Result<(), Error> {
    let path = netns.path().display().to_string();
    commit(netns, [], (table(DELETE_TABLE), 0), ("remove connection mark rules in", &path)).map(drop)
}

/// Applies all changes of a batch or none. Returns false if the kernel lacks a feature, or if the table to delete
/// does not exist.
fn commit(
    netns: &Netns,
    first: impl IntoIterator<Item = (RawMessage, u16)>,
    last: (RawMessage, u16),
    (action, thing): (&'static str, &str),
) -> Result<bool, Error> {
    let mut socket = match netns.run(|| NetlinkSocket::open(NetlinkFamily::Netfilter))? {
        Err(Error::Socket { source, .. }) if source.raw_os_error() == Some(Errno::EPROTONOSUPPORT as i32) => {
            return Ok(false);
        }
        opened => opened?,
    };
    let first: Vec<_> = [(batch_message(BATCH_BEGIN), 0)].into_iter().chain(first).collect();
    match socket.send_batch(&first, last, batch_message(BATCH_END)) {
        Ok(()) => Ok(true),
        // The kernel does not support the family, the chain type or an expression, or the table does not exist.
        Err(NetlinkError::Kernel(Errno::ENOENT | Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT, _)) => Ok(false),
        Err(failure) => Err(failure.for_interface(action, thing)),
    }
}

/// The message that begins or ends a batch: struct nfgenmsg with the subsystem in network byte order as its last
/// field.
fn batch_message(kind: u16) -> RawMessage {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    MessageBuilder::new(&[0, 0, high, low]).build(kind)
}

fn body() -> MessageBuilder {
    MessageBuilder::new(&[INET, 0, 0, 0])
}

fn table(kind: u16) -> RawMessage {
    body().with_text(1, TABLE).build(kind)
}

fn chain(name: &str, kind: &str, hook: u32) -> RawMessage {
    let hook = MessageBuilder::default().with(1, &hook.to_be_bytes()).with(2, &MANGLE.to_be_bytes());
    body()
        .with_text(1, TABLE)
        .with_text(3, name)
        .with_flagged_nest(4, &hook)
        .with(5, &ACCEPT.to_be_bytes())
        .with_text(7, kind)
        .build(NEW_CHAIN)
}

fn rule(chain: &str, expressions: &[(&str, MessageBuilder)]) -> RawMessage {
    let mut list = MessageBuilder::default();
    for (name, data) in expressions {
        list = list
            .with_flagged_nest(1, &MessageBuilder::default().with_text(1, name).with_flagged_nest(2, data));
    }
    body().with_text(1, TABLE).with_text(2, chain).with_flagged_nest(4, &list).build(NEW_RULE)
}

/// A `meta` expression. As `register`, attribute 1 (NFTA_META_DREG) loads packet metadata into the register, and
/// attribute 3 (NFTA_META_SREG) sets the metadata from the register.
fn meta(register: u16, key: u32) -> (&'static str, MessageBuilder) {
    ("meta", MessageBuilder::default().with(2, &key.to_be_bytes()).with(register, &REGISTER))
}

/// A `ct` expression. As `register`, attribute 1 (NFTA_CT_DREG) loads connection data into the register, and
/// attribute 4 (NFTA_CT_SREG) sets the connection data from the register.
fn conntrack(register: u16, key: u32) -> (&'static str, MessageBuilder) {
    ("ct", MessageBuilder::default().with(2, &key.to_be_bytes()).with(register, &REGISTER))
}

fn compare(how: u32, value: &[u8]) -> (&'static str, MessageBuilder) {
    let data = MessageBuilder::default().with(1, &REGISTER).with(2, &how.to_be_bytes());
    ("cmp", data.with_flagged_nest(3, &MessageBuilder::default().with(1, value)))
}

fn bitmask(mask: u32) -> (&'static str, MessageBuilder) {
    let value = |value: u32| MessageBuilder::default().with(1, &value.to_ne_bytes());
    let data = MessageBuilder::default().with(1, &REGISTER).with(2, &REGISTER).with(3, &4u32.to_be_bytes());
    ("bitwise", data.with_flagged_nest(4, &value(mask)).with_flagged_nest(5, &value(0)))
}

fn immediate(value: u32) -> (&'static str, MessageBuilder) {
    let value = MessageBuilder::default().with(1, &value.to_ne_bytes());
    ("immediate", MessageBuilder::default().with(1, &REGISTER).with_flagged_nest(2, &value))
}

/// The interface name, padded with zeros to IFNAMSIZ bytes, as the kernel loads it into the register.
fn interface_name_value(interface: &str) -> [u8; 16] {
    let mut value = [0; 16];
    for (to, from) in value.iter_mut().zip(interface.bytes().take(15)) {
        *to = from;
    }
    value
}
