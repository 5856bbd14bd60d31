//! Stage allocate: what a container gets with a resource.
//!
//! ```text
//!             ┌─ device files     /dev/infiniband/uverbs0, rdma_cm
//! device ids ─┼─ environment      PCIDEVICE_<RESOURCE>, …_INFO
//!             ├─ device-info file for CNI plugins
//!             └─ CDI names, if enabled
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
