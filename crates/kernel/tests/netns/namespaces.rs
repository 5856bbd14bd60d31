//! Tests of code and sockets in another network namespace.

use super::fixture::{create_veth, enter_new_netns, ip_link_names, new_netns};
use ferroband_kernel::{Error, Netns, RouteSocket};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

#[test]
fn work_runs_in_the_namespace_and_the_caller_does_not_move() {
    enter_new_netns();
    let host = Netns::current().unwrap();
    let pod = new_netns();
    assert_ne!(host.id(), pod.id());
    let inside = pod.run(|| Netns::current().unwrap().id()).unwrap();
    assert_eq!(inside, pod.id());
    assert_eq!(Netns::current().unwrap().id(), host.id());
}

#[test]
fn socket_keeps_the_namespace_in_which_it_was_opened() {
    enter_new_netns();
    let pod = new_netns();
    let mut inside = RouteSocket::open_in(&pod).unwrap();
    create_veth(&mut inside, "net1", "peer");
    assert_eq!(pod.run(ip_link_names).unwrap().len(), 2);
    assert!(ip_link_names().is_empty());
    assert_eq!(RouteSocket::open().unwrap().link("net1").unwrap(), None);
}

#[test]
fn panic_in_the_namespace_reaches_the_caller() {
    enter_new_netns();
    let pod = new_netns();
    let outcome = std::panic::catch_unwind(|| pod.run(|| panic!("on purpose")));
    assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
}

#[test]
fn mounted_namespace_is_opened_and_its_leftover_file_is_rejected() {
    enter_new_netns();
    let pod = new_netns();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cni-1");
    std::fs::write(&path, "").unwrap();
    let fd_path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pod.fd()));
    mount(Some(fd_path.as_str()), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    assert_eq!(Netns::open(&path).unwrap().id(), pod.id());
    umount2(&path, MntFlags::MNT_DETACH).unwrap();
    assert!(matches!(Netns::open(&path), Err(Error::NotNetns { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Netns::open(&path), Err(Error::NoNetns { .. })));
}
