//! Working in another network namespace.

use super::fixture::{create_veth, enter_new_netns, ip_link_names, new_netns};
use ferroband_kernel::{Error, Netns, RouteSocket};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

#[test]
fn work_is_done_inside_and_the_caller_stays_outside() {
    enter_new_netns();
    let here = Netns::current().unwrap();
    let pod = new_netns();
    assert_ne!(here.id(), pod.id());
    let inside = pod.run(|| Netns::current().unwrap().id()).unwrap();
    assert_eq!(inside, pod.id());
    assert_eq!(Netns::current().unwrap().id(), here.id());
}

#[test]
fn a_socket_keeps_the_namespace_it_was_opened_in() {
    enter_new_netns();
    let pod = new_netns();
    let mut inside = RouteSocket::open_in(&pod).unwrap();
    create_veth(&mut inside, "net1", "peer");
    assert_eq!(pod.run(ip_link_names).unwrap().len(), 2);
    assert!(ip_link_names().is_empty());
    assert_eq!(RouteSocket::open().unwrap().link("net1").unwrap(), None);
}

#[test]
fn a_panic_inside_goes_on_outside() {
    enter_new_netns();
    let pod = new_netns();
    let outcome = std::panic::catch_unwind(|| pod.run(|| panic!("on purpose")));
    assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
}

#[test]
fn a_mounted_namespace_is_opened_by_its_path_and_its_leftover_file_is_not() {
    enter_new_netns();
    let pod = new_netns();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cni-1");
    std::fs::write(&path, "").unwrap();
    let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pod.fd()));
    mount(Some(held.as_str()), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    assert_eq!(Netns::open(&path).unwrap().id(), pod.id());
    umount2(&path, MntFlags::MNT_DETACH).unwrap();
    assert!(matches!(Netns::open(&path), Err(Error::NotNetns { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Netns::open(&path), Err(Error::NoNetns { .. })));
}
