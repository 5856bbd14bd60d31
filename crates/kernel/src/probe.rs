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
mod packet;

use crate::{Error, Netns, Route, route::Link};
use packet::Packet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A question about one address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The interface.
    pub interface: String,
    /// The address that it has, or shall have.
    pub address: IpAddr,
    /// What is asked.
    pub about: About,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Whether somebody else has the address.
    Duplicate,
    /// Whether this gateway answers.
    Gateway(IpAddr),
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody else has the address, or the gateway answers.
    Good,
    /// Somebody with this hardware address, which is none of this namespace's, has it too.
    Conflict(Vec<u8>),
    /// The gateway does not answer.
    Silent,
    /// Nothing can be said: the interface is not there, or has no carrier in time.
    Unheard,
}

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the carrier of an interface.
    pub carrier: Duration,
    /// How often is asked.
    pub tries: u32,
    /// For the answer to each.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { carrier: Duration::from_secs(2), tries: 3, answer: Duration::from_millis(150) }
    }
}

/// How often a carrier is looked for.
const PAUSE: Duration = Duration::from_millis(20);

/// Ask all `questions` in the namespace at once. Interfaces are set up if they are not.
pub fn probe(netns: &Netns, questions: &[Question], patience: Patience) -> Result<Vec<Verdict>, Error> {
    let mut route = Route::inside(netns)?;
    netns.run(|| Asking::begin(&mut route, questions, patience).map(|asking| asking.run(patience)))?
}

/// Tell everybody on the wire that the address is this interface's now (a gratuitous ARP request or an unsolicited
/// neighbour advertisement).
pub fn announce(netns: &Netns, interface: &str, address: IpAddr) -> Result<(), Error> {
    let link = Route::inside(netns)?.link(interface)?;
    let Some(link) = link else { return Ok(()) };
    netns.run(|| {
        let frame = match address {
            IpAddr::V4(v4) => (arp::request(&link, v4, v4), link.broadcast.clone()),
            IpAddr::V6(v6) => (ndp::advertisement(&link, v6), ndp::everybody(&link)),
        };
        let socket = Packet::open(&link, address.is_ipv6())?;
        socket.send(&frame.0, &frame.1)
    })?
}

/// Questions under way.
struct Asking {
    open: Vec<Open>,
    verdicts: Vec<Option<Verdict>>,
    /// The hardware addresses of all interfaces here. Linux answers ARP for an address through whatever interface hears
    /// the question (arp_ignore 0, its default): several on one fabric answer for each other, and are nobody else.
    own: Vec<Vec<u8>>,
}

/// A question that has no answer yet.
struct Open {
    position: usize,
    question: Question,
    link: Link,
    socket: Packet,
}

impl Asking {
    fn begin(route: &mut Route, questions: &[Question], patience: Patience) -> Result<Self, Error> {
        let mut verdicts = vec![None; questions.len()];
        let mut open = Vec::new();
        let end = Instant::now() + patience.carrier;
        for question in questions {
            if let Some(link) = route.link(&question.interface)?.filter(|link| !link.up) {
                route.up(link.index)?;
            }
        }
        for (position, question) in questions.iter().enumerate() {
            match carrier(route, &question.interface, end)? {
                Some(link) => {
                    let socket = Packet::open(&link, question.address.is_ipv6())?;
                    open.push(Open { position, question: question.clone(), link, socket });
                }
                None => verdicts[position] = Some(Verdict::Unheard),
            }
        }
        let own = route
            .links()?
            .into_iter()
            .map(|link| link.address)
            .filter(|address| !address.is_empty())
            .collect();
        Ok(Self { open, verdicts, own })
    }

    fn run(mut self, patience: Patience) -> Vec<Verdict> {
        let own = std::mem::take(&mut self.own);
        for _ in 0..patience.tries.max(1) {
            // An interface that takes no frame is as good as one without a carrier.
            self.settle(|open| open.ask().is_err().then_some(Verdict::Unheard));
            let end = Instant::now() + patience.answer;
            while !self.open.is_empty() && Instant::now() < end {
                self.settle(|open| open.heard(&own));
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        for open in &self.open {
            self.verdicts[open.position] = Some(open.unanswered());
        }
        self.verdicts.into_iter().map(|verdict| verdict.unwrap_or(Verdict::Unheard)).collect()
    }

    /// Close what `verdict` decides.
    fn settle(&mut self, verdict: impl Fn(&Open) -> Option<Verdict>) {
        let verdicts = &mut self.verdicts;
        self.open.retain(|open| match verdict(open) {
            Some(decided) => {
                verdicts[open.position] = Some(decided);
                false
            }
            None => true,
        });
    }
}

impl Open {
    fn ask(&self) -> Result<(), Error> {
        let (frame, to) = match (self.question.address, self.question.about) {
            (IpAddr::V4(own), About::Duplicate) => (arp::probe(&self.link, own), self.link.broadcast.clone()),
            (IpAddr::V4(own), About::Gateway(IpAddr::V4(gateway))) => {
                (arp::request(&self.link, own, gateway), self.link.broadcast.clone())
            }
            (IpAddr::V6(own), About::Duplicate) => {
                (ndp::solicitation(&self.link, None, own), ndp::solicited(&self.link, own))
            }
            (IpAddr::V6(own), About::Gateway(IpAddr::V6(gateway))) => {
                (ndp::solicitation(&self.link, Some(own), gateway), ndp::solicited(&self.link, gateway))
            }
            // A gateway of the other family is never asked.
            _ => return Ok(()),
        };
        self.socket.send(&frame, &to)
    }

    /// What has come in says.
    fn heard(&self, own: &[Vec<u8>]) -> Option<Verdict> {
        let mut frame = [0; 1500];
        while let Some(length) = self.socket.receive(&mut frame) {
            let frame = &frame[..length];
            let said = match self.question.address {
                IpAddr::V4(_) => arp::said(frame),
                IpAddr::V6(_) => ndp::said(frame),
            };
            let Some((of, by)) = said else { continue };
            match self.question.about {
                About::Duplicate if of == self.question.address && !own.contains(&by) => {
                    return Some(Verdict::Conflict(by));
                }
                About::Gateway(gateway) if of == gateway => return Some(Verdict::Good),
                _ => {}
            }
        }
        None
    }

    fn unanswered(&self) -> Verdict {
        match self.question.about {
            About::Duplicate => Verdict::Good,
            About::Gateway(_) => Verdict::Silent,
        }
    }
}

/// The interface, once it has a carrier.
fn carrier(route: &mut Route, interface: &str, end: Instant) -> Result<Option<Link>, Error> {
    loop {
        match route.link(interface)? {
            None => return Ok(None),
            Some(link) if link.up && link.carrier && !link.broadcast.is_empty() => return Ok(Some(link)),
            Some(_) if Instant::now() >= end => return Ok(None),
            Some(_) => std::thread::sleep(PAUSE),
        }
    }
}
