//! Suppresses repeated events. The controllers run on every change and must not publish the same event each time.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

/// The message of the last event about each object, by UID.
#[derive(Debug, Default)]
pub struct LastEvents(Mutex<HashMap<String, String>>);

impl LastEvents {
    /// Records `text` and returns whether it differs from the message of the last event about the object.
    pub fn insert_if_new(&self, uid: &str, text: &str) -> bool {
        let mut messages = self.0.lock();
        messages.insert(uid.to_owned(), text.to_owned()).as_deref() != Some(text)
    }

    /// Forgets the last message about an object that has no problem any more, so that the next problem is
    /// published even if its message is the same.
    pub fn clear(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Forgets the messages about all objects that are not in `uids`, the UIDs of the objects that still
    /// exist.
    pub fn retain(&self, uids: &HashSet<String>) {
        self.0.lock().retain(|uid, _| uids.contains(uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_new_once_until_it_is_cleared() {
        let dedup = LastEvents::default();
        assert!(
            dedup.insert_if_new("u", "bad")
                && !dedup.insert_if_new("u", "bad")
                && dedup.insert_if_new("u", "worse")
        );
        dedup.clear("u");
        assert!(dedup.insert_if_new("u", "worse"));
        dedup.retain(&HashSet::new());
        assert!(dedup.insert_if_new("u", "worse"));
    }
}
