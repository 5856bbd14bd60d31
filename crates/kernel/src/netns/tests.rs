use super::*;

#[test]
fn current_namespace_has_an_id() {
    let netns = Netns::current().unwrap();
    assert_eq!(netns.id(), Netns::open("/proc/thread-self/ns/net").unwrap().id());
    let shown = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    assert_eq!(Path::new(&netns.id().to_string()), shown);
}

#[test]
fn missing_path_and_wrong_file_type_are_distinguished() {
    for path in ["", "/nonexistent/netns", "/proc/thread-self/ns/net/below"] {
        assert!(matches!(Netns::open(path), Err(Error::NoNetns { .. })), "{path:?}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let others = [file.path(), Path::new("/"), Path::new("/proc/thread-self/ns/mnt")];
    for path in others {
        assert!(matches!(Netns::open(path), Err(Error::NotNetns { .. })), "{}", path.display());
    }
}

#[test]
fn file_descriptor_must_be_a_network_namespace() {
    let good = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
    assert_eq!(Netns::from_fd(good.into()).unwrap().id(), Netns::current().unwrap().id());
    let bad = tempfile::tempfile().unwrap();
    assert!(matches!(Netns::from_fd(bad.into()), Err(Error::NotNetns { .. })));
}

#[test]
fn netns_id_round_trips_through_json() {
    let id = Netns::current().unwrap().id();
    let text = serde_json::to_string(&id).unwrap();
    assert_eq!(serde_json::from_str::<NetnsId>(&text).unwrap(), id);
}
