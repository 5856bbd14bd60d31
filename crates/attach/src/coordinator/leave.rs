//! Taking the ways away, and looking whether they are there.

use super::{FIRST_TABLE, HOST_RULE_PRIORITY, POD_VETH, RETURN_TABLE};
use crate::plan::CoordinatorStep;
use crate::{CniContext, Error, FailPoint, Lock};
use ferroband_kernel::rtnetlink::RoutingRule;
use ferroband_kernel::{Netns, RouteSocket, netfilter};

/// Take away what joining made. `wire` is the node's end of the wire, if this step made one.
pub(crate) fn teardown(
    machine: &CniContext<'_>,
    netns: Option<&Netns>,
    step: &CoordinatorStep,
    wire: Option<&str>,
) -> Result<(), Error> {
    let mut here = RouteSocket::open()?;
    if let Some(wire) = wire
        && let Some(link) = here.link(wire)?.filter(|link| link.kind.as_deref() == Some("veth"))
    {
        here.delete_link(link.index)?;
    }
    (machine.fail_point)(FailPoint::StepUndone);
    // The rule serves all pods; the last one takes it away.
    let lock = Lock::acquire_stem(machine.root, "coordinator", machine.timeouts.lock)?;
    let routes = here.all_routes()?;
    for v6 in [false, true] {
        let used = routes.iter().any(|entry| {
            entry.route.table == Some(step.host_rule_table) && entry.route.destination.addr().is_ipv6() == v6
        });
        if !used {
            here.remove_rule(&RoutingRule {
                priority: Some(HOST_RULE_PRIORITY),
                ..RoutingRule::for_family(v6, step.host_rule_table)
            })?;
        }
    }
    lock.release_and_remove();
    // What is in the pod goes with its interfaces, but for the rules.
    if let Some(netns) = netns {
        if wire.is_some() {
            netfilter::remove_connmark_rules(netns)?;
        }
        let mut inside = RouteSocket::open_in(netns)?;
        let ours = |rule: &&RoutingRule| (RETURN_TABLE..FIRST_TABLE + 120).contains(&rule.table);
        for rule in inside.rules()?.iter().filter(ours) {
            inside.remove_rule(rule)?;
        }
    }
    Ok(())
}

/// Fail if the wire of the step is not there any more.
pub(crate) fn check(inside: &mut RouteSocket, wire: Option<&str>) -> Result<(), Error> {
    let Some(wire) = wire else { return Ok(()) };
    let gone = |ifname: &str, place: &str| Error::NoInterface { ifname: ifname.into(), place: place.into() };
    inside.link(POD_VETH)?.ok_or_else(|| gone(POD_VETH, "the sandbox"))?;
    RouteSocket::open()?.link(wire)?.ok_or_else(|| gone(wire, "the host"))?;
    Ok(())
}
