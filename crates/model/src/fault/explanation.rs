//! What each code means, why it comes up and what to do: the tables behind `ferroband explain`, the book's list of
//! codes and nothing else. A test finds a code without its entry.

mod addresses;
mod configuration;
mod node;

use super::FaultCode;

/// What is to be known about a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What it says, in a sentence.
    pub meaning: &'static str,
    /// Why it comes up, the most frequent first.
    pub causes: &'static [&'static str],
    /// What to do, in the same order as far as they belong together.
    pub remedies: &'static [&'static str],
}

const fn explain(
    meaning: &'static str,
    causes: &'static [&'static str],
    remedies: &'static [&'static str],
) -> Explanation {
    Explanation { meaning, causes, remedies }
}

/// For a code that somebody forgot to explain; a test finds it.
const UNEXPLAINED: Explanation = explain("It has no explanation yet.", &[], &[]);

impl FaultCode {
    /// Whether the runtime is asked to try again: such a failure ends by itself when its cause is gone.
    pub fn is_retried(self) -> bool {
        self.cni_code() == 11
    }

    /// What it means, why, and what to do.
    pub fn explanation(self) -> Explanation {
        let mut all = TABLES.into_iter().flatten();
        all.find(|(code, _)| *code == self).map_or(UNEXPLAINED, |(_, explanation)| *explanation)
    }
}

/// By what they are about.
const TABLES: [&[(FaultCode, Explanation)]; 3] = [configuration::TABLE, addresses::TABLE, node::TABLE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_meaning_a_cause_and_a_remedy() {
        for code in FaultCode::all() {
            let explained = TABLES.into_iter().flatten().filter(|(other, _)| *other == code).count();
            assert_eq!(explained, 1, "{code:?}: add it to a table");
            let Explanation { meaning, causes, remedies } = code.explanation();
            assert!(meaning.ends_with('.') && meaning.len() > 20, "{code:?}: {meaning}");
            assert!(!causes.is_empty() && !remedies.is_empty(), "{code:?}");
            for clause in causes.iter().chain(remedies) {
                assert!(!clause.ends_with('.') && clause.len() > 10, "{code:?}: {clause}");
            }
        }
    }
}
