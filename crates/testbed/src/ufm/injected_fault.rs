//! Faults that tests inject into the simulated UFM.

use std::time::Duration;

/// How the simulated UFM mishandles a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Delay the response.
    Delay(Duration),
    /// Respond with this status without processing the request.
    RespondWith(u16),
    /// Respond with status 200 and this body, without processing the request.
    RespondWithBody(String),
    /// Close the connection without processing the request.
    Disconnect,
    /// Process the request, then close the connection without a response.
    ApplyThenDisconnect,
    /// Process the request, then delay the response.
    ApplyThenDelay(Duration),
}

/// A fault for the next `left` requests whose method and path contain `path`.
#[derive(Clone, Debug)]
pub(super) struct PendingFault {
    pub(super) path: String,
    pub(super) left: usize,
    pub(super) fault: InjectedFault,
}

/// Returns the fault to apply to `request`, if any, and decrements `left` of that fault.
pub(super) fn take_matching(pending: &mut Vec<PendingFault>, request: &str) -> Option<InjectedFault> {
    let position = pending.iter().position(|entry| request.contains(&entry.path))?;
    let entry = &mut pending[position];
    entry.left -= 1;
    let fault = entry.fault.clone();
    if entry.left == 0 {
        pending.remove(position);
    }
    Some(fault)
}
