//! Renders metrics in the Prometheus exposition format, version 0.0.4.

use std::{collections::BTreeMap, fmt::Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows, until the device is reset.
    Counter,
    Gauge,
}

/// Pairs of label name and unescaped value.
pub type MetricLabels = Vec<(&'static str, String)>;

/// Metric families by name. Each has a kind, a help text, and one value for each set of labels.
#[derive(Debug, Default)]
pub struct MetricFamilies {
    families: BTreeMap<String, (MetricKind, String, BTreeMap<MetricLabels, u64>)>,
}

impl MetricFamilies {
    /// Adds a sample. A second sample with the same name and labels is ignored, because duplicates make Prometheus
    /// reject the whole scrape.
    pub fn add(
        &mut self,
        name: String,
        kind: MetricKind,
        help: impl FnOnce() -> String,
        labels: MetricLabels,
        value: u64,
    ) {
        let (_, _, values) = self.families.entry(name).or_insert_with(|| (kind, help(), BTreeMap::new()));
        values.entry(labels).or_insert(value);
    }

    /// Returns all families as text, sorted by name.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for (name, (kind, help, values)) in &self.families {
            let kind = match kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
            };
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let labels: Vec<_> = labels
                    .iter()
                    .map(|(label, value)| format!("{label}=\"{}\"", escape_label_value(value)))
                    .collect();
                let _ = writeln!(out, "{name}{{{}}} {value}", labels.join(","));
            }
        }
        out
    }
}

fn escape_label_value(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
