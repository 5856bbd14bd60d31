//! UFM is down for twenty seconds while a hundred pods start and stop (two minutes in `cargo xtask test soak`).
//! Afterwards the membership is as desired, no pod has run outside its partition, and no key was left on a function for
//! the next pod.
//!
//! Two checks: each pod reads its port's P_Key table while it runs, and UFM's log is compared with the pods' run times.

use ferroband_cluster_tests::fabric::UfmFabric;
use ferroband_cluster_tests::tenants::{BLUE, PORT_PATH, RED, tenant_fixture, tenant_pod_spec};
use ferroband_cluster_tests::{TestObjects, eventually, ferroband, kubectl, kubectl_get, soak_rounds};
use ferroband_testbed::audit::{PodTenancy, audit};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Pods per partition, and how many of them in parallel.
const PODS: usize = 50;
const AT_ONCE: usize = 4;

/// A Job of pods in a partition. Each prints its GUID, then repeatedly the time and its P_Key table.
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

/// The host's uptime; pods share the kernel and its clock.
fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("seconds")
}

/// GUID, P_Key and run time of a Job's pods, from their logs.
fn tenancies(name: &str, key: u16) -> Vec<PodTenancy> {
    let (now, up) = (Instant::now(), uptime());
    let label = format!("job-name={name}");
    let logs =
        kubectl(&["logs", "-l", &label, "--prefix", "--tail=-1", "--max-log-requests=100"]).stdout_or_panic();
    let mut pods: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in logs.lines() {
        let (pod, output) = line.split_once(' ').expect("[pod/NAME/CONTAINER] WORDS");
        pods.entry(pod).or_default().push(output);
    }
    let of = |(pod, output): (&str, Vec<&str>)| {
        let gid =
            output.first().and_then(|line| line.strip_prefix("guid ")).expect("a GUID").replace(':', "");
        let guid = u64::from_str_radix(&gid[16..], 16).expect("a GUID");
        let mut times = Vec::new();
        for line in output.iter().skip(1) {
            let mut words = line.split_whitespace().skip(1);
            times.push(words.next().and_then(|word| word.parse::<f64>().ok()).expect("a time"));
            let keys: Vec<&str> = words.filter(|key| *key != "0x0000").collect();
            assert_eq!(keys, [format!("{:#06x}", key | 0x8000).as_str(), "0x7fff"], "{pod}: {output:?}");
        }
        let at = |time: &f64| now - Duration::from_secs_f64((up - time).max(0.0));
        let (from, to) = (times.first().map(at).expect("a first time"), times.last().map(at));
        PodTenancy { pod: pod.to_owned(), guid: ferroband_model::Guid::new(guid), key, from, to }
    };
    pods.into_iter().map(of).collect()
}

fn check_no_members(fabric: &UfmFabric) -> Result<(), String> {
    let left = (fabric.members(RED), fabric.members(BLUE));
    if left.0.is_empty() && left.1.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
}

#[test]
fn no_pod_ran_outside_its_partition_during_a_ufm_outage() {
    let outage = Duration::from_secs(if soak_rounds() > 1 { 120 } else { 20 });
    let mut objects = TestObjects::default();
    let fabric = tenant_fixture(&mut objects);
    objects.apply(&job("red")).apply(&job("blue"));
    let done = || succeeded("red") + succeeded("blue");
    eventually("a third of the pods is done", 300, || {
        if done() > 30 { Ok(()) } else { Err(done().to_string()) }
    });
    fabric.ufm.go_down();
    // Pods that were members before the outage finish first.
    sleep(outage / 2);
    let before = done();
    sleep(outage / 2);
    let during = done() - before;
    fabric.ufm.come_up(true);
    assert!(during <= 2 * AT_ONCE as u64, "{during} pods ended while none could start");
    eventually("all pods are done", 600, || match done() {
        all if all == 2 * PODS as u64 => Ok(()),
        some => Err(format!("{some} {}", kubectl(&["get", "pods", "-o", "wide"]).out)),
    });
    eventually("both partitions are empty", 90, || check_no_members(&fabric));
    ferroband(&["partition", "diff"]).stdout_or_panic();
    let all = [tenancies("red", RED), tenancies("blue", BLUE)].concat();
    let events = fabric.ufm.events();
    println!(
        "{} pods, {during} ended within {outage:?} without UFM, {} changes at UFM",
        all.len(),
        events.len()
    );
    assert_eq!(all.len(), 2 * PODS);
    let reused =
        all.iter().filter(|one| all.iter().any(|other| other.guid == one.guid && other.key != one.key));
    assert!(reused.count() > PODS, "functions are reused across partitions");
    assert_eq!(audit(&events, &all), []);
}
