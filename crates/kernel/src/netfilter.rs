//! Answers that go back the way the questions came: two rules of nf_tables in a network namespace.
//!
//! ```text
//! in through IFACE, new ──▶ the connection is marked (conntrack)
//! an answer goes out    ──▶ the packet gets its connection's mark ──▶ a rule `fwmark` finds the table back
//! ```
//!
//! Spoken over netlink (linux/netfilter/nf_tables.h), so a node needs neither `nft` nor `iptables`. All of it is one
//! table of ours; other rules in the namespace are not touched.

use crate::netlink::{MessageBuilder, NetlinkError, NetlinkFamily, NetlinkSocket, RawMessage};
use crate::{Error, Netns};
use nix::errno::Errno;

const TABLE: &str = "ferroband";
const ARRIVING: &str = "arriving";
const ANSWERING: &str = "answering";

/// NFNL_SUBSYS_NFTABLES of linux/netfilter/nfnetlink.h, the upper byte of a message's type.
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
/// NF_IP_PRI_MANGLE: after connections are tracked, before addresses are translated.
const MANGLE: i32 = -150;
const ACCEPT: u32 = 1;

const META_MARK: u32 = 3;
const META_IIFNAME: u32 = 6;
const CT_STATE: u32 = 0;
const CT_MARK: u32 = 3;
/// NF_CT_STATE_BIT(IP_CT_NEW).
const NEW: u32 = 8;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
/// The one register that we need.
const REGISTER: [u8; 4] = 1u32.to_be_bytes();

/// Mark what comes in through `interface` of `netns` and is new, and every answer to it with the same mark. Twice is as
/// good as once. False where the kernel was built without what it takes.
pub fn add_connmark_rules(netns: &Netns, interface: &str, mark: u32) -> Result<bool, Error> {
    let arriving = [
        meta(1, META_IIFNAME),
        compare(EQUAL, &interface_name_value(interface)),
        conntrack(1, CT_STATE),
        bitmask(NEW),
        compare(NOT_EQUAL, &[0; 4]),
        immediate(mark),
        conntrack(4, CT_MARK),
    ];
    let answering =
        [conntrack(1, CT_MARK), compare(EQUAL, &mark.to_ne_bytes()), immediate(mark), meta(3, META_MARK)];
    let first = [
        (table(NEW_TABLE), CREATE),
        (table(DELETE_TABLE), 0),
        (table(NEW_TABLE), CREATE),
        (chain(ARRIVING, "filter", PRE_ROUTING), CREATE),
        (chain(ANSWERING, "route", LOCAL_OUT), CREATE),
        (rule(ARRIVING, &arriving), CREATE | APPEND),
    ];
    let last = (rule(ANSWERING, &answering), CREATE | APPEND);
    commit(netns, first, last, ("mark connections through", interface))
}

/// Take the rules away; it is good if there are none.
pub fn remove_connmark_rules(netns: &Netns) -> Result<(), Error> {
    let place = netns.path().display().to_string();
    commit(netns, [], (table(DELETE_TABLE), 0), ("take marks away in", &place)).map(drop)
}

/// Make all changes of a batch or none; false where the kernel knows too little for them, or has nothing to take away.
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
        // A family, a kind of chain or an expression that it does not know; a table that is not there.
        Err(NetlinkError::Kernel(Errno::ENOENT | Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT, _)) => Ok(false),
        Err(failure) => Err(failure.for_interface(action, thing)),
    }
}

/// struct nfgenmsg: family, version, and for a batch the subsystem in network order.
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

/// `meta`: what the packet has, into or from the register (attribute 1 or 3).
fn meta(register: u16, key: u32) -> (&'static str, MessageBuilder) {
    ("meta", MessageBuilder::default().with(2, &key.to_be_bytes()).with(register, &REGISTER))
}

/// `ct`: what its connection has, into or from the register (attribute 1 or 4).
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

/// IFNAMSIZ bytes.
fn interface_name_value(interface: &str) -> [u8; 16] {
    let mut value = [0; 16];
    for (to, from) in value.iter_mut().zip(interface.bytes().take(15)) {
        *to = from;
    }
    value
}
