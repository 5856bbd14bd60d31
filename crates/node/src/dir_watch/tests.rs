use super::*;
use std::fs;

#[tokio::test]
async fn new_files_and_removal_of_the_directory_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("watched");
    assert!(WatchedDir::watch(&path).is_none());
    fs::create_dir(&path).unwrap();
    let mut folder = WatchedDir::watch(&path).unwrap();

    fs::write(path.join("a"), "").unwrap();
    assert!(folder.changed().await);
    fs::remove_dir_all(&path).unwrap();
    let end = time::timeout(Duration::from_secs(5), async { while folder.changed().await {} });
    end.await.expect("removal of the directory is reported");
}

#[tokio::test]
async fn directory_created_later_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later");
    let waiting = tokio::spawn({
        let path = path.clone();
        async move { WatchedDir::watch_when_present(&path).await }
    });
    time::sleep(Duration::from_millis(50)).await;
    fs::create_dir(&path).unwrap();
    let mut folder = waiting.await.unwrap();
    fs::write(path.join("a"), "").unwrap();
    assert!(folder.changed().await);
}

#[tokio::test]
async fn listeners_of_one_directory_share_a_single_inotify_instance() {
    let dir = tempfile::tempdir().unwrap();
    let (first, mut second) =
        (WatchedDir::watch(dir.path()).unwrap(), WatchedDir::watch(dir.path()).unwrap());
    drop(first);
    fs::write(dir.path().join("a"), "").unwrap();
    assert!(second.changed().await, "dropping one listener does not end the other");
    let mut third = WatchedDir::watch(dir.path()).unwrap();
    drop(second);
    fs::write(dir.path().join("b"), "").unwrap();
    assert!(third.changed().await);
    let instances = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = instances.filter_map(|fd| fs::read_link(fd.path()).ok());
    assert_eq!(links.filter(|link| link.to_string_lossy().contains("inotify")).count(), 1);
}

fn without_inotify(path: &Path) -> Option<WatchedDir> {
    WatchedDir::watch_with(path, Err(io::Error::from_raw_os_error(nix::errno::Errno::EMFILE as i32)))
}

#[tokio::test]
async fn without_inotify_a_directory_is_polled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("watched");
    assert!(without_inotify(&path).is_none());
    fs::create_dir(&path).unwrap();
    let mut folder = without_inotify(&path).unwrap();
    assert!(matches!(folder, WatchedDir::Polled(_)));

    fs::write(path.join("a"), "").unwrap();
    assert!(folder.changed().await, "a file was created");
    fs::write(path.join("a"), "longer").unwrap();
    assert!(folder.changed().await, "a file was written");
    fs::rename(path.join("a"), path.join("b")).unwrap();
    assert!(folder.changed().await, "a file was renamed");
    time::timeout(Duration::from_millis(10), folder.changed()).await.expect_err("nothing changed");

    // A caller that gives up early must not postpone the next look for ever.
    fs::remove_file(path.join("b")).unwrap();
    let looks = async { while time::timeout(Duration::from_millis(10), folder.changed()).await.is_err() {} };
    time::timeout(Duration::from_secs(10), looks).await.expect("a file was removed");

    fs::rename(&path, dir.path().join("old")).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!folder.changed().await, "the directory was replaced");
}
