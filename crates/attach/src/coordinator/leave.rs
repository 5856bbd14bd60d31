//! Taking the ways away, and looking whether they are there.

use super::{BACK, FIRST, POD_END, PRIORITY};
use crate::plan::CoordinatorStep;
use crate::{Error, Lock, Machine, Point};
use ferroband_kernel::route::Rule;
use ferroband_kernel::{Netns, Route, netfilter};

/// Take away what joining made. `wire` is the node's end of the wire, if this step made one.
pub(crate) fn leave(
    machine: &Machine<'_>,
    netns: Option<&Netns>,
    step: &CoordinatorStep,
    wire: Option<&str>,
) -> Result<(), Error> {
    let mut here = Route::here()?;
    if let Some(wire) = wire
        && let Some(link) = here.link(wire)?.filter(|link| link.kind.as_deref() == Some("veth"))
    {
        here.delete(link.index)?;
    }
    (machine.watch)(Point::Undone);
    // The rule serves all pods; the last one takes it away.
    let lock = Lock::take_stem(machine.root, "coordinator", machine.patience.lock)?;
    let routes = here.all_routes()?;
    for v6 in [false, true] {
        let used = routes.iter().any(|entry| {
            entry.route.table == Some(step.table) && entry.route.destination.addr().is_ipv6() == v6
        });
        if !used {
            here.remove_rule(&Rule { priority: Some(PRIORITY), ..Rule::all(v6, step.table) })?;
        }
    }
    lock.retire();
    // What is in the pod goes with its interfaces, but for the rules.
    if let Some(netns) = netns {
        if wire.is_some() {
            netfilter::forget_marks(netns)?;
        }
        let mut inside = Route::inside(netns)?;
        let ours = |rule: &&Rule| (BACK..FIRST + 120).contains(&rule.table);
        for rule in inside.rules()?.iter().filter(ours) {
            inside.remove_rule(rule)?;
        }
    }
    Ok(())
}

/// Fail if the wire of the step is not there any more.
pub(crate) fn check(inside: &mut Route, wire: Option<&str>) -> Result<(), Error> {
    let Some(wire) = wire else { return Ok(()) };
    let gone = |ifname: &str, place: &str| Error::NoInterface { ifname: ifname.into(), place: place.into() };
    inside.link(POD_END)?.ok_or_else(|| gone(POD_END, "the sandbox"))?;
    Route::here()?.link(wire)?.ok_or_else(|| gone(wire, "the host"))?;
    Ok(())
}
