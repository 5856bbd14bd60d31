//! The API server's own counters, from `/metrics`, and the difference of two readings.

use anyhow::Result;
use ferroband_lab::cluster::Lab;
use ferroband_lab::command::output;
use std::collections::BTreeMap;

/// Kinds and resources whose deliveries count: blocks, pools and their copies, records of other systems, index, state.
const OUR_KINDS: [(&str, &str); 8] = [
    ("AddressBlock", "addressblocks"),
    ("AddressIndex", "addressindexes"),
    ("AddressState", "addressstates"),
    ("IPPool", "ippools"),
    ("OverlappingRangeIPReservation", "overlappingrangeipreservations"),
    ("SpiderIPPool", "spiderippools"),
    ("SpiderPoolCopy", "spiderpoolcopies"),
    ("StickyAddresses", "stickyaddresses"),
];

const EVENTS: &str = "apiserver_watch_events_total";
const EVENT_BYTES: &str = "apiserver_watch_events_sizes_sum";
const REQUESTS: &str = "apiserver_request_total";

/// Labels of a sample, in the order of their names.
type SampleLabels = BTreeMap<String, String>;

/// A reading of the counters that the benchmark uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiServerMetrics(BTreeMap<(String, SampleLabels), f64>);

/// Watch events of our kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WatchDeliveries {
    pub events: f64,
    pub bytes: f64,
}

impl ApiServerMetrics {
    /// Reads the counters of a lab's API server.
    pub fn read(lab: &Lab) -> Result<Self> {
        Ok(Self::parse(&output(lab.kubectl()?.args(["get", "--raw", "/metrics"]))?))
    }

    /// Parses the text format of Prometheus. Lines that are no sample of a known counter are skipped.
    pub fn parse(text: &str) -> Self {
        let mut samples = BTreeMap::new();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once('{') else { continue };
            if ![EVENTS, EVENT_BYTES, REQUESTS].contains(&name) {
                continue;
            }
            if let Some((labels, value)) = parse_labels(rest)
                && let Some(value) =
                    value.split_whitespace().next().and_then(|value| value.parse::<f64>().ok())
            {
                *samples.entry((name.to_owned(), labels)).or_default() += value;
            }
        }
        Self(samples)
    }

    /// Returns what was counted since `before`. A counter that decreased was reset, and counts from zero.
    pub fn since(&self, before: &Self) -> Self {
        let difference = |(key, value): (&(String, SampleLabels), &f64)| {
            let earlier = before.0.get(key).copied().unwrap_or_default();
            let counted = if earlier > *value { *value } else { value - earlier };
            (counted != 0.0).then(|| (key.clone(), counted))
        };
        Self(self.0.iter().filter_map(difference).collect())
    }

    /// Returns the watch events of our kinds that were sent to all clients.
    pub fn deliveries(&self) -> WatchDeliveries {
        WatchDeliveries { events: self.sum_of_ours(EVENTS), bytes: self.sum_of_ours(EVENT_BYTES) }
    }

    /// Returns the watch events of each of our kinds.
    pub fn deliveries_by_kind(&self) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for ((name, labels), value) in &self.0 {
            if let Some((kind, _)) = our_kind(labels).filter(|_| name == EVENTS) {
                *sums.entry(kind.to_owned()).or_default() += value;
            }
        }
        sums
    }

    /// Returns the requests for our kinds by `<verb> <resource>`, from all clients.
    pub fn requests(&self) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for ((name, labels), value) in &self.0 {
            if let Some((_, resource)) = our_kind(labels).filter(|_| name == REQUESTS) {
                let verb = labels.get("verb").map_or_else(String::new, |verb| verb.to_lowercase());
                *sums.entry(format!("{verb} {resource}")).or_default() += value;
            }
        }
        sums
    }

    /// Returns how many requests for our kinds failed with status 409, and how many JSON patches with a failed test.
    pub fn conflicts(&self) -> f64 {
        let has = |labels: &SampleLabels, name: &str, value: &str| {
            labels.get(name).is_some_and(|found| found == value)
        };
        let is_conflict = |labels: &SampleLabels| {
            has(labels, "code", "409") || has(labels, "code", "422") && has(labels, "verb", "PATCH")
        };
        let samples = self.0.iter().filter(|((name, labels), _)| name == REQUESTS && is_conflict(labels));
        samples.filter(|((_, labels), _)| our_kind(labels).is_some()).map(|(_, value)| value).sum()
    }

    /// Returns all requests, of every kind and client, except those for `/metrics` and other paths.
    pub fn all_requests(&self) -> f64 {
        let has_resource =
            |labels: &SampleLabels| labels.get("resource").is_some_and(|name| !name.is_empty());
        let samples = self.0.iter().filter(|((name, labels), _)| name == REQUESTS && has_resource(labels));
        samples.map(|(_, value)| value).sum()
    }

    fn sum_of_ours(&self, counter: &str) -> f64 {
        let samples =
            self.0.iter().filter(|((name, labels), _)| name == counter && our_kind(labels).is_some());
        samples.map(|(_, value)| value).sum()
    }
}

/// Finds the kind of a sample. Older API servers label watch events with `kind`, newer ones with `resource`.
fn our_kind(labels: &SampleLabels) -> Option<(&'static str, &'static str)> {
    let has = |label: &str, value: &str| labels.get(label).is_some_and(|found| found == value);
    OUR_KINDS.into_iter().find(|(kind, resource)| has("kind", kind) || has("resource", resource))
}

/// Parses `a="b",c="d"} 5` and returns the labels and what follows them.
fn parse_labels(mut text: &str) -> Option<(SampleLabels, &str)> {
    let mut labels = SampleLabels::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        loop {
            match characters.next()? {
                (end, '"') => {
                    text = &rest[end + 1..];
                    break;
                }
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        }
        labels.insert(name.trim().to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
