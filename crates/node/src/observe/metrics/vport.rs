//! Driver statistics (`ethtool -S`) of network interfaces that share a port with an RDMA device.

use super::exposition::{MetricFamilies, MetricKind, MetricLabels};

/// Adds the driver statistics that Spiderpool exports: all virtual port counters, and the pause and discard
/// counters of each priority. The priority becomes a label.
pub fn add_driver_statistics(counted: &[(String, u64)], labels: &MetricLabels, metrics: &mut MetricFamilies) {
    for (name, value) in counted {
        let (short, priority) = match split_priority(name) {
            Some((short, priority)) => (short, Some(priority)),
            None => (to_snake_case(name), None),
        };
        if priority.is_none() && !short.contains("vport") {
            continue;
        }
        let mut labels = labels.clone();
        labels.extend(priority.map(|priority| ("priority", priority.to_owned())));
        let help = || match priority {
            Some(_) => format!("Driver statistic {short} of the interface, by priority."),
            None => format!("Driver statistic {short} of the interface."),
        };
        metrics.add(format!("rdma_{short}_total"), MetricKind::Counter, help, labels, *value);
    }
}

/// Splits the name of a counter of one priority, such as `rx_prio3_pause`, into `rx_pause` and the priority
/// `3`.
fn split_priority(name: &str) -> Option<(String, &str)> {
    let (way, rest) = name.split_once("_prio")?;
    let (priority, what) = rest.split_once('_')?;
    let known = ["rx", "tx"].contains(&way) && ["pause", "discards"].contains(&what);
    let number = !priority.is_empty() && priority.bytes().all(|digit| digit.is_ascii_digit());
    (known && number).then(|| (format!("{way}_{what}"), priority))
}

/// Converts a driver's counter name to a valid Prometheus name: `rxVport` becomes `rx_vport`, and characters
/// other than letters, digits and underscores become underscores.
fn to_snake_case(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        let fits = character.is_ascii_alphanumeric() || character == '_';
        snake.push(if fits { character.to_ascii_lowercase() } else { '_' });
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_spiderpool() {
        let counted: Vec<(String, u64)> = [
            ("rx_vport_rdma_unicast_bytes", 7),
            ("tx_prio3_pause", 5),
            ("tx_prio4_pause", 6),
            ("rx_prio0_discards", 1),
            ("rx_prio0_bytes", 99),
            ("tx_prio_pause", 99),
            ("rx_packets", 99),
            ("rxVportBytes", 8),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut metrics = MetricFamilies::default();
        add_driver_statistics(&counted, &vec![("ifname", "mlx5_0".to_owned())], &mut metrics);
        let text = metrics.render();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "rdma_rx_discards_total{ifname=\"mlx5_0\",priority=\"0\"} 1",
            "rdma_rx_vport_bytes_total{ifname=\"mlx5_0\"} 8",
            "rdma_rx_vport_rdma_unicast_bytes_total{ifname=\"mlx5_0\"} 7",
            "rdma_tx_pause_total{ifname=\"mlx5_0\",priority=\"3\"} 5",
            "rdma_tx_pause_total{ifname=\"mlx5_0\",priority=\"4\"} 6",
        ];
        assert_eq!(lines, expected);
    }
}
