//! Hardware that changes is seen within a second, by the events that it sends.

use super::machine::SimulatedHostFixture;
use ferroband_kernel::{NetnsMode, RouteSocket, rtnetlink::LinkKind, rtnetlink::NewLink};
use ferroband_node::discover::{DiscoveryRoots, Inventory, watch_inventory};
use ferroband_sim::{Profile, SimPortState, SimulationChange};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// Runs `test` with the inventory of a machine that is kept current.
fn watching<F: Future<Output = ()>>(
    profile: Profile,
    test: impl FnOnce(Arc<SimulatedHostFixture>, watch::Receiver<Arc<Inventory>>) -> F,
) {
    let machine = Arc::new(SimulatedHostFixture::up(profile));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, mut seen) = watch::channel(Arc::default());
        let stop = CancellationToken::new();
        let sight = DiscoveryRoots::of_host(machine.hardware.as_ref());
        let watching = tokio::spawn(watch_inventory(sight, machine.hardware.clone(), sender, stop.clone()));
        seen.wait_for(|inventory| !inventory.devices.is_empty()).await.unwrap();
        test(machine, seen).await;
        stop.cancel();
        watching.await.unwrap().unwrap();
    });
}

/// Does `change` and waits a second for what it should show.
async fn within_a_second(
    machine: &SimulatedHostFixture,
    seen: &mut watch::Receiver<Arc<Inventory>>,
    change: SimulationChange,
    shown: impl FnMut(&Arc<Inventory>) -> bool,
) {
    let said = format!("{change:?}");
    machine.change(&change);
    let waited = timeout(SECOND, seen.wait_for(shown)).await;
    assert!(waited.is_ok(), "{said}: not seen within a second");
}

#[test]
fn what_comes_goes_and_changes_is_seen_within_a_second() {
    let dgx = Profile::builtin("dgx").unwrap();
    watching(dgx, async |machine, mut seen| {
        let device = || "mlx5_0".to_owned();
        let vfs = |count| SimulationChange::SetVfCount { device: device(), count };
        let devices = |count: usize| move |inventory: &Arc<Inventory>| inventory.devices.len() == count;
        within_a_second(&machine, &mut seen, vfs(16), devices(24)).await;
        within_a_second(&machine, &mut seen, vfs(4), devices(12)).await;
        within_a_second(&machine, &mut seen, SimulationChange::Unplug { device: device() }, devices(7)).await;
        within_a_second(&machine, &mut seen, SimulationChange::Replug { device: device() }, devices(8)).await;
        let state = |wanted: &'static str| {
            move |inventory: &Arc<Inventory>| {
                let found = inventory.devices.iter().find(|device| device.name == "mlx5_3").unwrap();
                found.ports[0].state == wanted
            }
        };
        let port = |state| SimulationChange::SetPortState { device: "mlx5_3".to_owned(), port: 1, state };
        within_a_second(&machine, &mut seen, port(SimPortState::Down), state("Down")).await;
        within_a_second(&machine, &mut seen, port(SimPortState::Active), state("Active")).await;
        machine.hardware.set_rdma_netns_mode(NetnsMode::Exclusive).unwrap();
        // There is no event for it: it is asked for every second.
        let exclusive = seen.wait_for(|inventory| inventory.exclusive == Some(true));
        timeout(3 * SECOND, exclusive).await.unwrap().unwrap();
    });
}

#[test]
fn the_interfaces_of_pods_do_not_make_the_node_look_again_and_again() {
    watching(Profile::default(), async |machine, mut seen| {
        seen.mark_unchanged();
        let mut route = RouteSocket::open().unwrap();
        let begin = Instant::now();
        while begin.elapsed() < SECOND {
            route.create_link(&NewLink::new("pod0", LinkKind::Veth { peer: "pod0p" })).unwrap();
            let link = route.link("pod0").unwrap().unwrap();
            route.delete_link(link.index).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!seen.has_changed().unwrap(), "nothing of the node's own has changed");
        let unplug = SimulationChange::Unplug { device: "mlx5_0".to_owned() };
        within_a_second(&machine, &mut seen, unplug, |inventory| inventory.devices.is_empty()).await;
    });
}
