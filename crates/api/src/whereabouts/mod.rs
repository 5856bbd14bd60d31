//! `whereabouts.cni.cncf.io`: the records of Whereabouts, for us projections of the granules.

mod ip_pool;
mod overlapping_range_ip_reservation;

pub use ip_pool::{IPPool, IPPoolSpec, IpAllocation};
pub use overlapping_range_ip_reservation::{
    OverlappingRangeIPReservation, OverlappingRangeIPReservationSpec,
};
