//! Duplicate address detection and gateway reachability by ARP and NDP, for all interfaces at once.
//!
//! ```text
//!  IPv4  ARP request, sender 0.0.0.0 ──▶ broadcast        a reply for the address: Conflict
//!        ARP request, sender the address ──▶ broadcast    no reply from the gateway: GatewaySilent
//!  IPv6  neighbour solicitation, from :: ──▶ ff02::1:ff…  (RFC 5227, RFC 4861, RFC 4862)
//! ```
//!
//! This works on Ethernet (6-byte hardware addresses) and InfiniBand (20 bytes, RFC 4391): frames of an IPoIB
//! interface use its own broadcast address and, in ARP, hardware type 32. All waits are bounded. An interface
//! without carrier, such as an InfiniBand port without a subnet manager, is `Inconclusive` after the timeout.

mod arp;
mod ndp;
mod packet_socket;

use crate::{Error, Netns, RouteSocket, rtnetlink::Link};
use packet_socket::PacketSocket;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A probe for one address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    pub interface: String,
    /// The address that the interface has or will get.
    pub address: IpAddr,
    pub kind: ProbeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Checks whether another host uses the address.
    Duplicate,
    /// Checks whether the gateway with this address replies.
    Gateway(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// No other host uses the address, or the gateway replied.
    Passed,
    /// Another host uses the address. The value is the hardware address of that host.
    Conflict(Vec<u8>),
    /// The gateway did not reply.
    GatewaySilent,
    /// The interface does not exist, has no carrier or cannot send.
    Inconclusive,
}

#[derive(Clone, Copy, Debug)]
pub struct ProbeTimeouts {
    /// Maximum wait for the carrier of an interface.
    pub carrier: Duration,
    /// Maximum number of requests for each probe.
    pub attempts: u32,
    /// Wait for a reply after each request.
    pub reply: Duration,
}

impl Default for ProbeTimeouts {
    fn default() -> Self {
        Self { carrier: Duration::from_secs(2), attempts: 3, reply: Duration::from_millis(150) }
    }
}

const CARRIER_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs all probes in the namespace at the same time and returns the outcomes in the order of the requests. Sets
/// interfaces up if they are down.
pub fn probe(
    netns: &Netns,
    requests: &[ProbeRequest],
    timeouts: ProbeTimeouts,
) -> Result<Vec<ProbeOutcome>, Error> {
    let mut route = RouteSocket::open_in(netns)?;
    netns.run(|| ProbeRun::begin(&mut route, requests, timeouts).map(|run| run.run(timeouts)))?
}

/// Announces the address with a gratuitous ARP request or an unsolicited neighbour advertisement. Does nothing if
/// the interface does not exist.
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

struct ProbeRun {
    pending: Vec<PendingProbe>,
    outcomes: Vec<Option<ProbeOutcome>>,
    /// Hardware addresses of all interfaces in the namespace. A reply from one of them is no conflict: by default
    /// (arp_ignore 0) Linux answers ARP requests for any of its addresses on any interface, so several interfaces
    /// on one fabric answer for each other.
    own_addresses: Vec<Vec<u8>>,
}

/// A probe on an interface with a carrier, until a reply determines its outcome or all attempts are used.
struct PendingProbe {
    position: usize,
    request: ProbeRequest,
    link: Link,
    socket: PacketSocket,
}

impl ProbeRun {
    fn begin(
        route: &mut RouteSocket,
        requests: &[ProbeRequest],
        timeouts: ProbeTimeouts,
    ) -> Result<Self, Error> {
        let mut outcomes = vec![None; requests.len()];
        let mut pending = Vec::new();
        let end = Instant::now() + timeouts.carrier;
        for request in requests {
            if let Some(link) = route.link(&request.interface)?.filter(|link| !link.up) {
                route.set_up(link.index)?;
            }
        }
        for (position, request) in requests.iter().enumerate() {
            match wait_for_carrier(route, &request.interface, end)? {
                Some(link) => {
                    let socket = PacketSocket::open(&link, request.address.is_ipv6())?;
                    pending.push(PendingProbe { position, request: request.clone(), link, socket });
                }
                None => outcomes[position] = Some(ProbeOutcome::Inconclusive),
            }
        }
        let own_addresses = route
            .links()?
            .into_iter()
            .map(|link| link.address)
            .filter(|address| !address.is_empty())
            .collect();
        Ok(Self { pending, outcomes, own_addresses })
    }

    fn run(mut self, timeouts: ProbeTimeouts) -> Vec<ProbeOutcome> {
        let own = std::mem::take(&mut self.own_addresses);
        for _ in 0..timeouts.attempts.max(1) {
            // If the interface cannot send, the outcome is the same as without a carrier.
            self.resolve(|probe| probe.send().is_err().then_some(ProbeOutcome::Inconclusive));
            let end = Instant::now() + timeouts.reply;
            while !self.pending.is_empty() && Instant::now() < end {
                self.resolve(|probe| probe.read_replies(&own));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        for probe in &self.pending {
            self.outcomes[probe.position] = Some(probe.outcome_without_reply());
        }
        self.outcomes.into_iter().map(|outcome| outcome.unwrap_or(ProbeOutcome::Inconclusive)).collect()
    }

    /// Removes the pending probes for which `decide` returns an outcome, and stores their outcomes.
    fn resolve(&mut self, decide: impl Fn(&PendingProbe) -> Option<ProbeOutcome>) {
        let outcomes = &mut self.outcomes;
        self.pending.retain(|probe| match decide(probe) {
            Some(outcome) => {
                outcomes[probe.position] = Some(outcome);
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
            // The address and the gateway are of different families, so there is no request to send.
            _ => return Ok(()),
        };
        self.socket.send(&frame, &to)
    }

    /// Reads the received frames and returns the outcome, if they determine it.
    fn read_replies(&self, own: &[Vec<u8>]) -> Option<ProbeOutcome> {
        let mut frame = [0; 1500];
        while let Some(length) = self.socket.receive(&mut frame) {
            let frame = &frame[..length];
            let claim = match self.request.address {
                IpAddr::V4(_) => arp::claimed_address(frame),
                IpAddr::V6(_) => ndp::claimed_address(frame),
            };
            let Some((address, hardware)) = claim else { continue };
            match self.request.kind {
                ProbeKind::Duplicate if address == self.request.address && !own.contains(&hardware) => {
                    return Some(ProbeOutcome::Conflict(hardware));
                }
                ProbeKind::Gateway(gateway) if address == gateway => return Some(ProbeOutcome::Passed),
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

/// Waits until the interface has a carrier. Returns `None` if the interface does not exist or has no carrier at
/// `end`.
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
