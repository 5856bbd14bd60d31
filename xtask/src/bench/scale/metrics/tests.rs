use super::*;

const BEFORE: &str = r#"# HELP apiserver_watch_events_total Number of events sent in watch clients
# TYPE apiserver_watch_events_total counter
apiserver_watch_events_total{group="ferroband.io",kind="AddressBlock",version="v1alpha1"} 100
apiserver_watch_events_total{group="",kind="Pod",version="v1"} 7
apiserver_watch_events_sizes_sum{group="ferroband.io",kind="AddressBlock",version="v1alpha1"} 5000
apiserver_request_total{code="200",component="apiserver",group="ferroband.io",resource="addressblocks",verb="PUT"} 10
go_goroutines 5
"#;
const AFTER: &str = r#"apiserver_watch_events_total{group="ferroband.io",kind="AddressBlock",version="v1alpha1"} 130
apiserver_watch_events_total{group="ferroband.io",resource="addressindexes",version="v1alpha1"} 2
apiserver_watch_events_total{group="",kind="Pod",version="v1"} 70
apiserver_watch_events_sizes_sum{group="ferroband.io",kind="AddressBlock",version="v1alpha1"} 8e+03
apiserver_request_total{code="200",component="apiserver",group="ferroband.io",resource="addressblocks",verb="PUT"} 16
apiserver_request_total{code="409",component="apiserver",group="ferroband.io",resource="addressblocks",verb="APPLY"} 3
apiserver_request_total{code="422",component="apiserver",group="ferroband.io",resource="addressblocks",verb="PATCH"} 1
apiserver_request_total{code="422",component="apiserver",group="ferroband.io",resource="addressblocks",verb="PUT"} 1
apiserver_request_total{code="200",component="apiserver",group="",resource="pods",verb="GET"} 4
apiserver_request_total{code="200",component="apiserver",group="",resource="",verb="GET"} 9
"#;

#[test]
fn only_our_kinds_since_the_first_reading_count() {
    let counted = ApiServerMetrics::parse(AFTER).since(&ApiServerMetrics::parse(BEFORE));
    assert_eq!(counted.deliveries(), WatchDeliveries { events: 32.0, bytes: 3000.0 });
    let kinds = counted.deliveries_by_kind();
    assert_eq!((kinds["AddressBlock"], kinds["AddressIndex"], kinds.len()), (30.0, 2.0, 2));
    let requests = counted.requests();
    assert_eq!(
        (requests["put addressblocks"], requests["apply addressblocks"], requests.len()),
        (7.0, 3.0, 3)
    );
    assert_eq!((counted.conflicts(), counted.all_requests()), (4.0, 15.0));
}

#[test]
fn counters_of_a_restarted_api_server_count_from_zero() {
    let counted = ApiServerMetrics::parse(BEFORE).since(&ApiServerMetrics::parse(AFTER));
    assert_eq!(counted.deliveries().events, 100.0);
}

#[test]
fn label_values_may_contain_quotes_and_braces() {
    let text = "apiserver_request_total{a=\"x\\\"},y\\\\\",resource=\"ippools\",verb=\"GET\"} 2 1700000000\nbroken{a=\n";
    let metrics = ApiServerMetrics::parse(text);
    assert_eq!(metrics.requests()["get ippools"], 2.0);
    let labels = parse_labels("a=\"x\\\"},y\\\\\"} 2").unwrap().0;
    assert_eq!(labels["a"], "x\"},y\\");
    assert!(parse_labels("a=\"x").is_none());
}
