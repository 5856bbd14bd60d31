use super::*;
use crate::ipc::message::{DaemonReply, DaemonRequest};
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

fn pair() -> (Channel, Channel) {
    let (left, right) = UnixStream::pair().unwrap();
    (left.into(), right.into())
}

#[test]
fn messages_arrive_complete_and_in_order() {
    let (mut cni, mut node) = pair();
    let release = DaemonRequest::Release { container: "c1".into(), ifname: Some("net1".into()) };
    cni.send(&release).unwrap();
    cni.send(&DaemonRequest::Status).unwrap();
    assert_eq!(node.recv::<DaemonRequest>().unwrap(), release);
    assert_eq!(node.recv::<DaemonRequest>().unwrap(), DaemonRequest::Status);
    node.send(&DaemonReply::Done).unwrap();
    assert_eq!(cni.recv::<DaemonReply>().unwrap(), DaemonReply::Done);
}

#[test]
fn a_file_descriptor_is_passed_with_close_on_exec() {
    let (mut cni, mut node) = pair();
    let namespace = File::open("/proc/thread-self/ns/net").unwrap();
    cni.send_with_fds(&json!("hello"), &[namespace.as_fd()]).unwrap();
    cni.send(&json!("again")).unwrap();
    let (text, fds) = node.recv_with_fds::<Value>().unwrap();
    let [fd] = fds.as_slice() else { panic!("{fds:?}") };
    assert_eq!(text, json!("hello"));
    let link = |fd: i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
    assert_eq!(link(fd.as_raw_fd()), link(namespace.as_raw_fd()));
    assert!(rustix::io::fcntl_getfd(fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    let (text, fds) = node.recv_with_fds::<Value>().unwrap();
    assert_eq!((text, fds.len()), (json!("again"), 0));
}

#[test]
fn a_message_larger_than_the_socket_buffer_is_delivered() {
    let (mut cni, mut node) = pair();
    let long = Value::String("x".repeat(3 << 20));
    let expected = long.clone();
    let reader = std::thread::spawn(move || node.recv::<Value>().unwrap());
    cni.send(&long).unwrap();
    assert_eq!(reader.join().unwrap(), expected);
}

#[test]
fn messages_that_are_too_long_are_rejected_on_both_sides() {
    let (mut cni, mut node) = pair();
    let long = Value::String("x".repeat(MAX_MESSAGE_LEN));
    assert!(matches!(cni.send(&long), Err(ChannelError::TooLong { .. })));
    cni.stream.write_all(&[0xff; 8]).unwrap();
    assert!(matches!(node.recv::<Value>(), Err(ChannelError::TooLong { .. })));
}

#[test]
fn a_closed_connection_differs_from_a_malformed_message() {
    let (cni, mut node) = pair();
    drop(cni);
    assert!(matches!(node.recv::<Value>(), Err(ChannelError::Closed)));

    let (mut cni, mut node) = pair();
    cni.stream.write_all(&[0, 0, 0, 9, b'{']).unwrap();
    drop(cni);
    assert!(matches!(node.recv::<Value>(), Err(ChannelError::Closed)));

    let (mut cni, mut node) = pair();
    cni.stream.write_all(&[0, 0, 0, 1, b'{']).unwrap();
    assert!(matches!(node.recv::<Value>(), Err(ChannelError::Malformed(_))));
}

#[test]
fn receiving_from_a_silent_peer_times_out() {
    let (cni, mut node) = pair();
    node.set_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(matches!(node.recv::<Value>(), Err(ChannelError::Socket(_))));
    drop(cni);
}

#[test]
fn the_peers_user_id_is_known() {
    let (cni, _node) = pair();
    assert_eq!(cni.peer_uid().unwrap(), nix::unistd::getuid().as_raw());
}
