//! UFM is away for twenty seconds amid a hundred pods that come and go (two minutes in `cargo xtask test soak`). Afterwards what
//! is wanted is there, and looking back nobody ran outside of its partition, and no key outlived its pod on a function that
//! another pod had next.
//!
//! Two witnesses: each pod looks at its own port's table for as long as it runs, and UFM's log is replayed against who ran when.

use ferroband_cluster_tests::fabric::UfmFabric;
use ferroband_cluster_tests::tenants::{BLUE, PORT_PATH, RED, tenant_fixture, tenant_pod_spec};
use ferroband_cluster_tests::{TestObjects, eventually, kubectl, kubectl_get, run_lab, soak_rounds};
use ferroband_testbed::audit::{PodTenancy, audit};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Pods in each of the two partitions, and how many of them at once.
const PODS: usize = 50;
const AT_ONCE: usize = 4;

/// Pods one after another, in a partition. Each tells its GUID, and the time and its table again and again.
fn job(name: &str) -> String {
    let mut spec = tenant_pod_spec(&format!(
        "echo guid $(cat {PORT_PATH}/gids/0); i=0; while [ $i -lt 8 ]; do \
         echo at $(cut -d' ' -f1 /proc/uptime) $(cat {PORT_PATH}/pkeys/*); i=$((i+1)); sleep 0.1; done"
    ));
    spec["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "completions": PODS, "parallelism": AT_ONCE, "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": name}},
                "spec": spec,
            },
        },
    })
    .to_string()
}

fn succeeded(name: &str) -> u64 {
    kubectl_get(&["job", name])["status"]["succeeded"].as_u64().unwrap_or_default()
}

/// The machine's uptime: one kernel, one clock, in pods as here.
fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("seconds")
}

/// What the pods of a job have seen.
fn tenancies(name: &str, key: u16) -> Vec<PodTenancy> {
    let (now, up) = (Instant::now(), uptime());
    let label = format!("job-name={name}");
    let told =
        kubectl(&["logs", "-l", &label, "--prefix", "--tail=-1", "--max-log-requests=100"]).stdout_or_panic();
    let mut pods: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in told.lines() {
        let (pod, said) = line.split_once(' ').expect("[pod/NAME/CONTAINER] WORDS");
        pods.entry(pod).or_default().push(said);
    }
    let of = |(pod, said): (&str, Vec<&str>)| {
        let gid = said.first().and_then(|line| line.strip_prefix("guid ")).expect("a GUID").replace(':', "");
        let guid = u64::from_str_radix(&gid[16..], 16).expect("a GUID");
        let mut times = Vec::new();
        for line in said.iter().skip(1) {
            let mut words = line.split_whitespace().skip(1);
            times.push(words.next().and_then(|word| word.parse::<f64>().ok()).expect("a time"));
            let keys: Vec<&str> = words.filter(|key| *key != "0x0000").collect();
            assert_eq!(keys, [format!("{:#06x}", key | 0x8000).as_str(), "0x7fff"], "{pod}: {said:?}");
        }
        let at = |time: &f64| now - Duration::from_secs_f64((up - time).max(0.0));
        let (from, to) = (times.first().map(at).expect("it began"), times.last().map(at));
        PodTenancy { pod: pod.to_owned(), guid: ferroband_model::Guid::new(guid), key, from, to }
    };
    pods.into_iter().map(of).collect()
}

fn is_empty(fabric: &UfmFabric) -> Result<(), String> {
    let left = (fabric.members(RED), fabric.members(BLUE));
    if left.0.is_empty() && left.1.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
}

#[test]
fn nobody_ran_outside_its_partition_while_ufm_was_away_amid_a_hundred_pods() {
    let away = Duration::from_secs(if soak_rounds() > 1 { 120 } else { 20 });
    let mut objects = TestObjects::default();
    let fabric = tenant_fixture(&mut objects);
    objects.apply(&job("red")).apply(&job("blue"));
    let done = || succeeded("red") + succeeded("blue");
    eventually("a third is done", 300, || if done() > 30 { Ok(()) } else { Err(done().to_string()) });
    fabric.ufm.go_down();
    // Who was let in before ends, and is counted.
    sleep(away / 2);
    let before = done();
    sleep(away / 2);
    let during = done() - before;
    fabric.ufm.come_up(true);
    assert!(during <= 2 * AT_ONCE as u64, "{during} pods ended while nobody could start");
    eventually("all are done", 600, || match done() {
        all if all == 2 * PODS as u64 => Ok(()),
        some => Err(format!("{some} {}", kubectl(&["get", "pods", "-o", "wide"]).out)),
    });
    eventually("nobody is in any more", 90, || is_empty(&fabric));
    run_lab(&["ferroband", "--", "partition", "diff"]).stdout_or_panic();
    let all = [tenancies("red", RED), tenancies("blue", BLUE)].concat();
    let events = fabric.ufm.events();
    println!(
        "{} pods, {during} ended within {away:?} without UFM, {} changes at UFM",
        all.len(),
        events.len()
    );
    assert_eq!(all.len(), 2 * PODS);
    let reused =
        all.iter().filter(|one| all.iter().any(|other| other.guid == one.guid && other.key != one.key));
    assert!(reused.count() > PODS, "functions go from one partition to the other");
    assert_eq!(audit(&events, &all), []);
}
