use super::*;
use crate::RevisionHistory;
use ferroband_testbed::fake_api::FakeApi;
use serde_json::json;
use tokio::time::sleep;

const PATH: &str = "/apis/ferroband.io/v1alpha1/addressstates";

fn answer(api: &FakeApi, revision: &str, epoch: Option<&str>) {
    let restore = epoch.map(|epoch| json!({"epoch": epoch, "phase": "Asserting"}));
    let state =
        json!({"metadata": {"name": "cluster", "resourceVersion": "5"}, "spec": {"restore": restore}});
    api.insert_object(PATH, json!({"metadata": {"resourceVersion": revision}, "items": [state]}));
}

#[tokio::test(start_paused = true)]
async fn a_restore_is_noticed_by_the_list_after_the_watch_broke() {
    let api = FakeApi::default();
    answer(&api, "100", None);
    let revisions = Arc::new(RevisionWatch::new(RevisionHistory::default()));
    let (sender, mut view) = watch::channel(AddressStateView::default());
    let task = tokio::spawn(watch_address_state(api.client(), revisions.clone(), sender));
    timeout(Duration::from_secs(5), view.wait_for(|view| view.connected)).await.unwrap().unwrap();
    assert_eq!((revisions.highest(), revisions.noticed()), (100, None));

    api.set_unavailable(true);
    timeout(Duration::from_secs(30), view.wait_for(|view| !view.connected)).await.unwrap().unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(!view.borrow().connected, "nothing is known while the API server is away");

    // The backup is older than what this daemon has seen.
    answer(&api, "60", None);
    api.set_unavailable(false);
    timeout(Duration::from_secs(30), view.wait_for(|view| view.connected)).await.unwrap().unwrap();
    assert!(revisions.noticed().is_some());

    // The leader records it.
    answer(&api, "70", Some("e1"));
    let declared = |view: &AddressStateView| epoch(view.state.as_deref()) == "e1";
    timeout(Duration::from_secs(30), view.wait_for(declared)).await.unwrap().unwrap();
    assert_eq!(revisions.noticed(), None);
    task.abort();
}
