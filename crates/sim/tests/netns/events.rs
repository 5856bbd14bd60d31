//! Changes of simulated hardware, as whoever watches hears them.

use super::fixture::SimNodeFixture;
use ferroband_kernel::{HardwareEvent as Heard, HardwareWatch};
use ferroband_model::PciAddress;
use ferroband_sim::{SimPortState, Simulation, SimulationChange};
use std::time::{Duration, Instant};

/// Waits for a change to a device: action, subsystem and the end of its path.
fn expect(watch: &mut HardwareWatch, wanted: (&str, &str, &str)) {
    let until = Instant::now() + Duration::from_secs(1);
    let mut heard = Vec::new();
    while let Some(change) = watch.wait(until.saturating_duration_since(Instant::now())).unwrap() {
        if let Heard::Device { action, subsystem, path } = &change
            && (action.as_str(), subsystem.as_str()) == (wanted.0, wanted.1)
            && path.ends_with(wanted.2)
        {
            return;
        }
        heard.push(change);
    }
    panic!("nobody said {wanted:?} within a second, but {heard:?}");
}

#[test]
fn everything_is_heard_within_a_second() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    let pf: PciAddress = "0000:86:00.0".parse().unwrap();
    node.run(|| {
        let mut watch = hardware.watch().unwrap();
        let mut second = hardware.watch().unwrap();
        assert_eq!(watch.wait(Duration::from_millis(20)).unwrap(), None, "not what was before");
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
        assert_eq!(watch.wait(Duration::from_millis(20)).unwrap(), None, "a look is not a change");
    });
}

#[test]
fn a_new_beginning_is_a_loss() {
    let node = SimNodeFixture::with_simulation("node-1");
    let mut watch = node.run(|| node.hardware().watch()).unwrap();
    node.down().unwrap();
    node.up("node-2", None).unwrap();
    let mut lost = false;
    while let Some(change) = watch.wait(Duration::from_millis(500)).unwrap() {
        lost |= change == Heard::Lost;
    }
    assert!(lost);
    node.run(|| node.hardware().set_vf_count("0000:86:00.0".parse().unwrap(), 1)).unwrap();
    expect(&mut watch, ("add", "pci", "/0000:86:00.2"));
}

#[test]
fn a_change_that_was_refused_is_not_told() {
    let node = SimNodeFixture::with_simulation("node-1");
    let hardware = node.hardware();
    node.run(|| {
        let mut watch = hardware.watch().unwrap();
        hardware.set_vf_count("0000:86:00.0".parse().unwrap(), 99).unwrap_err();
        assert_eq!(watch.wait(Duration::from_millis(50)).unwrap(), None);
    });
}
