//! What is done with an input. Every function accepts any bytes.

pub mod cluster;
pub mod cni;
pub mod kernel;
pub mod partition;
pub mod plan;
