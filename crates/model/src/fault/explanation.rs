//! Meaning, causes and remedies of each code, for `ferroband explain` and the reference documentation. A test fails for
//! a code without an entry.

mod addresses;
mod configuration;
mod node;

use super::FaultCode;

/// What a code means and what users can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What the code means, in one sentence.
    pub meaning: &'static str,
    /// Causes, most frequent first.
    pub causes: &'static [&'static str],
    /// Remedies, in the order of the causes where they correspond.
    pub remedies: &'static [&'static str],
}

const fn explain(
    meaning: &'static str,
    causes: &'static [&'static str],
    remedies: &'static [&'static str],
) -> Explanation {
    Explanation { meaning, causes, remedies }
}

/// Placeholder for a code without an entry; a test fails in that case.
const UNEXPLAINED: Explanation = explain("This code has no explanation yet.", &[], &[]);

impl FaultCode {
    /// Whether the container runtime should try again later (CNI code 11), because the failure is temporary.
    pub fn is_retried(self) -> bool {
        self.cni_code() == 11
    }

    /// Returns the meaning, causes and remedies of this code.
    pub fn explanation(self) -> Explanation {
        let mut all = TABLES.into_iter().flatten();
        all.find(|(code, _)| *code == self).map_or(UNEXPLAINED, |(_, explanation)| *explanation)
    }
}

/// One table per subject. `FaultCode::explanation` searches all of them.
const TABLES: [&[(FaultCode, Explanation)]; 3] = [configuration::TABLE, addresses::TABLE, node::TABLE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_without_a_pkey_is_explained_by_a_subnet_manager_that_is_down() {
        let Explanation { causes, remedies, .. } = FaultCode::PortNotReady.explanation();
        assert!(causes.iter().any(|cause| cause.contains("UFM") && cause.contains("down")), "{causes:?}");
        assert!(remedies.iter().any(|remedy| remedy.contains("ferroband doctor")), "{remedies:?}");
    }

    #[test]
    fn every_code_has_a_meaning_a_cause_and_a_remedy() {
        for code in FaultCode::ALL {
            let entries: Vec<Explanation> =
                TABLES.into_iter().flatten().filter(|(other, _)| *other == code).map(|(_, e)| *e).collect();
            assert_eq!(entries, [code.explanation()], "{code:?}: it must be in one table, once");
            let Explanation { meaning, causes, remedies } = code.explanation();
            assert!(meaning.ends_with('.') && meaning.len() > 20, "{code:?}: {meaning}");
            assert!(!causes.is_empty() && !remedies.is_empty(), "{code:?}");
            for clause in causes.iter().chain(remedies) {
                assert!(!clause.ends_with('.') && clause.len() > 10, "{code:?}: {clause}");
            }
        }
    }
}
