//! Removing and checking the routes between pod and node.

use super::host_routes::host_rule;
use super::{FIRST_TABLE, POD_VETH, RETURN_TABLE};
use crate::protocol::{CniContext, Error, FailPoint};
use crate::state::Lock;
use ferroband_config::CoordinatorConfig;
use ferroband_kernel::rtnetlink::RoutingRule;
use ferroband_kernel::{Netns, RouteSocket, netfilter};

/// Remove the veth pair, routes and rules that the setup created. `veth` is the node's end of the veth pair,
/// if this step created one.
pub(crate) fn teardown(
    context: &CniContext<'_>,
    netns: Option<&Netns>,
    step: &CoordinatorConfig,
    veth: Option<&str>,
) -> Result<(), Error> {
    let mut host_netlink = RouteSocket::open()?;
    if let Some(veth) = veth
        && let Some(link) = host_netlink.link(veth)?.filter(|link| link.kind.as_deref() == Some("veth"))
    {
        host_netlink.delete_link(link.index)?;
    }
    (context.fail_point)(FailPoint::StepUndone);
    // All pods share one policy routing rule of the node. Remove it when its table has no route to a pod any
    // more.
    let lock = Lock::acquire_stem(context.root, "coordinator", context.timeouts.lock)?;
    let routes = host_netlink.all_routes()?;
    for v6 in [false, true] {
        let used = routes.iter().any(|entry| {
            entry.route.table == Some(step.host_rule_table) && entry.route.destination.addr().is_ipv6() == v6
        });
        if !used {
            host_netlink.remove_rule(&host_rule(v6, step.host_rule_table))?;
        }
    }
    lock.release_and_remove();
    // In the pod, routes and the veth disappear with the interfaces. Only the rules must be removed.
    if let Some(netns) = netns {
        if veth.is_some() {
            netfilter::remove_connmark_rules(netns)?;
        }
        let mut pod_netlink = RouteSocket::open_in(netns)?;
        let is_match = |rule: &&RoutingRule| (RETURN_TABLE..FIRST_TABLE + 120).contains(&rule.table);
        for rule in pod_netlink.rules()?.iter().filter(is_match) {
            pod_netlink.remove_rule(rule)?;
        }
    }
    Ok(())
}

/// Fail if the veth pair of the step is missing.
pub(crate) fn check(pod_netlink: &mut RouteSocket, veth: Option<&str>) -> Result<(), Error> {
    let Some(veth) = veth else { return Ok(()) };
    let gone = |ifname: &str, place: &str| Error::NoInterface { ifname: ifname.into(), place: place.into() };
    pod_netlink.link(POD_VETH)?.ok_or_else(|| gone(POD_VETH, "the sandbox"))?;
    RouteSocket::open()?.link(veth)?.ok_or_else(|| gone(veth, "the host"))?;
    Ok(())
}
