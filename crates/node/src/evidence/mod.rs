//! Compares what is recorded for this node's pods with the sandboxes that exist on the node.

pub mod sandboxes;
mod scan;

pub use scan::Evidence;
