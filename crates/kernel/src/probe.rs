//! Is an address somebody else's already, and does a gateway answer? Asked on the wire, for all interfaces at once.
//!
//! ```text
//!  IPv4  ARP request, sender 0.0.0.0 ──▶ broadcast        an answer from the address: Conflict
//!        ARP request, sender the address ──▶ broadcast    no answer from the gateway: Silent
//!  IPv6  neighbour solicitation, from :: ──▶ ff02::1:ff…  (RFC 5227, RFC 4861, RFC 4862)
//! ```
//!
//! The same on Ethernet (addresses of 6 bytes) and InfiniBand (20 bytes, RFC 4391): an IPoIB interface's frames carry its
//! own broadcast address and, in ARP, hardware type 32. Everything is bounded; an interface without a carrier, as an
//! InfiniBand port before its subnet manager is, is waited for and then given up as `Unheard`.

mod arp;
mod ndp;
mod packet_socket;

use crate::{Error, Netns, RouteSocket, rtnetlink::Link};
use packet_socket::PacketSocket;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A question about one address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// The interface.
    pub interface: String,
    /// The address that it has, or shall have.
    pub address: IpAddr,
    /// What is asked.
    pub kind: ProbeKind,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Whether somebody else has the address.
    Duplicate,
    /// Whether this gateway answers.
    Gateway(IpAddr),
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// Nobody else has the address, or the gateway answers.
    Passed,
    /// Somebody with this hardware address, which is none of this namespace's, has it too.
    Conflict(Vec<u8>),
    /// The gateway does not answer.
    GatewaySilent,
    /// Nothing can be said: the interface is not there, or has no carrier in time.
    Inconclusive,
}

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTimeouts {
    /// For the carrier of an interface.
    pub carrier: Duration,
    /// How often is asked.
    pub attempts: u32,
    /// For the answer to each.
    pub reply: Duration,
}

impl Default for ProbeTimeouts {
    fn default() -> Self {
        Self { carrier: Duration::from_secs(2), attempts: 3, reply: Duration::from_millis(150) }
    }
}

/// How often a carrier is looked for.
const CARRIER_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Ask all `questions` in the namespace at once. Interfaces are set up if they are not.
pub fn probe(
    netns: &Netns,
    questions: &[ProbeRequest],
    patience: ProbeTimeouts,
) -> Result<Vec<ProbeOutcome>, Error> {
    let mut route = RouteSocket::open_in(netns)?;
    netns.run(|| ProbeRun::begin(&mut route, questions, patience).map(|asking| asking.run(patience)))?
}

/// Tell everybody on the wire that the address is this interface's now (a gratuitous ARP request or an unsolicited
/// neighbour advertisement).
pub fn announce(netns: &Netns, interface: &str, address: IpAddr) -> Result<(), Error> {
    let link = RouteSocket::open_in(netns)?.link(interface)?;
    let Some(link) = link else { return Ok(()) };
    netns.run(|| {
        let frame = match address {
            IpAddr::V4(v4) => (arp::request(&link, v4, v4), link.broadcast.clone()),
            IpAddr::V6(v6) => (ndp::advertisement(&link, v6), ndp::all_nodes_lladdr(&link)),
        };
        let socket = PacketSocket::open(&link, address.is_ipv6())?;
        socket.send(&frame.0, &frame.1)
    })?
}

/// Questions under way.
struct ProbeRun {
    pending: Vec<PendingProbe>,
    outcomes: Vec<Option<ProbeOutcome>>,
    /// The hardware addresses of all interfaces here. Linux answers ARP for an address through whatever interface hears
    /// the question (arp_ignore 0, its default): several on one fabric answer for each other, and are nobody else.
    own_addresses: Vec<Vec<u8>>,
}

/// A question that has no answer yet.
struct PendingProbe {
    position: usize,
    request: ProbeRequest,
    link: Link,
    socket: PacketSocket,
}

impl ProbeRun {
    fn begin(
        route: &mut RouteSocket,
        questions: &[ProbeRequest],
        patience: ProbeTimeouts,
    ) -> Result<Self, Error> {
        let mut verdicts = vec![None; questions.len()];
        let mut open = Vec::new();
        let end = Instant::now() + patience.carrier;
        for question in questions {
            if let Some(link) = route.link(&question.interface)?.filter(|link| !link.up) {
                route.set_up(link.index)?;
            }
        }
        for (position, question) in questions.iter().enumerate() {
            match wait_for_carrier(route, &question.interface, end)? {
                Some(link) => {
                    let socket = PacketSocket::open(&link, question.address.is_ipv6())?;
                    open.push(PendingProbe { position, request: question.clone(), link, socket });
                }
                None => verdicts[position] = Some(ProbeOutcome::Inconclusive),
            }
        }
        let own = route
            .links()?
            .into_iter()
            .map(|link| link.address)
            .filter(|address| !address.is_empty())
            .collect();
        Ok(Self { pending: open, outcomes: verdicts, own_addresses: own })
    }

    fn run(mut self, patience: ProbeTimeouts) -> Vec<ProbeOutcome> {
        let own = std::mem::take(&mut self.own_addresses);
        for _ in 0..patience.attempts.max(1) {
            // An interface that takes no frame is as good as one without a carrier.
            self.resolve(|open| open.send().is_err().then_some(ProbeOutcome::Inconclusive));
            let end = Instant::now() + patience.reply;
            while !self.pending.is_empty() && Instant::now() < end {
                self.resolve(|open| open.read_replies(&own));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        for open in &self.pending {
            self.outcomes[open.position] = Some(open.outcome_without_reply());
        }
        self.outcomes.into_iter().map(|verdict| verdict.unwrap_or(ProbeOutcome::Inconclusive)).collect()
    }

    /// Close what `verdict` decides.
    fn resolve(&mut self, verdict: impl Fn(&PendingProbe) -> Option<ProbeOutcome>) {
        let verdicts = &mut self.outcomes;
        self.pending.retain(|open| match verdict(open) {
            Some(decided) => {
                verdicts[open.position] = Some(decided);
                false
            }
            None => true,
        });
    }
}

impl PendingProbe {
    fn send(&self) -> Result<(), Error> {
        let (frame, to) = match (self.request.address, self.request.kind) {
            (IpAddr::V4(own), ProbeKind::Duplicate) => {
                (arp::probe(&self.link, own), self.link.broadcast.clone())
            }
            (IpAddr::V4(own), ProbeKind::Gateway(IpAddr::V4(gateway))) => {
                (arp::request(&self.link, own, gateway), self.link.broadcast.clone())
            }
            (IpAddr::V6(own), ProbeKind::Duplicate) => {
                (ndp::solicitation(&self.link, None, own), ndp::solicited_node_lladdr(&self.link, own))
            }
            (IpAddr::V6(own), ProbeKind::Gateway(IpAddr::V6(gateway))) => (
                ndp::solicitation(&self.link, Some(own), gateway),
                ndp::solicited_node_lladdr(&self.link, gateway),
            ),
            // A gateway of the other family is never asked.
            _ => return Ok(()),
        };
        self.socket.send(&frame, &to)
    }

    /// What has come in says.
    fn read_replies(&self, own: &[Vec<u8>]) -> Option<ProbeOutcome> {
        let mut frame = [0; 1500];
        while let Some(length) = self.socket.receive(&mut frame) {
            let frame = &frame[..length];
            let said = match self.request.address {
                IpAddr::V4(_) => arp::claimed_address(frame),
                IpAddr::V6(_) => ndp::claimed_address(frame),
            };
            let Some((of, by)) = said else { continue };
            match self.request.kind {
                ProbeKind::Duplicate if of == self.request.address && !own.contains(&by) => {
                    return Some(ProbeOutcome::Conflict(by));
                }
                ProbeKind::Gateway(gateway) if of == gateway => return Some(ProbeOutcome::Passed),
                _ => {}
            }
        }
        None
    }

    fn outcome_without_reply(&self) -> ProbeOutcome {
        match self.request.kind {
            ProbeKind::Duplicate => ProbeOutcome::Passed,
            ProbeKind::Gateway(_) => ProbeOutcome::GatewaySilent,
        }
    }
}

/// The interface, once it has a carrier.
fn wait_for_carrier(route: &mut RouteSocket, interface: &str, end: Instant) -> Result<Option<Link>, Error> {
    loop {
        match route.link(interface)? {
            None => return Ok(None),
            Some(link) if link.up && link.carrier && !link.broadcast.is_empty() => return Ok(Some(link)),
            Some(_) if Instant::now() >= end => return Ok(None),
            Some(_) => std::thread::sleep(CARRIER_POLL_INTERVAL),
        }
    }
}
