//! Tests that hardware changes are detected within a second through kernel events.

use super::simulated_host::SimulatedHostFixture;
use ferroband_kernel::{NetnsMode, RouteSocket, rtnetlink::LinkKind, rtnetlink::NewLink};
use ferroband_node::discover::{DiscoveryRoots, Inventory, watch_inventory};
use ferroband_sim::{Profile, SimPortState, SimulationChange};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::watch, time::timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Runs `test` with a simulated host and a channel that always contains the current inventory of that host.
fn with_current_inventory<F: Future<Output = ()>>(
    profile: Profile,
    test: impl FnOnce(Arc<SimulatedHostFixture>, watch::Receiver<Arc<Inventory>>) -> F,
) {
    let host = Arc::new(SimulatedHostFixture::up(profile));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, mut inventories) = watch::channel(Arc::default());
        let roots = DiscoveryRoots::of_host(host.hardware.as_ref());
        let watching = tokio::spawn(watch_inventory(roots, host.hardware.clone(), sender));
        inventories.wait_for(|inventory| !inventory.devices.is_empty()).await.unwrap();
        test(host, inventories).await;
        watching.abort();
    });
}

/// Applies `change` and asserts that an inventory with `condition` appears within a second.
async fn within_a_second(
    host: &SimulatedHostFixture,
    inventories: &mut watch::Receiver<Arc<Inventory>>,
    change: SimulationChange,
    condition: impl FnMut(&Arc<Inventory>) -> bool,
) {
    let description = format!("{change:?}");
    host.change(&change);
    let waited = timeout(SECOND, inventories.wait_for(condition)).await;
    assert!(waited.is_ok(), "{description}: not detected within a second");
}

#[test]
fn hardware_changes_are_detected_within_a_second() {
    let dgx = Profile::builtin("dgx").unwrap();
    with_current_inventory(dgx, async |host, mut inventories| {
        let device = || "mlx5_0".to_owned();
        let vfs = |count| SimulationChange::SetVfCount { device: device(), count };
        let devices = |count: usize| move |inventory: &Arc<Inventory>| inventory.devices.len() == count;
        within_a_second(&host, &mut inventories, vfs(16), devices(24)).await;
        within_a_second(&host, &mut inventories, vfs(4), devices(12)).await;
        within_a_second(&host, &mut inventories, SimulationChange::Unplug { device: device() }, devices(7))
            .await;
        within_a_second(&host, &mut inventories, SimulationChange::Replug { device: device() }, devices(8))
            .await;
        let state = |expected: &'static str| {
            move |inventory: &Arc<Inventory>| {
                let found = inventory.devices.iter().find(|device| device.name == "mlx5_3").unwrap();
                found.ports[0].state == expected
            }
        };
        let port = |state| SimulationChange::SetPortState { device: "mlx5_3".to_owned(), port: 1, state };
        within_a_second(&host, &mut inventories, port(SimPortState::Down), state("Down")).await;
        within_a_second(&host, &mut inventories, port(SimPortState::Active), state("Active")).await;
        host.hardware.set_rdma_netns_mode(NetnsMode::Exclusive).unwrap();
        // The kernel sends no event for a change of the mode, so the mode is polled every second.
        let exclusive = inventories.wait_for(|inventory| inventory.exclusive == Some(true));
        timeout(3 * SECOND, exclusive).await.unwrap().unwrap();
    });
}

#[test]
fn pod_interfaces_do_not_change_the_inventory() {
    with_current_inventory(Profile::default(), async |host, mut inventories| {
        inventories.mark_unchanged();
        let mut route = RouteSocket::open().unwrap();
        let begin = Instant::now();
        while begin.elapsed() < SECOND {
            route.create_link(&NewLink::new("pod0", LinkKind::Veth { peer: "pod0p" })).unwrap();
            let link = route.link("pod0").unwrap().unwrap();
            route.delete_link(link.index).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!inventories.has_changed().unwrap(), "the inventory has not changed");
        let unplug = SimulationChange::Unplug { device: "mlx5_0".to_owned() };
        within_a_second(&host, &mut inventories, unplug, |inventory| inventory.devices.is_empty()).await;
    });
}
