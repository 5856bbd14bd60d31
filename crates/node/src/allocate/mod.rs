//! Stage allocate: what a container that holds a resource gets.

mod devices;

pub use devices::container;
