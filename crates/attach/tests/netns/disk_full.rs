//! A full disk, and a sandbox whose namespace disappears during ADD.

use crate::coordinator;
use crate::fixture::{AttachFixture, PodNetnsFixture, host_ip, link_names, wait_until};
use crate::ib_sriov::NET1;
use crate::meta_plugin::{ETH0, config, set_up};
use crate::scripted_daemon::ScriptedDaemon;
use crate::sim_host::{self, SimHostFixture};
use ferroband_attach::{CniContext, FailPoint, PluginType};
use ferroband_kernel::NetnsMode;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::fs;
use std::path::Path;

/// Move the thread into its own mount namespace.
fn own_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).expect("these tests need root");
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
}

/// Mount a tmpfs of `pages` pages of 4 KiB each.
fn small_disk(folder: &Path, pages: usize) {
    fs::create_dir_all(folder).unwrap();
    let size = format!("size={}k,mode=700", 4 * pages);
    mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
}

/// Run ADD and DEL on disks of increasing size. If `fill` is set, the disk is filled before DEL. Neither a
/// failed ADD nor the DEL may change what `look` returns.
fn on_full_disks<T: PartialEq + Debug>(
    fixture: &AttachFixture,
    daemon: &ScriptedDaemon,
    pod: &PodNetnsFixture,
    fill: bool,
    look: impl Fn() -> T,
) {
    own_mounts();
    let before = look();
    let (mut refused, mut done) = (0, 0);
    for pages in 1..=8 {
        small_disk(&fixture.root.state(""), pages);
        match fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config()) {
            Ok(_) => done += 1,
            Err(error) => {
                refused += 1;
                assert_eq!(error.code(), 5, "with {pages} pages: {error}");
                assert_eq!(pod.link_names(), [""; 0], "with {pages} pages");
                assert_eq!(look(), before, "with {pages} pages");
            }
        }
        let filler = fixture.root.state("filler");
        if fill {
            fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
        }
        // DEL must succeed on the same disk.
        fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
        if fill {
            fs::remove_file(filler).unwrap();
        }
        assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]), "with {pages} pages");
        assert_eq!(look(), before, "with {pages} pages");
        umount2(&fixture.root.state(""), MntFlags::MNT_DETACH).unwrap();
    }
    assert!(
        refused > 0 && done > 0,
        "refused {refused}, done {done}: the disk sizes must cover both outcomes"
    );
}

#[test]
fn add_leaves_nothing_when_the_disk_is_full_at_any_write() {
    let (fixture, daemon, pod) = set_up();
    on_full_disks(&fixture, &daemon, &pod, false, || fixture.assert_clean());
}

#[test]
fn del_succeeds_when_the_disk_has_filled_since_add() {
    let (fixture, daemon, pod) = set_up();
    own_mounts();
    small_disk(&fixture.root.state(""), 16);
    fixture.run(PluginType::Ferroband, "ADD", ETH0, &pod.path, &config()).unwrap();
    let filler = fixture.root.state("filler");
    // Fill the disk. The write fails, but the partial file stays.
    fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    fixture.run(PluginType::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
    assert_eq!((pod.link_names(), daemon.held_containers()), (vec![], vec![]));
    fs::remove_file(filler).unwrap();
    fixture.assert_clean();
    umount2(&fixture.root.state(""), MntFlags::MNT_DETACH).unwrap();
}

/// ADD must leave the VF unchanged, whether the journal or the VF's lease does not fit on the disk.
#[test]
fn a_full_disk_leaves_the_vf_unchanged() {
    let host = SimHostFixture::new(NetnsMode::Exclusive);
    own_mounts();
    let pod = PodNetnsFixture::new();
    let config = sim_host::ib_sriov_config(json!({
        "rdmaIsolation": true, "link_state": "enable",
        "runtimeConfig": {"infinibandGUID": "01:23:45:67:89:ab:cd:ef"},
    }));
    let (before, devices) = (host.snapshot(), host.rdma_devices(None));
    let (mut refused, mut done) = (0, 0);
    for folder in ["journal", "device"].map(|name| host.root.state(name)) {
        for (pages, del_without_room) in (1..=4).flat_map(|pages| [(pages, false), (pages, true)]) {
            let tried = format!("{} of {pages} pages", folder.display());
            small_disk(&folder, pages);
            match host.run(PluginType::IbSriov, "ADD", NET1, &pod.path, &config) {
                Ok(_) => {
                    done += 1;
                    assert_eq!(
                        (pod.link_names(), host.rdma_devices(Some(&pod)).len()),
                        (vec!["net1".to_owned()], 1),
                        "{tried}"
                    );
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.code(), 5, "{tried}: {error}");
                    assert_eq!(
                        (pod.link_names(), host.rdma_devices(None)),
                        (vec![], devices.clone()),
                        "{tried}"
                    );
                }
            }
            let filler = folder.join("filler");
            if del_without_room {
                fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
            }
            host.run(PluginType::IbSriov, "DEL", NET1, &pod.path, &config).unwrap();
            if del_without_room {
                fs::remove_file(filler).unwrap();
            }
            assert_eq!((pod.link_names(), host.rdma_devices(None)), (vec![], devices.clone()), "{tried}");
            assert_eq!(host.snapshot(), before, "{tried}");
            umount2(&folder, MntFlags::MNT_DETACH).unwrap();
        }
    }
    assert!(
        refused > 0 && done > 0,
        "refused {refused}, done {done}: the disk sizes must cover both outcomes"
    );
}

#[test]
fn a_full_disk_leaves_no_coordinator_routes() {
    let (fixture, daemon, pod, _other) =
        coordinator::set_up(vec![coordinator::with_coordinator("eth0", json!({}))], &["172.91.0.7/16"]);
    let look = || {
        (
            host_ip(&["rule"]),
            host_ip(&["-4", "route", "show", "table", "all"]),
            link_names(&host_ip(&["link"])),
        )
    };
    on_full_disks(&fixture, &daemon, &pod, true, look);
}

#[test]
fn a_namespace_deleted_at_any_point_of_add_leaves_nothing() {
    let mut point = 1;
    loop {
        let (fixture, daemon, pod) = set_up();
        let path = pod.path.clone();
        let (passed, pod) = (Cell::new(0), RefCell::new(pod));
        let watch = |_: FailPoint| {
            passed.set(passed.get() + 1);
            if passed.get() == point {
                pod.borrow_mut().delete_netns();
            }
        };
        let context = CniContext { fail_point: &watch, ..fixture.context() };
        let call = fixture.call("ADD", "c1", "eth0", &path, &config());
        let added = fixture.run_on(&context, PluginType::Ferroband, &call);
        let ended = passed.get() >= point;
        fixture.run(PluginType::Ferroband, "DEL", ETH0, &path, &config()).unwrap();
        assert_eq!(daemon.held_containers(), [""; 0], "ended at point {point}");
        // The kernel deletes a namespace and its interfaces asynchronously.
        wait_until(|| !link_names(&host_ip(&["link", "show"])).iter().any(|name| name.starts_with("peer")));
        fixture.assert_clean();
        if !ended {
            added.unwrap();
            assert!(point > 8, "an ADD has more than {point} points");
            break;
        }
        point += 1;
    }
}
