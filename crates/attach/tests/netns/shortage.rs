//! A full disk, and a sandbox that ends while it is being attached.

use crate::meta::{ETH0, config, set_up};
use crate::stage::{Stage, eventually, host, names};
use ferroband_attach::{Machine, Point, Role};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::cell::{Cell, RefCell};
use std::fs;

/// Put a disk of so many pages where our files are. In a mount namespace of this thread's own.
fn small_disk(stage: &Stage, pages: usize) {
    let folder = stage.root.state("");
    fs::create_dir_all(&folder).unwrap();
    let size = format!("size={}k,mode=700", 4 * pages);
    mount(Some("tmpfs"), &folder, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
}

#[test]
fn a_disk_that_is_full_at_any_write_leaves_nothing() {
    let (stage, daemon, pod) = set_up();
    unshare(CloneFlags::CLONE_NEWNS).expect("these tests need root");
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let (mut refused, mut done) = (0, 0);
    for pages in 1..=8 {
        small_disk(&stage, pages);
        match stage.run(Role::Ferroband, "ADD", ETH0, &pod.path, &config()) {
            Ok(_) => done += 1,
            Err(error) => {
                refused += 1;
                assert_eq!(error.code(), 5, "with {pages} pages: {error}");
                assert_eq!(pod.names(), [""; 0], "with {pages} pages");
            }
        }
        // A DEL on the same full disk.
        stage.run(Role::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
        assert_eq!((pod.names(), daemon.held()), (vec![], vec![]), "with {pages} pages");
        stage.assert_clean();
        umount2(&stage.root.state(""), MntFlags::MNT_DETACH).unwrap();
    }
    assert!(refused > 0 && done > 0, "refused {refused}, done {done}: the sizes do not test anything");
}

#[test]
fn a_disk_that_fills_while_a_sandbox_lives_does_not_stop_its_del() {
    let (stage, daemon, pod) = set_up();
    unshare(CloneFlags::CLONE_NEWNS).expect("these tests need root");
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    small_disk(&stage, 16);
    stage.run(Role::Ferroband, "ADD", ETH0, &pod.path, &config()).unwrap();
    let filler = stage.root.state("filler");
    // Until there is no room; what was written of it stays.
    fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    stage.run(Role::Ferroband, "DEL", ETH0, &pod.path, &config()).unwrap();
    assert_eq!((pod.names(), daemon.held()), (vec![], vec![]));
    fs::remove_file(filler).unwrap();
    stage.assert_clean();
    umount2(&stage.root.state(""), MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn a_sandbox_that_ends_at_any_point_of_its_add_leaves_nothing() {
    let mut point = 1;
    loop {
        let (stage, daemon, pod) = set_up();
        let path = pod.path.clone();
        let (passed, pod) = (Cell::new(0), RefCell::new(pod));
        let watch = |_: Point| {
            passed.set(passed.get() + 1);
            if passed.get() == point {
                pod.borrow_mut().end();
            }
        };
        let machine = Machine { watch: &watch, ..stage.machine() };
        let call = stage.call("ADD", "c1", "eth0", &path, &config());
        let added = stage.run_on(&machine, Role::Ferroband, &call);
        let ended = passed.get() >= point;
        stage.run(Role::Ferroband, "DEL", ETH0, &path, &config()).unwrap();
        assert_eq!(daemon.held(), [""; 0], "ended at point {point}");
        // The kernel takes its time to tear a namespace down, and the interfaces in it.
        eventually(|| !names(&host(&["link", "show"])).iter().any(|name| name.starts_with("peer")));
        stage.assert_clean();
        if !ended {
            added.unwrap();
            assert!(point > 8, "an ADD has more than {point} points");
            break;
        }
        point += 1;
    }
}
