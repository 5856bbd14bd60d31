//! Tests of events of simulated hardware.

use super::fixture::SimNodeFixture;
use ferroband_kernel::{HardwareEvent, HardwareWatch};
use ferroband_model::PciAddress;
use ferroband_sim::{SimPortState, Simulation, SimulationChange};
use std::time::{Duration, Instant};

/// Waits up to one second for an event. `expected` contains its action, its subsystem and the end of its
/// device path.
fn expect(watch: &mut HardwareWatch, expected: (&str, &str, &str)) {
    let until = Instant::now() + Duration::from_secs(1);
    let mut received = Vec::new();
    while let Some(event) = watch.wait(until.saturating_duration_since(Instant::now())).unwrap() {
        if let HardwareEvent::Device { action, subsystem, path } = &event
            && (action.as_str(), subsystem.as_str()) == (expected.0, expected.1)
            && path.ends_with(expected.2)
        {
            return;
        }
        received.push(event);
    }
    panic!("no event {expected:?} within a second, received {received:?}");
}

#[test]
fn hardware_changes_are_reported_within_a_second() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    let pf: PciAddress = "0000:86:00.0".parse().unwrap();
    node.run(|| {
        let mut watch = hardware.watch().unwrap();
        let mut second = hardware.watch().unwrap();
        assert_eq!(watch.wait(Duration::from_millis(20)).unwrap(), None, "earlier events are not reported");
        hardware.set_vf_count(pf, 1).unwrap();
        for watch in [&mut watch, &mut second] {
            expect(watch, ("add", "pci", "/0000:86:00.2"));
            expect(watch, ("add", "infiniband", "/infiniband/mlx5_1"));
            expect(watch, ("add", "infiniband_verbs", "/uverbs1"));
            expect(watch, ("add", "net", "/net/ibs5f0v0"));
            expect(watch, ("bind", "pci", "/0000:86:00.2"));
            expect(watch, ("change", "pci", "/0000:86:00.0"));
        }
        hardware.unbind_driver("0000:86:00.2".parse().unwrap()).unwrap();
        expect(&mut watch, ("remove", "net", "/net/ibs5f0v0"));
        expect(&mut watch, ("remove", "infiniband", "/mlx5_1"));
        expect(&mut watch, ("unbind", "pci", "/0000:86:00.2"));
        let port =
            SimulationChange::SetPortState { device: "mlx5_0".into(), port: 1, state: SimPortState::Down };
        Simulation::change(&node.root, &port).unwrap();
        expect(&mut watch, ("change", "infiniband", "/infiniband/mlx5_0"));
        Simulation::change(&node.root, &SimulationChange::Unplug { device: "mlx5_0".into() }).unwrap();
        expect(&mut watch, ("remove", "pci", "/0000:86:00.2"));
        expect(&mut watch, ("remove", "pci", "/0000:86:00.0"));
        Simulation::change(&node.root, &SimulationChange::Replug { device: "mlx5_0".into() }).unwrap();
        expect(&mut watch, ("bind", "pci", "/0000:86:00.0"));
        while watch.poll().unwrap().is_some() {}
        hardware.refresh().unwrap();
        assert_eq!(
            watch.wait(Duration::from_millis(20)).unwrap(),
            None,
            "refresh without a change reports nothing"
        );
    });
}

#[test]
fn restart_of_the_simulation_is_reported_as_lost_events() {
    let node = SimNodeFixture::with_simulation("node-1");
    let mut watch = node.run(|| node.hardware().watch()).unwrap();
    node.down().unwrap();
    node.up("node-2", None).unwrap();
    let mut lost = false;
    while let Some(event) = watch.wait(Duration::from_millis(500)).unwrap() {
        lost |= event == HardwareEvent::Lost;
    }
    assert!(lost);
    node.run(|| node.hardware().set_vf_count("0000:86:00.0".parse().unwrap(), 1)).unwrap();
    expect(&mut watch, ("add", "pci", "/0000:86:00.2"));
}

#[test]
fn rejected_change_is_not_reported() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| {
        let mut watch = hardware.watch().unwrap();
        hardware.set_vf_count("0000:86:00.0".parse().unwrap(), 99).unwrap_err();
        assert_eq!(watch.wait(Duration::from_millis(50)).unwrap(), None);
    });
}
