//! Decides whether an answer of the subnet manager is believed. A subnet manager that restarts, or one that someone else
//! controls, may list too little. If that were believed at once, members would be added again or forgotten.

use crate::{MembershipTable, RequestedPKey};
use ferroband_model::Guid;
use std::collections::BTreeSet;

/// Number of members that an answer may drop without being doubted, and their share of all members in percent. Both must
/// be exceeded.
const MAX_DROPPED: (usize, usize) = (20, 10);

/// Why an answer is not believed until the next one says the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DoubtfulAnswer {
    #[error(
        "the subnet manager's answer does not contain the default partition 0x7fff; waiting for the next answer"
    )]
    NoDefaultPartition,
    #[error(
        "the subnet manager's answer lacks {dropped} of {known} known partition members; waiting for the next answer"
    )]
    MembersDropped { dropped: usize, known: usize },
}

/// What the previous answer lacked.
#[derive(Debug, Default)]
pub(crate) struct AnswerCheck {
    lacked_default: bool,
    dropped: BTreeSet<(RequestedPKey, Guid)>,
}

impl AnswerCheck {
    /// Compares an answer with the members that are known. Returns why it is doubtful. What the previous answer lacked
    /// as well is not doubted again.
    pub fn doubt(
        &mut self,
        known: Option<&MembershipTable>,
        answer: &MembershipTable,
        lacks_default: bool,
    ) -> Option<DoubtfulAnswer> {
        let lacked_before = std::mem::replace(&mut self.lacked_default, lacks_default);
        let members = known.into_iter().flat_map(MembershipTable::iter).map(|(key, guid, _)| (key, guid));
        let dropped: BTreeSet<_> = members.filter(|(key, guid)| answer.get(*key, *guid).is_none()).collect();
        let known = known.map_or(0, MembershipTable::len);
        let news = dropped.difference(&self.dropped).count();
        let doubt = if lacks_default && !lacked_before {
            Some(DoubtfulAnswer::NoDefaultPartition)
        } else if news > MAX_DROPPED.0 && news.saturating_mul(100) > known.saturating_mul(MAX_DROPPED.1) {
            Some(DoubtfulAnswer::MembersDropped { dropped: dropped.len(), known })
        } else {
            None
        };
        self.dropped = if doubt.is_some() { dropped } else { BTreeSet::new() };
        doubt
    }
}
