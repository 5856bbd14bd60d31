//! Stage allocate: what a container that holds a resource gets.
//!
//! ```text
//!           ┌─ device files     /dev/infiniband/uverbs0, rdma_cm
//! unit ids ─┼─ environment      PCIDEVICE_<RESOURCE>, …_INFO
//!           ├─ device-info file for CNI plugins that look for it
//!           └─ CDI, where that is asked for
//! ```

mod cdi;
mod container_allocator;
mod device_info;
mod device_specs;
mod environment;
mod function_devices;
#[cfg(test)]
mod tests;

pub use container_allocator::ContainerAllocator;
