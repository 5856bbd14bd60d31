//! What was said about objects already: a pass is made at every change, and says nothing twice.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// The last thing said about each object, by UID.
#[derive(Debug, Default)]
pub struct NetworkEventDedup(Mutex<HashMap<String, String>>);

impl NetworkEventDedup {
    /// Whether `text` is news about the object.
    pub fn insert_if_new(&self, uid: &str, text: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(uid.to_owned(), text.to_owned()).as_deref() != Some(text)
    }

    /// All is well with the object now.
    pub fn clear(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Forget all but these.
    pub fn retain(&self, uids: &HashSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| uids.contains(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_until_all_is_well_again() {
        let told = NetworkEventDedup::default();
        assert!(
            told.insert_if_new("u", "bad")
                && !told.insert_if_new("u", "bad")
                && told.insert_if_new("u", "worse")
        );
        told.clear("u");
        assert!(told.insert_if_new("u", "worse"));
        told.retain(&HashSet::new());
        assert!(told.insert_if_new("u", "worse"));
    }
}
