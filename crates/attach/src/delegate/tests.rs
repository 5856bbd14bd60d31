use super::*;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

/// A folder with one shell script as a plugin.
struct ScriptPluginDir(tempfile::TempDir);

impl ScriptPluginDir {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plugin");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn run(&self, stdin: &[u8]) -> Result<Vec<u8>, Error> {
        let path = self.0.path().to_str().unwrap();
        let around = PluginEnv {
            container: "c1",
            netns: "/run/netns/t",
            ifname: "net1",
            args: "A=1".into(),
            path,
            lock: None,
        };
        run("plugin", CniCommand::Add, &around, stdin)
    }

    fn answer(&self) -> PluginError {
        match self.run(b"{}") {
            Err(Error::Plugin { answer, .. }) => answer,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_plugin_sees_the_variables_and_the_configuration() {
    let plugins =
        ScriptPluginDir::new("echo $CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS; cat");
    let output = plugins.run(b"{\"name\":\"n\"}").unwrap();
    let text = String::from_utf8(output).unwrap();
    assert_eq!(text, "ADD c1 /run/netns/t net1 A=1\n{\"name\":\"n\"}");
}

#[test]
fn an_error_object_is_read_from_its_output() {
    let plugins = ScriptPluginDir::new(r#"echo '{"code":11,"msg":"later","details":"why"}'; exit 1"#);
    assert_eq!(plugins.answer(), PluginError { code: 11, msg: "later".into(), details: "why".into() });
}

#[test]
fn without_one_its_words_are_kept() {
    assert_eq!(ScriptPluginDir::new("echo boom >&2; exit 1").answer().msg, "boom");
    assert_eq!(ScriptPluginDir::new("echo text; echo boom >&2; exit 3").answer().msg, "text / boom");
    assert!(ScriptPluginDir::new("exit 7").answer().msg.contains('7'));
    assert!(ScriptPluginDir::new("kill -9 $$").answer().msg.contains("signal"));
}

#[test]
fn large_configurations_pass_and_unread_ones_do_not_matter() {
    let long = vec![b'x'; 1 << 20];
    assert_eq!(ScriptPluginDir::new("cat").run(&long).unwrap(), long);
    assert_eq!(ScriptPluginDir::new("echo done").run(&long).unwrap(), b"done\n");
}

#[test]
fn only_the_first_regular_file_in_the_path_counts() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    fs::create_dir_all(first.join("plugin")).unwrap();
    fs::create_dir(&second).unwrap();
    fs::write(second.join("plugin"), "").unwrap();
    let path = format!("{}::{}", first.display(), second.display());
    assert_eq!(find_plugin("plugin", &path).unwrap(), second.join("plugin"));
    assert!(matches!(find_plugin("other", &path), Err(Error::NoPlugin { .. })));
    for name in ["", "..", "../plugin", "second/plugin"] {
        assert!(matches!(find_plugin(name, &path), Err(Error::PluginName { .. })), "{name}");
    }
}

#[test]
fn case_15_a_binary_that_is_being_replaced_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plugin");
    fs::copy("/bin/true", &file).unwrap();
    let writer = fs::OpenOptions::new().append(true).mode(0o755).open(&file).unwrap();
    let plugins = ScriptPluginDir(folder);
    thread::scope(|scope| {
        let run = scope.spawn(|| plugins.run(b"{}"));
        thread::sleep(Duration::from_millis(150));
        assert!(!run.is_finished(), "it should be busy");
        drop(writer);
        run.join().unwrap().unwrap();
    });
}

#[test]
fn what_is_not_a_result_is_an_error() {
    let plugins = ScriptPluginDir::new("echo hello");
    let path = plugins.0.path().to_str().unwrap();
    let around = PluginEnv { container: "c", netns: "", ifname: "i", args: "".into(), path, lock: None };
    assert!(matches!(add("plugin", &around, b"{}"), Err(Error::PluginOutput { .. })));
}
