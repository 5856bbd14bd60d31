//! `whereabouts.cni.cncf.io`: the allocation records of Whereabouts. Ferroband copies its allocations
//! to them.

mod ip_pool;
mod overlapping_range_ip_reservation;

pub use ip_pool::{IPPool, IPPoolSpec, IpAllocation};
pub use overlapping_range_ip_reservation::{
    OverlappingRangeIPReservation, OverlappingRangeIPReservationSpec,
};
