//! The pod's network namespace: the right one, or none.

use crate::journal::Journal;
use crate::{Error, Invocation};
use ferroband_kernel::{Error as KernelError, Netns, Root, boot_id};

/// The namespace that an ADD or CHECK names. It must exist and must not be our own.
pub(crate) fn open(call: &Invocation) -> Result<Netns, Error> {
    let path = call.netns.as_deref().unwrap_or_default();
    let netns = Netns::open(path)?;
    refuse_own(call, &netns)?;
    Ok(netns)
}

/// Before anything is touched, and not afterwards as libcni's skeleton does it.
fn refuse_own(call: &Invocation, netns: &Netns) -> Result<(), Error> {
    if !call.netns_override && netns.id() == Netns::current()?.id() {
        return Err(Error::OwnNamespace { path: call.netns.clone().unwrap_or_default() });
    }
    Ok(())
}

/// What is left of a sandbox that is being deleted.
#[derive(Debug)]
pub(crate) struct SandboxState {
    /// Its namespace, if it still exists.
    pub(crate) netns: Option<Netns>,
    /// What foreign plugins are told in `CNI_NETNS`.
    pub(crate) cni_netns: String,
}

impl SandboxState {
    /// What a DEL without a journal can go by.
    pub(crate) fn from_call(call: &Invocation) -> Result<Self, Error> {
        let path = call.netns.clone().unwrap_or_default();
        match Netns::open(&path) {
            Ok(netns) => {
                refuse_own(call, &netns)?;
                Ok(Self { netns: Some(netns), cni_netns: path })
            }
            // Plugins know what a missing path means, but not what to make of a plain file.
            Err(KernelError::NoNetns { .. }) => Ok(Self { netns: None, cni_netns: path }),
            Err(_) => Ok(Self { netns: None, cni_netns: String::new() }),
        }
    }

    /// What there is of the sandbox that `journal` is about: by the path of the call if there is one, else by
    /// that of the ADD, and only if the same namespace is there.
    pub(crate) fn from_journal(
        root: &Root,
        call: Option<&Invocation>,
        journal: &Journal,
    ) -> Result<Self, Error> {
        let of_call = call.map(Self::from_call).transpose()?;
        let told = match &of_call {
            // Another namespace at the same path is no business of this sandbox's plugins.
            Some(remains) if remains.netns.is_none() => remains.cni_netns.clone(),
            _ => String::new(),
        };
        let same = |netns: &Netns| netns.id() == journal.netns_id;
        let same_boot = boot_id(root)? == journal.boot;
        let named = of_call.filter(|remains| same_boot && remains.netns.as_ref().is_some_and(same));
        if let Some(remains) = named {
            return Ok(remains);
        }
        match Netns::open(&journal.netns).ok().filter(same) {
            Some(netns) if same_boot => Ok(Self { netns: Some(netns), cni_netns: journal.netns.clone() }),
            _ => Ok(Self { netns: None, cni_netns: told }),
        }
    }
}
