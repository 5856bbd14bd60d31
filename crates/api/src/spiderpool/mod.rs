//! `spiderpool.spidernet.io`: Spiderpool's pools, endpoints and network configurations.

mod coordinator;
mod endpoint;
mod ip_pool;
mod multus_config;
mod sections;

pub use coordinator::{CoordinatorSpec, SpiderCoordinator, SpiderCoordinatorStatus};
pub use endpoint::{EndpointDetail, EndpointIp, SpiderEndpoint, SpiderEndpointFields, SpiderEndpointStatus};
pub use ip_pool::{
    PoolRoute, SpiderIPPool, SpiderIPPoolSpec, SpiderIPPoolStatus, SpiderReservedIP, SpiderReservedIPSpec,
};
pub use multus_config::{SpiderMultusConfig, SpiderMultusConfigSpec};
pub use sections::{
    BondSection, IbSriovSection, IpPools, IpoibSection, OvsSection, SriovSection, TrunkRange, VlanSection,
};
