use super::*;
use crate::fake_api::FakeApi;
use ferroband_address::{AddressAllocation, StickyAddress};
use ferroband_daemon::RevisionHistory;
use std::collections::BTreeMap;

const BLOCK: &str = "/apis/ferroband.io/v1alpha1/addressblocks/default-10.0.0.0";

fn store(api: &FakeApi) -> ApiBlockStore {
    ApiBlockStore::new(api.client(), Arc::new(RevisionWatch::new(RevisionHistory::default())))
}

fn addition(offset: u8, node: &str, exists: bool) -> BlockCall {
    let (id, _) = IpBlockId::containing(&IpSpace::default_space(), [10, 0, 0, 0].into());
    let entry = AddressAllocation {
        pod: format!("ns/{node}"),
        uid: "u".into(),
        interface: "net1".into(),
        container: format!("c-{node}"),
        node: node.into(),
        ..AddressAllocation::default()
    };
    let entries = BTreeMap::from([(offset, entry)]);
    BlockCall::Write(BlockWrite::Add(BlockAddition { id, holder: None, entries, exists }))
}

fn offsets(outcome: CallOutcome) -> Vec<u8> {
    match outcome {
        CallOutcome::Block(Some((block, _))) => block.entries.into_keys().collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn entries_are_added_to_missing_and_to_existing_blocks() {
    let api = FakeApi::default();
    let store = store(&api);
    assert_eq!(store.execute("a", &addition(1, "a", true)).await, CallOutcome::Conflict, "no such block");
    assert_eq!(offsets(store.execute("a", &addition(1, "a", false)).await), [1]);
    assert_eq!(offsets(store.execute("b", &addition(2, "b", false)).await), [1, 2], "the other entry stays");
    assert_eq!(offsets(store.execute("c", &addition(3, "c", true)).await), [1, 2, 3]);
    for exists in [false, true] {
        assert_eq!(store.execute("d", &addition(2, "d", exists)).await, CallOutcome::Conflict);
    }
    let labels = &api.get_object(BLOCK).unwrap()["metadata"]["labels"];
    for node in ["a", "b", "c"] {
        assert_eq!(labels[node_label(node)], "", "{labels}");
    }
    assert_eq!(labels[SPACE_LABEL], space_label(&IpSpace::default_space()));
    assert!(labels.get(node_label("d")).is_none(), "nothing was written");

    let CallOutcome::Blocks { blocks, .. } = store.execute("a", &BlockCall::ListOwn).await else { panic!() };
    assert_eq!(blocks.len(), 1);
}

#[tokio::test]
async fn rejected_object_is_no_conflict() {
    let api = FakeApi::default();
    let store = store(&api);
    offsets(store.execute("a", &addition(1, "a", false)).await);
    for (code, conflict) in [(StatusCode::FORBIDDEN, false), (StatusCode::UNPROCESSABLE_ENTITY, true)] {
        api.reject(BLOCK, code);
        let outcome = store.execute("a", &addition(2, "a", true)).await;
        assert_eq!(outcome == CallOutcome::Conflict, conflict, "{outcome:?}");
        assert_eq!(matches!(outcome, CallOutcome::Rejected(_)), !conflict);
    }
    // A violated rule of the schema has causes.
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid",
        "message": "x", "details": {"causes": [{"field": "spec.entries", "message": "x", "reason": "FieldValueInvalid"}]}});
    assert!(!is_failed_test(&serde_json::from_value(status).unwrap()));
}

#[tokio::test]
async fn pointers_are_created_and_replaced_at_their_version() {
    let api = FakeApi::default();
    let store = store(&api);
    let pod = ("ns".to_owned(), "db-0".to_owned());
    let CallOutcome::Sticky(mut record) = store.execute("a", &BlockCall::ReadSticky(pod.clone())).await
    else {
        panic!()
    };
    assert_eq!(record, StickyRecord::default(), "there is none");
    for ordinal in 0..2 {
        let (space, address) = (IpSpace::network("rail"), [10, 0, 0, ordinal].into());
        record.addresses.push(StickyAddress { interface: "net1".into(), ordinal, space, address });
        let outcome = store.execute("a", &BlockCall::WriteSticky(pod.clone(), record.clone())).await;
        let CallOutcome::Sticky(written) = outcome else { panic!("{outcome:?}") };
        assert_eq!((&written.addresses, written.version.is_some()), (&record.addresses, true));
        let stale = store.execute("b", &BlockCall::WriteSticky(pod.clone(), record.clone())).await;
        assert_eq!(stale, CallOutcome::Conflict);
        record = written;
    }
    let read = store.execute("b", &BlockCall::ReadSticky(pod)).await;
    assert_eq!(read, CallOutcome::Sticky(record));
}

#[tokio::test]
async fn index_of_the_space_is_read_and_bad_lines_are_skipped() {
    let api = FakeApi::default();
    let index = |space: &str, blocks: Value| json!({"metadata": {"name": space}, "spec": {"space": space, "shard": 0, "blocks": blocks}});
    let items =
        [index("default", json!(["10.0.0.0 3 h", "nonsense"])), index("network/x", json!(["10.0.1.0 1 -"]))];
    let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items});
    api.insert_object("/apis/ferroband.io/v1alpha1/addressindexes", list);
    let outcome = store(&api).execute("a", &BlockCall::ReadIndex(IpSpace::default_space())).await;
    assert_eq!(outcome, CallOutcome::Index(vec!["10.0.0.0 3 h".parse().unwrap()]));
}
