use super::*;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

/// A directory with one shell script as a plugin.
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
        let env = PluginEnv {
            container: "c1",
            netns: "/run/netns/t",
            ifname: "net1",
            args: "A=1".into(),
            path,
            lock: None,
        };
        run("plugin", CniCommand::Add, &env, stdin)
    }

    fn reply(&self) -> PluginError {
        match self.run(b"{}") {
            Err(Error::Plugin { reply, .. }) => reply,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_plugin_gets_the_variables_and_the_configuration() {
    let plugins =
        ScriptPluginDir::new("echo $CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS; cat");
    let output = plugins.run(b"{\"name\":\"n\"}").unwrap();
    let text = String::from_utf8(output).unwrap();
    assert_eq!(text, "ADD c1 /run/netns/t net1 A=1\n{\"name\":\"n\"}");
}

#[test]
fn the_error_is_parsed_from_standard_output() {
    let plugins = ScriptPluginDir::new(r#"echo '{"code":11,"msg":"later","details":"why"}'; exit 1"#);
    assert_eq!(plugins.reply(), PluginError { code: 11, msg: "later".into(), details: "why".into() });
}

#[test]
fn without_an_error_object_the_output_becomes_the_message() {
    assert_eq!(ScriptPluginDir::new("echo boom >&2; exit 1").reply().msg, "boom");
    assert_eq!(ScriptPluginDir::new("echo text; echo boom >&2; exit 3").reply().msg, "text / boom");
    assert!(ScriptPluginDir::new("exit 7").reply().msg.contains('7'));
    assert!(ScriptPluginDir::new("kill -9 $$").reply().msg.contains("signal"));
}

#[test]
fn large_and_unread_configurations_do_not_block() {
    let long = vec![b'x'; 1 << 20];
    assert_eq!(ScriptPluginDir::new("cat").run(&long).unwrap(), long);
    assert_eq!(ScriptPluginDir::new("echo done").run(&long).unwrap(), b"done\n");
}

#[test]
fn the_first_regular_file_in_the_path_is_used() {
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

// Case: cni 15
#[test]
fn a_busy_binary_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plugin");
    fs::copy("/bin/true", &file).unwrap();
    let writer = fs::OpenOptions::new().append(true).mode(0o755).open(&file).unwrap();
    let plugins = ScriptPluginDir(folder);
    thread::scope(|scope| {
        let run = scope.spawn(|| plugins.run(b"{}"));
        thread::sleep(Duration::from_millis(150));
        assert!(!run.is_finished(), "the binary should be busy");
        drop(writer);
        run.join().unwrap().unwrap();
    });
}

#[test]
fn output_that_is_not_json_is_an_error() {
    let plugins = ScriptPluginDir::new("echo hello");
    let path = plugins.0.path().to_str().unwrap();
    let env = PluginEnv { container: "c", netns: "", ifname: "i", args: "".into(), path, lock: None };
    assert!(matches!(add("plugin", &env, b"{}"), Err(Error::PluginOutput { .. })));
}

#[test]
fn an_ipam_alias_that_is_not_installed_is_reported_with_the_helm_value() {
    let plugins = ScriptPluginDir::new("exit 0");
    let path = plugins.0.path().to_str().unwrap();
    let step = |config: serde_json::Value| PlanStep {
        config: config.as_object().unwrap().clone(),
        kind: crate::ipc::plan::StepKind::Foreign,
    };
    for ipam in ["whereabouts", "spiderpool"] {
        let step = step(serde_json::json!({"type": "plugin", "IPAM": {"type": ipam}}));
        let fault = find_step_plugins(&step, path).unwrap_err().fault();
        assert!(fault.to_string().contains("node.aliases") && fault.to_string().contains(ipam), "{fault}");
        fs::copy(plugins.0.path().join("plugin"), plugins.0.path().join(ipam)).unwrap();
        find_step_plugins(&step, path).unwrap();
    }
    // The plugin itself reports any other IPAM plugin that is missing.
    find_step_plugins(&step(serde_json::json!({"type": "plugin", "ipam": {"type": "host-local"}})), path)
        .unwrap();
    let missing = find_step_plugins(&step(serde_json::json!({"type": "other"})), path).unwrap_err();
    assert!(matches!(missing, Error::NoPlugin { .. }), "{missing}");
}
