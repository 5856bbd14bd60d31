//! A full disk, and a sandbox that ends while it is being attached.

use crate::daemon::ScriptedDaemon;
use crate::functions::NET1;
use crate::meta::{ETH0, config, set_up};
use crate::rack::{self, SimHostFixture};
use crate::stage::{AttachFixture, PodNetnsFixture, host_ip, link_names, wait_until};
use crate::ways;
use ferroband_attach::{CniContext, FailPoint, PluginType};
use ferroband_kernel::NetnsMode;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::fs;
use std::path::Path;

/// From here on this thread's mounts are its own.
fn own_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).expect("these tests need root");
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
}

/// Put a disk of so many pages there.
fn small_disk(folder: &Path, pages: usize) {
    fs::create_dir_all(folder).unwrap();
    let size = format!("size={}k,mode=700", 4 * pages);
    mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
}

/// An ADD and a DEL on disks of all sizes from too small on, the DEL without any room left if `fill`. Whatever is refused
/// leaves what `look` sees as it was, and so does the DEL.
fn on_full_disks<T: PartialEq + Debug>(
    stage: &AttachFixture,
    daemon: &ScriptedDaemon,
    pod: &PodNetnsFixture,
    fill: bool,
    look: impl Fn() -> T,
) {
    own_mounts();
    let before = look();
    let (mut refused, mut done) = (0, 0);
    for pages in 1..=8 {
        small_disk(&stage.root.state(""), pages);
        match stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config()) {
            Ok(_) => done += 1,
            Err(error) => {
                refused += 1;
                assert_eq!(error.code(), 5, "with {pages} pages: {error}");
                assert_eq!(pod.link_names(), [""; 0], "with {pages} pages");
                assert_eq!(look(), before, "with {pages} pages");
            }
        }
        let filler = stage.root.state("filler");
        if fill {
            fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
        }
        // A DEL on the same full disk.
        stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
        if fill {
            fs::remove_file(filler).unwrap();
        }
        assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]), "with {pages} pages");
        assert_eq!(look(), before, "with {pages} pages");
        umount2(&stage.root.state(""), MntFlags::MNT_DETACH).unwrap();
    }
    assert!(refused > 0 && done > 0, "refused {refused}, done {done}: the sizes do not test anything");
}

#[test]
fn a_disk_that_is_full_at_any_write_leaves_nothing() {
    let (stage, daemon, pod) = set_up();
    on_full_disks(&stage, &daemon, &pod, false, || stage.assert_clean());
}

#[test]
fn a_disk_that_fills_while_a_sandbox_lives_does_not_stop_its_del() {
    let (stage, daemon, pod) = set_up();
    own_mounts();
    small_disk(&stage.root.state(""), 16);
    stage.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config()).unwrap();
    let filler = stage.root.state("filler");
    // Until there is no room; what was written of it stays.
    fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    stage.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    fs::remove_file(filler).unwrap();
    stage.assert_clean();
    umount2(&stage.root.state(""), MntFlags::MNT_DETACH).unwrap();
}

/// The journal, and the record that a function itself has: either may find no room.
#[test]
fn a_disk_that_is_full_leaves_a_function_as_it_was() {
    let rack = SimHostFixture::new(NetnsMode::Exclusive);
    own_mounts();
    let pod = PodNetnsFixture::new();
    let config = rack::ib_sriov_config(json!({
        "rdmaIsolation": true, "link_state": "enable",
        "runtimeConfig": {"infinibandGUID": "01:23:45:67:89:ab:cd:ef"},
    }));
    let (before, devices) = (rack.snapshot(), rack.rdma_devices(None));
    let (mut refused, mut done) = (0, 0);
    for folder in ["journal", "device"].map(|name| rack.root.state(name)) {
        for (pages, del_without_room) in (1..=4).flat_map(|pages| [(pages, false), (pages, true)]) {
            let tried = format!("{} of {pages} pages", folder.display());
            small_disk(&folder, pages);
            match rack.run(PluginType::IbSriov, "ADD", NET1, &pod.path, &config) {
                Ok(_) => {
                    done += 1;
                    assert_eq!(
                        (pod.link_names(), rack.rdma_devices(Some(&pod)).len()),
                        (vec!["net1".to_owned()], 1),
                        "{tried}"
                    );
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.code(), 5, "{tried}: {error}");
                    assert_eq!(
                        (pod.link_names(), rack.rdma_devices(None)),
                        (vec![], devices.clone()),
                        "{tried}"
                    );
                }
            }
            let filler = folder.join("filler");
            if del_without_room {
                fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
            }
            rack.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &config).unwrap();
            if del_without_room {
                fs::remove_file(filler).unwrap();
            }
            assert_eq!((pod.link_names(), rack.rdma_devices(None)), (vec![], devices.clone()), "{tried}");
            assert_eq!(rack.snapshot(), before, "{tried}");
            umount2(&folder, MntFlags::MNT_DETACH).unwrap();
        }
    }
    assert!(refused > 0 && done > 0, "refused {refused}, done {done}: the sizes do not test anything");
}

#[test]
fn a_disk_that_is_full_leaves_no_way_to_the_node() {
    let (stage, daemon, pod, _other) =
        ways::set_up(vec![ways::with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    let look = || {
        (
            host_ip(&["rule"]),
            host_ip(&["-4", "route", "show", "table", "all"]),
            link_names(&host_ip(&["link"])),
        )
    };
    on_full_disks(&stage, &daemon, &pod, true, look);
}

#[test]
fn a_sandbox_that_ends_at_any_point_of_its_add_leaves_nothing() {
    let mut point = 1;
    loop {
        let (stage, daemon, pod) = set_up();
        let path = pod.path.clone();
        let (passed, pod) = (Cell::new(0), RefCell::new(pod));
        let watch = |_: FailPoint| {
            passed.set(passed.get() + 1);
            if passed.get() == point {
                pod.borrow_mut().delete_netns();
            }
        };
        let machine = CniContext { fail_point: &watch, ..stage.context() };
        let call = stage.call("ADD", "c1", "eth0", &path, &config());
        let added = stage.run_on(&machine, PluginType::Ferroband, &call);
        let ended = passed.get() >= point;
        stage.run(PluginType::Ferroband, "DEL", ETH0, &path, &config()).unwrap();
        assert_eq!(daemon.held_containers(), [""; 0], "ended at point {point}");
        // The kernel takes its time to tear a namespace down, and the interfaces in it.
        wait_until(|| !link_names(&host_ip(&["link", "show"])).iter().any(|name| name.starts_with("peer")));
        stage.assert_clean();
        if !ended {
            added.unwrap();
            assert!(point > 8, "an ADD has more than {point} points");
            break;
        }
        point += 1;
    }
}
