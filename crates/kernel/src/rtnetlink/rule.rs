//! Policy routing rules, which select the routing table for a packet (ip-rule(8)).

use super::RouteSocket;
use super::route_spec::{address_bytes, address_family};
use crate::Error;
use crate::netlink::{MessageBuilder, RawMessage, attr};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use nix::errno::Errno;
use nix::libc::{AF_INET, AF_INET6, RTM_DELRULE, RTM_GETRULE, RTM_NEWRULE};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of struct fib_rule_hdr: eight fields of 1 byte (family, two prefix lengths, tos, table, two reserved,
/// action) and the flags with 4 bytes.
const HEAD: usize = 12;
/// FR_ACT_TO_TBL of linux/fib_rules.h: the rule selects a table.
const FR_ACT_TO_TBL: u8 = 1;

/// A rule that directs matching packets to a routing table. Absent fields match every packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoutingRule {
    /// Whether the rule is for IPv6 packets; otherwise it is for IPv4 packets.
    pub v6: bool,
    /// Rules with lower values are evaluated first. If absent, the kernel inserts the rule after the first
    /// one (that of the `local` table) and before all others.
    pub priority: Option<u32>,
    /// Prefix that contains the packet's source address.
    pub source: Option<IpNet>,
    /// Prefix that contains the packet's destination address.
    pub destination: Option<IpNet>,
    /// Name of the interface on which the packet arrived.
    pub input_interface: Option<String>,
    /// Name of the interface to which the sending socket is bound.
    pub output_interface: Option<String>,
    /// Firewall mark of the packet, and the mask that is applied before the comparison.
    pub mark: Option<(u32, u32)>,
    pub table: u32,
}

impl RoutingRule {
    /// Creates a rule that directs packets from `source` to `table`.
    pub fn from_source(source: IpNet, table: u32) -> Self {
        Self { source: Some(source), ..Self::for_family(matches!(source, IpNet::V6(_)), table) }
    }

    /// Creates a rule that directs all IPv4 packets or, if `v6` is true, all IPv6 packets to `table`.
    pub fn for_family(v6: bool, table: u32) -> Self {
        Self {
            v6,
            priority: None,
            source: None,
            destination: None,
            input_interface: None,
            output_interface: None,
            mark: None,
            table,
        }
    }

    /// Builds a message of type `kind`. The attribute numbers are FRA_* of linux/fib_rules.h.
    fn message(&self, kind: u16) -> RawMessage {
        let any = if self.v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
        let length = |net: Option<IpNet>| net.map_or(0, |net| net.prefix_len());
        let head = [
            address_family(&any.into()),
            length(self.destination),
            length(self.source),
            0,
            u8::try_from(self.table).unwrap_or(0),
            0,
            0,
            FR_ACT_TO_TBL,
            0,
            0,
            0,
            0,
        ];
        let prefix = |net: IpNet| address_bytes(net.trunc().addr());
        let name = |name: &String| [name.as_bytes(), &[0]].concat();
        MessageBuilder::new(&head)
            .with_optional(1, self.destination.map(prefix)) // FRA_DST
            .with_optional(2, self.source.map(prefix)) // FRA_SRC
            .with_optional(3, self.input_interface.as_ref().map(name)) // FRA_IIFNAME
            .with_optional(6, self.priority.map(u32::to_ne_bytes)) // FRA_PRIORITY
            .with_optional(10, self.mark.map(|(mark, _)| mark.to_ne_bytes())) // FRA_FWMARK
            .with(15, &self.table.to_ne_bytes()) // FRA_TABLE
            .with_optional(16, self.mark.map(|(_, mask)| mask.to_ne_bytes())) // FRA_FWMASK
            .with_optional(17, self.output_interface.as_ref().map(name)) // FRA_OIFNAME
            .build(kind)
    }

    fn decode(reply: &RawMessage) -> Option<Self> {
        let head = reply.head::<HEAD>(RTM_NEWRULE)?;
        let [family, destination, source, _, table, _, _, action, ..] = *head;
        let v6 = match i32::from(family) {
            AF_INET => false,
            AF_INET6 => true,
            _ => return None,
        };
        if action != FR_ACT_TO_TBL {
            return None;
        }
        let mut rule = Self { priority: Some(0), ..Self::for_family(v6, table.into()) };
        let net = |value, length| attr::ip(value).and_then(|address| IpNet::new(address, length).ok());
        let (mut mark, mut mask) = (None, u32::MAX);
        for (kind, value) in reply.attributes(HEAD) {
            match kind {
                1 => rule.destination = net(value, destination),
                2 => rule.source = net(value, source),
                3 => rule.input_interface = Some(attr::text(value)),
                6 => rule.priority = attr::u32(value),
                10 => mark = attr::u32(value),
                15 => rule.table = attr::u32(value)?,
                16 => mask = attr::u32(value)?,
                17 => rule.output_interface = Some(attr::text(value)),
                _ => {}
            }
        }
        rule.mark = mark.map(|mark| (mark, mask)).filter(|mark| *mark != (0, 0));
        Some(rule)
    }
}

impl RouteSocket {
    /// Adds a rule. Succeeds if the same rule exists.
    pub fn add_rule(&mut self, rule: &RoutingRule) -> Result<(), Error> {
        match self.socket.request(rule.message(RTM_NEWRULE), NLM_F_CREATE | NLM_F_EXCL) {
            Ok(_) => Ok(()),
            Err(failure) if failure.errno() == Some(Errno::EEXIST) => Ok(()),
            Err(failure) => Err(failure.for_interface(format!("add the {rule} for"), rule.interface_name())),
        }
    }

    /// Removes a rule. Succeeds if it does not exist.
    pub fn remove_rule(&mut self, rule: &RoutingRule) -> Result<(), Error> {
        match self.socket.request(rule.message(RTM_DELRULE), 0) {
            Ok(_) => Ok(()),
            Err(failure) if failure.errno() == Some(Errno::ENOENT) => Ok(()),
            Err(failure) => {
                Err(failure.for_interface(format!("remove the {rule} for"), rule.interface_name()))
            }
        }
    }

    /// All rules that select a table, first those of IPv4, then those of IPv6, each in the kernel's order.
    pub fn rules(&mut self) -> Result<Vec<RoutingRule>, Error> {
        let mut rules = Vec::new();
        for family in [AF_INET, AF_INET6] {
            let mut head = [0; HEAD];
            head[0] = u8::try_from(family).unwrap_or_default();
            match self.socket.dump(MessageBuilder::new(&head).build(RTM_GETRULE)) {
                Ok(replies) => rules.extend(replies.iter().filter_map(RoutingRule::decode)),
                // The kernel has no IPv6 support, so there are no IPv6 rules.
                Err(failure) if failure.errno() == Some(Errno::EAFNOSUPPORT) => {}
                Err(failure) => return Err(failure.for_interface("list the rules of", "(all)")),
            }
        }
        Ok(rules)
    }
}

impl RoutingRule {
    fn interface_name(&self) -> String {
        self.input_interface
            .clone()
            .or_else(|| self.output_interface.clone())
            .unwrap_or_else(|| "any".to_owned())
    }
}

impl fmt::Display for RoutingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rule")?;
        self.source.map_or(Ok(()), |source| write!(f, " from {source}"))?;
        self.destination.map_or(Ok(()), |destination| write!(f, " to {destination}"))?;
        write!(f, " lookup {}", self.table)
    }
}

/// Gives `decode_anything` access to the private method `RoutingRule::decode`.
pub(super) fn decode(reply: &RawMessage) -> Option<RoutingRule> {
    RoutingRule::decode(reply)
}
