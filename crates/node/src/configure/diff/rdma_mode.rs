//! Plans the RDMA namespace mode, at runtime and for the next boot.

use super::NodeDiff;
use crate::configure::{Action, DesiredNodeConfig, ObservedNode, Wait, WaitingAction};

pub(super) fn diff_rdma_mode(desired: &DesiredNodeConfig, observed: &ObservedNode, diff: &mut NodeDiff) {
    let written = observed.modprobe_options.as_deref();
    let Some(mode) = desired.rdma_mode else {
        // The spec sets no RDMA namespace mode. Remove Ferroband's options, so that the next boot uses the
        // administrator's.
        diff.actions.extend(written.map(|_| Action::RemoveModprobeOptions));
        return;
    };
    // A kernel without RDMA has no RDMA namespace mode. That is no error, because the other settings still apply.
    let Some(current) = observed.rdma_mode else { return };
    let options = format!("options ib_core netns_mode={}\n", mode.number());
    // A node that already has the desired mode is not changed.
    if written != Some(&options) && (current != mode || written.is_some()) {
        diff.actions.push(Action::WriteModprobeOptions { options });
    }
    if current == mode {
        return;
    }
    let action = Action::SetRdmaMode { mode };
    if observed.refused.contains(&action) {
        diff.reboot.push(action.to_string());
        diff.waiting.push(WaitingAction { action, wait: Wait::Reboot });
    } else {
        diff.actions.push(action);
    }
}
