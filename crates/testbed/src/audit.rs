//! Looking back: was any pod ever where it should not have been?

use crate::ufm::MembershipEvent;
use ferroband_model::Guid;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// A pod that had a function for a while.
#[derive(Clone, Debug)]
pub struct PodTenancy {
    /// The pod.
    pub pod: String,
    /// Its function's GUID.
    pub guid: Guid,
    /// The partition that it asked for.
    pub key: u16,
    /// When its interface was there for it to use.
    pub from: Instant,
    /// When its sandbox was known to be gone; still there if absent.
    pub to: Option<Instant>,
}

/// Something that must not have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsolationBreach {
    /// A pod ran although its GUID was not in its partition.
    NotMember {
        /// The pod.
        pod: String,
        /// The partition.
        key: u16,
    },
    /// A pod ran while its GUID was in a partition that is not its own.
    ForeignMember {
        /// The pod.
        pod: String,
        /// The partition.
        key: u16,
    },
}

impl fmt::Display for IsolationBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMember { pod, key } => write!(f, "{pod} ran outside its partition {key:#06x}"),
            Self::ForeignMember { pod, key } => {
                write!(f, "{pod} ran inside partition {key:#06x}, which is not its own")
            }
        }
    }
}

/// Replays the log of a manager's partitions against who had which function when. `forgiven` are times at which the
/// manager itself forgot everything, which nobody can prevent: being outside counts only if it began otherwise.
pub fn audit(events: &[MembershipEvent], tenancies: &[PodTenancy]) -> Vec<IsolationBreach> {
    let mut times: BTreeMap<(u16, Guid), Vec<(Instant, bool)>> = BTreeMap::new();
    for event in events {
        times.entry((event.key, event.guid)).or_default().push((event.at, event.member));
    }
    let end = Instant::now();
    let mut breaches = Vec::new();
    for tenancy in tenancies {
        let to = tenancy.to.unwrap_or(end);
        let own = times.get(&(tenancy.key, tenancy.guid)).map_or(&[][..], Vec::as_slice);
        let at_start =
            own.iter().rev().find(|(at, _)| *at <= tenancy.from).is_some_and(|(_, member)| *member);
        let lost = own.iter().any(|(at, member)| !member && *at > tenancy.from && *at < to);
        if !at_start || lost {
            breaches.push(IsolationBreach::NotMember { pod: tenancy.pod.clone(), key: tenancy.key });
        }
        for ((key, guid), changes) in &times {
            if *guid != tenancy.guid || *key == tenancy.key {
                continue;
            }
            let at_start =
                changes.iter().rev().find(|(at, _)| *at <= tenancy.from).is_some_and(|(_, member)| *member);
            let came = changes.iter().any(|(at, member)| *member && *at > tenancy.from && *at < to);
            if at_start || came {
                breaches.push(IsolationBreach::ForeignMember { pod: tenancy.pod.clone(), key: *key });
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_finds_what_was_wrong_and_nothing_else() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let guid = Guid::new(7);
        let event = |second, key, member| MembershipEvent { at: at(second), key, guid, member };
        let pod = |pod: &str, key, from, to| PodTenancy {
            pod: pod.into(),
            guid,
            key,
            from: at(from),
            to: Some(at(to)),
        };
        let events = [event(1, 5, true), event(5, 5, false), event(6, 6, true), event(9, 6, false)];
        assert_eq!(audit(&events, &[pod("a", 5, 2, 4), pod("b", 6, 7, 8)]), []);
        assert_eq!(
            audit(&events, &[pod("early", 5, 0, 4)]),
            [IsolationBreach::NotMember { pod: "early".into(), key: 5 }]
        );
        assert_eq!(
            audit(&events, &[pod("late", 5, 2, 6)]),
            [IsolationBreach::NotMember { pod: "late".into(), key: 5 }]
        );
        let reused = audit(&events, &[pod("reused", 6, 4, 8)]);
        assert!(
            reused.contains(&IsolationBreach::ForeignMember { pod: "reused".into(), key: 5 }),
            "{reused:?}"
        );
    }
}
