//! The lab: a real Kubernetes cluster on this machine with simulated hardware, or with emulated machines that have
//! InfiniBand. Scenarios, the demo and the benchmarks use it as a library; `cargo xtask lab` is its command line.
//!
//! ```text
//! tools, programs ──▶ image, vm ──▶ cluster ──▶ swarm
//! (host packages,     (images,      (machines,  (many node daemons
//!  Kubernetes)         kernels)      kubectl)    against one cluster)
//! ```
//!
//! Slow builds are cached outside the checkout (`cache`).

pub mod cache;
pub mod cluster;
pub mod command;
pub mod image;
pub mod programs;
pub mod progress;
pub mod swarm;
pub mod tools;
pub mod vm;
pub mod workspace;
