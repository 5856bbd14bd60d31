//! Addresses that a pod requests, for example by `ips` in its networks annotation.
//!
//! A requested address comes from the pools of the network like any other address: it must be in one of them, and
//! it is recorded in its block. Otherwise a pod could take the address of another pod or of a host.

use crate::batch::AddressRequest;
use crate::error::Error;
use crate::json_options::JsonOptions;
use crate::range::{parse_lenient_address, parse_lenient_subnet};
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::IpAddr;
use std::sync::Arc;

/// An address that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedAddress {
    /// Where the address was requested: `IP` of `CNI_ARGS`, or a path in the plugin configuration.
    field: String,
    text: String,
    address: IpAddr,
}

impl RequestedAddress {
    /// Reads the requested addresses: `arguments` (`IP` of `CNI_ARGS`), and `runtimeConfig.ips` and
    /// `args.cni.ips` of the plugin configuration. An address that is requested several times counts once.
    pub fn read_all<'a>(
        arguments: impl IntoIterator<Item = &'a str>,
        plugin: &Map<String, Value>,
    ) -> Result<Vec<Self>, Error> {
        let arguments = arguments.into_iter().map(|text| ("IP".to_owned(), text));
        let mut requested: Vec<Self> = Vec::new();
        let runtime_config = read_ips(plugin, &["runtimeConfig"])?;
        let cni_args = read_ips(plugin, &["args", "cni"])?;
        for (field, text) in arguments.chain(runtime_config).chain(cni_args) {
            let one = Self::parse(field, text.trim())?;
            if !requested.iter().any(|known| known.address == one.address) {
                requested.push(one);
            }
        }
        Ok(requested)
    }

    fn parse(field: String, text: &str) -> Result<Self, Error> {
        let address =
            parse_lenient_address(text).or_else(|| parse_lenient_subnet(text).map(|subnet| subnet.addr()));
        match address {
            Some(address) => Ok(Self { field, text: text.into(), address }),
            None => Err(Error::InvalidRequest { cause: format!("{field}: '{text}' is not an address") }),
        }
    }

    /// Returns the address with the prefix length of the request. Returns an error if it has none.
    pub(crate) fn with_prefix(&self) -> Result<IpNet, Error> {
        let Self { field, text, .. } = self;
        parse_lenient_subnet(text).ok_or_else(|| Error::InvalidRequest {
            cause: format!("{field}: '{text}' is not an address with a prefix length"),
        })
    }
}

/// Reads the list `ips` of the object at `path`, if there is one. Keys are case-insensitive.
fn read_ips<'a>(plugin: &'a Map<String, Value>, path: &[&str]) -> Result<Vec<(String, &'a str)>, Error> {
    let invalid = |error: Error| Error::InvalidRequest { cause: error.to_string() };
    let mut options = JsonOptions::new("", plugin);
    for key in path {
        let Some(value) = options.value(key) else { return Ok(Vec::new()) };
        options = JsonOptions::from_element(options.field_path(key), value).map_err(invalid)?;
    }
    options.texts("ips").map_err(invalid)
}

/// Restricts `requests`, which belong to one interface, to the requested addresses. Each requested address takes
/// the place of an assigned one from the same pool. Further requested addresses of that pool are added.
///
/// Returns an error if a requested address is in none of the pools.
pub fn restrict_to_requested(
    requests: &mut Vec<AddressRequest>,
    requested: &[RequestedAddress],
) -> Result<(), Error> {
    let unrestricted = requests.clone();
    let mut restricted = vec![false; requests.len()];
    for RequestedAddress { address, .. } in requested {
        let pool_of = |request: &AddressRequest| {
            request.pools.iter().find(|pool| pool.can_keep(*address)).map(|pool| pool.restricted_to(*address))
        };
        let pools: Vec<_> = unrestricted.iter().map(pool_of).collect();
        let containing = || pools.iter().enumerate().filter_map(|(at, pool)| Some((at, pool.as_ref()?)));
        let Some((position, pool)) = containing().find(|(at, _)| !restricted[*at]).or(containing().next())
        else {
            let pools = unrestricted.iter().flat_map(|request| &request.pools);
            let whole_pools = pools.filter(|pool| pool.requested().is_none());
            let pools = whole_pools.map(|pool| pool.describe()).collect();
            return Err(Error::OutsidePools { address: *address, pools });
        };
        let mut request =
            AddressRequest { pools: vec![Arc::new(pool.clone())], ..unrestricted[position].clone() };
        if restricted[position] {
            let of_family =
                |request: &&AddressRequest| request.pools.iter().any(|other| other.family() == pool.family());
            let ordinal = requests.iter().filter(of_family).count();
            request.ordinal = u8::try_from(ordinal).unwrap_or(u8::MAX);
            requests.push(request);
        } else {
            restricted[position] = true;
            requests[position] = request;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whereabouts::WhereaboutsConfig;
    use crate::{AddressPlanner, BlockAddition, BlockView, BlockWrite, IpBlock, ResourceVersion};
    use ferroband_model::{FaultCode, PodRef};
    use serde_json::json;

    fn requests(pod: &str, ipam: Value, ips: &[&str]) -> Result<Vec<AddressRequest>, Error> {
        let config = WhereaboutsConfig::parse(ipam.as_object().unwrap()).unwrap();
        let pod = PodRef { namespace: "ns".into(), name: pod.into(), uid: format!("uid-{pod}") };
        let mut requests = config.requests(&pod, false, "net1", &format!("c-{}", pod.name));
        let requested = RequestedAddress::read_all(ips.iter().copied(), &Map::new())?;
        restrict_to_requested(&mut requests, &requested).map(|()| requests)
    }

    fn plan(view: &mut BlockView, requests: &[AddressRequest]) -> Result<Vec<String>, Error> {
        let planner = AddressPlanner { node: "n1", node_count: 1000, attempt: 0 };
        let plan = planner.plan_assignments(view, requests);
        for write in plan.writes {
            let BlockWrite::Add(BlockAddition { id, entries, .. }) = write else { panic!("{write:?}") };
            let known = view.get(&id).map(|(block, _)| block.clone());
            let mut block = known.unwrap_or_else(|| IpBlock::new(id, None));
            block.entries.extend(entries);
            view.observe(block, ResourceVersion("1".into()));
        }
        match plan.refusals.into_iter().next() {
            Some(refusal) => Err(refusal.error),
            None => Ok(plan.assignments.iter().map(|assigned| assigned.address.to_string()).collect()),
        }
    }

    #[test]
    fn requested_address_is_recorded_and_never_given_twice() {
        let mut view = BlockView::default();
        let range = || json!({"type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.9"]});
        let first = requests("a", range(), &["10.0.0.1/8"]).unwrap();
        assert_eq!(plan(&mut view, &first).unwrap(), ["10.0.0.1/24"]);
        let recorded = view.iter().flat_map(|(block, _)| block.entries.clone()).collect::<Vec<_>>();
        assert_eq!((recorded.len(), recorded[0].1.pool.as_str()), (1, "10.0.0.0/24"));
        assert_eq!(plan(&mut view, &first).unwrap(), ["10.0.0.1/24"], "repeated call");
        assert_eq!(plan(&mut view, &requests("b", range(), &[]).unwrap()).unwrap(), ["10.0.0.2/24"]);

        let error = plan(&mut view, &requests("c", range(), &["10.0.0.2"]).unwrap()).unwrap_err();
        assert_eq!(error.fault("network x").code, FaultCode::AddressHeld);
        let text = error.to_string();
        assert!(["10.0.0.2", "10.0.0.0/24", "ns/b", "n1"].iter().all(|part| text.contains(part)), "{text}");
        let error = requests("c", range(), &["10.0.0.9"]).unwrap_err();
        assert!(error.to_string().contains("10.0.0.1-10.0.0.8, 10.0.0.10-10.0.0.254"), "{error}");
    }

    #[test]
    fn withheld_address_is_refused() {
        let config = json!({"type": "whereabouts", "range": "10.0.0.0/29"});
        let mut requests = requests("a", config, &["10.0.0.3"]).unwrap();
        let pool = requests[0].pools[0].withholding([([10, 0, 0, 3].into(), [10, 0, 0, 3].into())]);
        requests[0].pools = vec![Arc::new(pool)];
        let error = plan(&mut BlockView::default(), &requests).unwrap_err().to_string();
        assert!(error.contains("10.0.0.3") && error.contains("not assignable"), "{error}");
    }

    #[test]
    fn each_requested_address_takes_the_place_of_one_of_its_pool_and_the_rest_is_added() {
        let dual =
            || json!({"type": "whereabouts", "range": "10.0.0.0/24", "ipRanges": [{"range": "fd00::/120"}]});
        let assigned = |ips: &[&str]| plan(&mut BlockView::default(), &requests("a", dual(), ips)?);
        assert_eq!(assigned(&["fd00::7"]).unwrap(), ["10.0.0.1/24", "fd00::7/120"]);
        assert_eq!(assigned(&["fd00::7", "10.0.0.7"]).unwrap(), ["10.0.0.7/24", "fd00::7/120"]);
        let three = assigned(&["10.0.0.7", "10.0.0.8", "10.0.0.7/24"]).unwrap();
        assert_eq!(three, ["10.0.0.7/24", "fd00::1/120", "10.0.0.8/24"]);
        assert!(matches!(assigned(&["10.0.0.7", "10.0.1.1"]), Err(Error::OutsidePools { .. })));
    }
}
