use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn default_root_is_the_file_system_root() {
    let root = Root::default();
    assert_eq!(root.path("etc/cni"), Path::new("/etc/cni"));
    assert_eq!(root.path("/etc/cni"), Path::new("/etc/cni"));
    assert_eq!(root.sys("class/net"), Path::new("/sys/class/net"));
    assert_eq!(root.dev("infiniband"), Path::new("/dev/infiniband"));
    assert_eq!(root.proc_("sys/net"), Path::new("/proc/sys/net"));
    assert_eq!(root.run("ferroband"), Path::new("/run/ferroband"));
    assert_eq!(root.state("journal"), Path::new("/var/lib/ferroband/journal"));
}

#[test]
fn absolute_paths_stay_below_the_root() {
    assert_eq!(Root::at("/host").path("/etc/cni"), Path::new("/host/etc/cni"));
    assert_eq!(Root::at("/host").sys("/class"), Path::new("/host/sys/class"));
}

#[test]
fn with_hardware_moves_only_sys_and_dev() {
    let root = Root::at("/host").with_hardware("/host/var/lib/ferroband/sim");
    assert_eq!(root.sys("class/net"), Path::new("/host/var/lib/ferroband/sim/sys/class/net"));
    assert_eq!(root.dev("infiniband"), Path::new("/host/var/lib/ferroband/sim/dev/infiniband"));
    assert_eq!(root.proc_("self"), Path::new("/host/proc/self"));
    assert_eq!(root.run("ferroband"), Path::new("/host/run/ferroband"));
}

#[test]
fn boot_id_is_a_stable_uuid() {
    let first = boot_id(&Root::default()).unwrap();
    assert_eq!(first.len(), 36, "{first}");
    assert_eq!(first, boot_id(&Root::default()).unwrap());
}

#[test]
fn error_contains_the_path_of_a_missing_file() {
    let empty = tempfile::tempdir().unwrap();
    let error = boot_id(&Root::at(empty.path())).unwrap_err();
    assert!(error.to_string().ends_with("proc/sys/kernel/random/boot_id"), "{error}");
}

#[test]
fn file_is_replaced_with_its_mode_and_leftovers_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.conflist");
    fs::write(&path, "old").unwrap();
    fs::write(temporary_path(&path), "left by a killed process").unwrap();
    for write in [write_atomically, write_volatile] {
        write(&path, &mut &b"new"[..], 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    let missing = write_atomically(&dir.path().join("none/x"), &mut &b""[..], 0o600).unwrap_err();
    assert!(missing.to_string().starts_with("cannot write"), "{missing}");
}
