//! What goes wrong.

use std::time::Duration;

/// A fault that meets the next requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The answer takes this long.
    Delay(Duration),
    /// Nothing is done, and this status is the answer.
    RespondWith(u16),
    /// Nothing is done, and the connection ends.
    Disconnect,
    /// It is done, but the connection ends before the answer.
    ApplyThenDisconnect,
    /// It is done, but the answer takes this long.
    ApplyThenDelay(Duration),
}

/// Faults that wait for requests whose path contains a text.
#[derive(Clone, Debug)]
pub(super) struct PendingFault {
    pub(super) path: String,
    pub(super) left: usize,
    pub(super) fault: InjectedFault,
}

/// The fault that meets a request, if one does.
pub(super) fn take_matching(waiting: &mut Vec<PendingFault>, request: &str) -> Option<InjectedFault> {
    let position = waiting.iter().position(|one| request.contains(&one.path))?;
    let one = &mut waiting[position];
    one.left -= 1;
    let fault = one.fault.clone();
    if one.left == 0 {
        waiting.remove(position);
    }
    Some(fault)
}
