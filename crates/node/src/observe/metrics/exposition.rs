//! The exposition format (Prometheus, version 0.0.4).

use std::{collections::BTreeMap, fmt::Write};

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// Label and value.
pub type MetricLabels = Vec<(&'static str, String)>;

/// Metrics, by name.
#[derive(Debug, Default)]
pub struct MetricFamilies {
    families: BTreeMap<String, (MetricKind, String, BTreeMap<MetricLabels, u64>)>,
}

impl MetricFamilies {
    /// Add a value. Of two with the same name and labels the first counts: twice the same would spoil the whole scrape.
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

    /// All of it as text.
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
