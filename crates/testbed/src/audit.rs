//! Checks after a test whether any pod violated partition isolation.

use crate::ufm::MembershipEvent;
use ferroband_model::Guid;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

/// The time during which a pod had a virtual function.
#[derive(Clone, Debug)]
pub struct PodTenancy {
    pub pod: String,
    /// GUID of the virtual function.
    pub guid: Guid,
    /// P_Key of the requested partition, without the membership bit.
    pub key: u16,
    /// When the pod could use the interface.
    pub from: Instant,
    /// When the sandbox was known to be deleted; `None` if it still exists.
    pub to: Option<Instant>,
}

/// A violation of partition isolation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsolationBreach {
    /// A pod ran while its GUID was not a member of its partition.
    NotMember { pod: String, key: u16 },
    /// A pod ran while its GUID was a member of another partition.
    ForeignMember { pod: String, key: u16 },
}

impl fmt::Display for IsolationBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMember { pod, key } => {
                write!(f, "{pod} ran without membership in its partition {key:#06x}")
            }
            Self::ForeignMember { pod, key } => {
                write!(f, "{pod} ran with membership in partition {key:#06x} of another pod")
            }
        }
    }
}

/// Compares the membership log of a UFM with the times at which pods had virtual functions.
pub fn audit(events: &[MembershipEvent], tenancies: &[PodTenancy]) -> Vec<IsolationBreach> {
    let mut times: BTreeMap<(u16, Guid), Vec<(Instant, bool)>> = BTreeMap::new();
    for event in events {
        times.entry((event.key, event.guid)).or_default().push((event.at, event.member));
    }
    let end = Instant::now();
    let mut breaches = Vec::new();
    for tenancy in tenancies {
        let to = tenancy.to.unwrap_or(end);
        let own_changes = times.get(&(tenancy.key, tenancy.guid)).map_or(&[][..], Vec::as_slice);
        let at_start =
            own_changes.iter().rev().find(|(at, _)| *at <= tenancy.from).is_some_and(|(_, member)| *member);
        let lost = own_changes.iter().any(|(at, member)| !member && *at > tenancy.from && *at < to);
        if !at_start || lost {
            breaches.push(IsolationBreach::NotMember { pod: tenancy.pod.clone(), key: tenancy.key });
        }
        for ((key, guid), changes) in &times {
            if *guid != tenancy.guid || *key == tenancy.key {
                continue;
            }
            let at_start =
                changes.iter().rev().find(|(at, _)| *at <= tenancy.from).is_some_and(|(_, member)| *member);
            let added = changes.iter().any(|(at, member)| *member && *at > tenancy.from && *at < to);
            if at_start || added {
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
    fn audit_reports_breaches_and_nothing_else() {
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
