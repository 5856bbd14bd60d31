use super::*;
use crate::ipc::plan::{PlanStep, StepKind};
use ferroband_config::IpoibConfig;
use serde_json::json;

fn journal() -> Journal {
    let step = |by| PlanStep { config: json!({"type": "t"}).as_object().unwrap().clone(), kind: by };
    let child = IpoibConfig { parent: "ib0".into(), ..IpoibConfig::default() };
    let mut journal = Journal {
        schema: SCHEMA,
        plugin_type: PluginType::Ferroband,
        boot: "b".into(),
        container: "c1".into(),
        ifname: "eth0".into(),
        network: "cbr0".into(),
        netns: "/run/netns/t".into(),
        netns_id: NetnsId { dev: 4, inode: 4026532000 },
        args: String::new(),
        pod: None,
        needs_release: true,
        attached: false,
        entries: Vec::new(),
        assigned: Vec::new(),
    };
    journal.set_plan(vec![Attachment {
        network: "n".into(),
        name: "n".into(),
        cni_version: "1.0.0".into(),
        ifname: "net1".into(),
        default: true,
        steps: vec![step(StepKind::Foreign), step(StepKind::Ipoib { child, daemon_ipam: true })],
        ..Attachment::default()
    }]);
    journal
}

#[test]
fn a_saved_journal_is_loaded_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let mut journal = journal();
    journal.entries[0].steps[1] = StepRecord {
        state: StepState::Intended,
        ipam: StepState::Pending,
        interface: Some(InterfaceIdentity {
            temporary: "veth0".into(),
            kind: Some("ipoib".into()),
            addresses: vec!["00:01".into()],
        }),
        ..StepRecord::default()
    };
    journal.save(&root).unwrap();
    assert_eq!(Journal::load(&root, &journal.id()).unwrap().as_ref(), Some(&journal));
    let all = Journal::list(&root).unwrap();
    assert_eq!((all.len(), all[0].stem.as_str()), (1, "c1"));
    Journal::remove(&root, &journal.id()).unwrap();
    assert_eq!(Journal::load(&root, &journal.id()).unwrap(), None);
}

#[test]
fn inconsistent_step_counts_and_newer_schemas_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    let mut short = journal();
    short.entries[0].steps.pop();
    short.save(&root).unwrap();
    assert!(Journal::load(&root, &short.id()).unwrap_err().is_damaged_state());
    let newer = Journal { schema: SCHEMA + 1, ..journal() };
    newer.save(&root).unwrap();
    assert!(matches!(Journal::load(&root, &newer.id()), Err(Error::UnknownSchema { schema: 2, .. })));
}

#[test]
fn unknown_fields_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c1.json");
    let mut value = json!(journal());
    value["later"] = json!({"a": 1});
    value["entries"][0]["steps"][0] = json!({"state": "done", "later": true});
    std::fs::write(&path, value.to_string()).unwrap();
    assert_eq!(read(path).unwrap().unwrap().entries[0].steps[0].state, StepState::Done);
}

#[test]
fn addresses_may_be_released_once_own_interfaces_are_gone() {
    let mut journal = journal();
    assert!(journal.interfaces_gone());
    journal.entries[0].steps[0].state = StepState::Done;
    assert!(journal.interfaces_gone(), "a foreign interface does not count");
    journal.entries[0].steps[1].interface = Some(InterfaceIdentity::default());
    for (state, gone) in [(StepState::Intended, false), (StepState::Done, false), (StepState::Undone, true)] {
        journal.entries[0].steps[1].state = state;
        assert_eq!(journal.interfaces_gone(), gone, "{state:?}");
    }
}
