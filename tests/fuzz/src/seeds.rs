//! Valid inputs, from which the mutations start.

mod cni;
mod fabric;
mod netlink;
mod objects;

pub use cni::{annotations, configurations, definitions, journals, socket_messages};
pub use fabric::{partitions_files, ufm_answers};
pub use netlink::netlink_messages;
pub use objects::{admission_reviews, network_objects};

fn to_bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
