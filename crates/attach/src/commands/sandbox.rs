//! Opening and identifying the pod's network namespace.

use crate::protocol::{Error, Invocation};
use crate::state::journal::Journal;
use ferroband_kernel::{Error as KernelError, Netns, Root, boot_id};

/// Open the namespace of an ADD or CHECK. It must exist and must not be the plugin's own network namespace.
pub(crate) fn open(call: &Invocation) -> Result<Netns, Error> {
    let path = call.netns.as_deref().unwrap_or_default();
    let netns = Netns::open(path)?;
    refuse_own(call, &netns)?;
    Ok(netns)
}

/// Fail if the sandbox is the plugin's own network namespace. This is checked before anything is changed, not
/// afterwards as in libcni's skel package.
fn refuse_own(call: &Invocation, netns: &Netns) -> Result<(), Error> {
    if !call.netns_override && netns.id() == Netns::current()?.id() {
        return Err(Error::OwnNamespace { path: call.netns.clone().unwrap_or_default() });
    }
    Ok(())
}

/// The namespace of a sandbox that is being deleted.
#[derive(Debug)]
pub(crate) struct SandboxState {
    /// The namespace, if it still exists.
    pub(crate) netns: Option<Netns>,
    /// Value of `CNI_NETNS` for foreign plugins; empty if the path must not be passed to them.
    pub(crate) cni_netns: String,
}

impl SandboxState {
    /// The sandbox of a DEL without a journal, from `CNI_NETNS`.
    pub(crate) fn from_call(call: &Invocation) -> Result<Self, Error> {
        let path = call.netns.clone().unwrap_or_default();
        match Netns::open(&path) {
            Ok(netns) => {
                refuse_own(call, &netns)?;
                Ok(Self { netns: Some(netns), cni_netns: path })
            }
            // Foreign plugins handle a path that does not exist, but not a path that is not a namespace.
            Err(KernelError::NoNetns { .. }) => Ok(Self { netns: None, cni_netns: path }),
            Err(_) => Ok(Self { netns: None, cni_netns: String::new() }),
        }
    }

    /// The sandbox of `journal`. The path of the call is tried first, then the path of the ADD. A path is
    /// used only if it still leads to the namespace of the ADD.
    pub(crate) fn from_journal(
        root: &Root,
        call: Option<&Invocation>,
        journal: &Journal,
    ) -> Result<Self, Error> {
        let of_call = call.map(Self::from_call).transpose()?;
        let cni_netns = match &of_call {
            // Do not pass another sandbox's namespace to this sandbox's plugins: keep the path only if it
            // leads nowhere.
            Some(sandbox) if sandbox.netns.is_none() => sandbox.cni_netns.clone(),
            _ => String::new(),
        };
        let same = |netns: &Netns| netns.id() == journal.netns_id;
        let same_boot = boot_id(root)? == journal.boot;
        let named = of_call.filter(|sandbox| same_boot && sandbox.netns.as_ref().is_some_and(same));
        if let Some(sandbox) = named {
            return Ok(sandbox);
        }
        match Netns::open(&journal.netns).ok().filter(same) {
            Some(netns) if same_boot => Ok(Self { netns: Some(netns), cni_netns: journal.netns.clone() }),
            _ => Ok(Self { netns: None, cni_netns }),
        }
    }
}
