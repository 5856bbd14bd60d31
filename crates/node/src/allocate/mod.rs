//! Stage allocate: what a container that holds a resource gets.
//!
//! ```text
//!           ┌─ device files     /dev/infiniband/uverbs0, rdma_cm
//! unit ids ─┼─ environment      PCIDEVICE_<RESOURCE>, …_INFO
//!           ├─ device-info file for CNI plugins that look for it
//!           └─ CDI, where that is asked for
//! ```

mod cdi;
mod desk;
mod environment;
mod files;
mod given;
mod info_file;
#[cfg(test)]
mod tests;

pub use desk::Desk;
