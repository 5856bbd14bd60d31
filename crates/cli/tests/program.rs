//! Runs the program `ferroband` and checks its output and exit status.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

fn ferroband(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ferroband"));
    program.args(arguments).env_remove("KUBECONFIG").env_remove("NODE_NAME").output().unwrap()
}

fn stdout_or_panic(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn help_names_every_command_and_the_exit_status() {
    let help = stdout_or_panic(&ferroband(&["--help"]));
    for word in [
        "node",
        "device-plugin",
        "crds",
        "manifests",
        "status",
        "inspect",
        "explain",
        "sim",
        "completions",
        "Exit status: 0",
    ] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
}

#[test]
fn exit_status_is_2_for_invalid_usage_and_1_for_failure() {
    assert_eq!(ferroband(&["bogus"]).status.code(), Some(2));
    assert_eq!(ferroband(&["node"]).status.code(), Some(2), "without a node name");
    assert_eq!(ferroband(&["node", "--node-name=n", "--alias=bridge"]).status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let check = ferroband(&["node", "--check", "--root", root]);
    assert_eq!(check.status.code(), Some(1));
    let stderr = String::from_utf8(check.stderr).unwrap();
    assert!(stderr.contains("cni.sock") && stderr.contains("[DaemonAway]"), "{stderr}");
}

#[test]
fn broken_pipe_is_not_a_failure() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_ferroband"))
        .args(["crds", "print"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "---\n");
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn crds_are_printed_together_or_as_files() {
    let together = stdout_or_panic(&ferroband(&["crds", "print"]));
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("crds");
    stdout_or_panic(&ferroband(&["crds", "print", "--dir", dir.to_str().unwrap()]));
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), together.matches("\nkind: CustomResourceDefinition\n").count());
    assert!(dir.join("ferroband.io_addressblocks.yaml").exists());
    for file in files {
        assert!(together.contains(&fs::read_to_string(file).unwrap()));
    }
}

/// Creates the RDMA device mlx5_0 with one port in a sysfs tree under `root`.
fn write_sysfs_device(root: &Path) {
    let port = root.join("sys/class/infiniband/mlx5_0/ports/1");
    fs::create_dir_all(&port).unwrap();
    for (name, text) in [
        ("state", "4: ACTIVE\n"),
        ("link_layer", "InfiniBand\n"),
        ("rate", "100 Gb/sec (4X EDR)\n"),
        ("lid", "0x3\n"),
    ] {
        fs::write(port.join(name), text).unwrap();
    }
}

#[test]
fn inspect_shows_the_devices() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    assert_eq!(stdout_or_panic(&ferroband(&["inspect", "--root", root])), "no RDMA devices on this node\n");
    write_sysfs_device(folder.path());
    assert_eq!(
        stdout_or_panic(&ferroband(&["inspect", "--root", root])),
        "\
DEVICE  PCI  ID  NETDEV  PORT  LINK        STATE   RATE                 LID  GUID
mlx5_0  -    -   -       1     InfiniBand  Active  100 Gb/sec (4X EDR)  3    -
"
    );
    let json: serde_json::Value =
        serde_json::from_str(&stdout_or_panic(&ferroband(&["inspect", "-o", "json", "--root", root])))
            .unwrap();
    assert_eq!((&json["simulated"], &json["devices"][0]["name"]), (&false.into(), &"mlx5_0".into()));
    let yaml = stdout_or_panic(&ferroband(&["inspect", "-o", "yaml", "--root", root]));
    assert!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap() == json, "{yaml}");
    assert!(stdout_or_panic(&ferroband(&["inspect", "-o", "wide", "--root", root])).contains("P_KEYS"));
}

#[test]
fn completions_contain_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout_or_panic(&ferroband(&["completions", shell])).contains("manifests"));
    }
}

#[test]
fn known_code_is_explained_and_unknown_code_fails() {
    let output = stdout_or_panic(&ferroband(&["explain", "NoParent"]));
    assert!(
        output.starts_with("NoParent (CNI error 103)\n") && output.contains("\nRemedies\n  - "),
        "{output}"
    );
    let all: serde_json::Value =
        serde_json::from_str(&stdout_or_panic(&ferroband(&["explain", "-o", "json"]))).unwrap();
    assert!(
        all.as_array().unwrap().iter().any(|code| code["code"] == "DaemonAway" && code["retried"] == true)
    );
    assert_eq!(ferroband(&["explain", "Nonsense"]).status.code(), Some(1));
}

#[test]
fn program_works_as_kubectl_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let call = |name: &str, arguments: &[&str]| {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ferroband"), &link).unwrap();
        stdout_or_panic(&Command::new(link).args(arguments).output().unwrap())
    };
    assert!(call("kubectl-ferroband", &["status", "--help"]).contains("Usage: kubectl ferroband status"));
    let completions = call("kubectl_complete-ferroband", &["expl"]);
    assert!(completions.starts_with("explain\t") && completions.ends_with("\n:4\n"), "{completions}");
}
