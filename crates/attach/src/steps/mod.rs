//! The steps of a plan: how each plugin's part of an attachment is applied, checked and undone.

pub(crate) mod apply;
pub(crate) mod coordinator;
pub(crate) mod default_route;
pub mod delegate;
pub mod device_op;
pub(crate) mod ipoib;
pub(crate) mod rdma;
pub(crate) mod undo;
pub(crate) mod vf;
