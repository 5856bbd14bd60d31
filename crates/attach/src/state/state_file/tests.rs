use super::*;
use crate::protocol::PluginType;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_written_file_is_read_back_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/journal/c1.json");
    assert_eq!(read::<Value>(&path).unwrap(), None);
    write(&path, &json!({"a": 1})).unwrap();
    write(&path, &json!({"a": 2})).unwrap();
    assert_eq!(read::<Value>(&path).unwrap(), Some(json!({"a": 2})));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(list(path.parent().unwrap()).unwrap(), [path]);
}

#[test]
fn remove_also_deletes_the_temporary_file_and_is_idempotent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c1.json");
    write(&path, &json!(1)).unwrap();
    fs::write(files::temporary_path(&path), "half").unwrap();
    assert_eq!(list(folder.path()).unwrap(), std::slice::from_ref(&path));
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    remove(&folder.path().join("absent/c1.json")).unwrap();
}

#[test]
fn a_truncated_file_is_corrupt_and_an_unreadable_one_is_an_io_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c1.json");
    for text in ["", "{\"a\":", "\0\0\0\0"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(read::<Value>(&path), Err(Error::CorruptFile { .. })), "{text:?}");
    }
    assert!(matches!(read::<Value>(folder.path()), Err(Error::File { .. })));
}

#[test]
fn a_failed_write_keeps_the_old_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c1.json");
    write(&path, &json!("old")).unwrap();
    fs::create_dir(files::temporary_path(&path)).unwrap();
    assert!(write(&path, &json!("new")).is_err());
    assert_eq!(read::<Value>(&path).unwrap(), Some(json!("old")));
}

const SHORT: Duration = Duration::from_millis(30);

fn id() -> AttachmentId {
    AttachmentId::new(PluginType::Ferroband, "c1", "eth0")
}

#[test]
fn a_second_caller_times_out_while_the_lock_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let held = Lock::acquire(&root, &id(), SHORT).unwrap();
    assert!(matches!(Lock::acquire(&root, &id(), SHORT), Err(Error::Locked { .. })));
    let other = AttachmentId::new(PluginType::Ipoib, "c1", "net1");
    Lock::acquire(&root, &other, SHORT).unwrap();
    drop(held);
    Lock::acquire(&root, &id(), SHORT).unwrap().release_and_remove();
    assert!(!lock_dir(&root).join("c1").exists());
}

#[test]
fn there_are_never_two_holders_even_when_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let holders = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let lock = Lock::acquire(&root, &id(), Duration::from_secs(30)).unwrap();
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    holders.fetch_sub(1, Ordering::SeqCst);
                    lock.release_and_remove();
                }
            });
        }
    });
}

#[test]
fn an_orphaned_plugin_keeps_the_lock_but_a_finished_call_frees_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let lock = Lock::acquire(&root, &id(), SHORT).unwrap();
    let guard = lock.inherit_to_children();
    let mut orphan = Command::new("sleep").arg("30").spawn().unwrap();
    drop(guard);
    // Simulate kill -9 of the call: no unlock runs, so the orphan's inherited descriptor must keep the
    // lock.
    let copy = lock.file.try_clone().unwrap();
    std::mem::forget(lock);
    assert!(matches!(Lock::acquire(&root, &id(), SHORT), Err(Error::Locked { .. })));
    copy.unlock().unwrap();
    Lock::acquire(&root, &id(), SHORT).unwrap();
    orphan.kill().unwrap();
    orphan.wait().unwrap();
}
