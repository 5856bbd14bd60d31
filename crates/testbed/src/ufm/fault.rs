//! What goes wrong.

use std::time::Duration;

/// A fault that meets the next requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer takes this long.
    Slow(Duration),
    /// Nothing is done, and this status is the answer.
    Status(u16),
    /// Nothing is done, and the connection ends.
    Drop,
    /// It is done, but the connection ends before the answer.
    DoneThenDrop,
    /// It is done, but the answer takes this long.
    DoneThenSlow(Duration),
}

/// Faults that wait for requests whose path contains a text.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) path: String,
    pub(super) left: usize,
    pub(super) fault: Fault,
}

/// The fault that meets a request, if one does.
pub(super) fn meets(waiting: &mut Vec<Waiting>, request: &str) -> Option<Fault> {
    let position = waiting.iter().position(|one| request.contains(&one.path))?;
    let one = &mut waiting[position];
    one.left -= 1;
    let fault = one.fault.clone();
    if one.left == 0 {
        waiting.remove(position);
    }
    Some(fault)
}
