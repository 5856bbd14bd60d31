//! Names of Whereabouts' IPPool and OverlappingRangeIPReservation objects.

use crate::IpSpace;
use crate::ip_space::ip_to_number;
use ipnet::IpNet;
use std::net::IpAddr;

/// Where Whereabouts records an address: an IPPool object, and a key in its `spec.allocations`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhereaboutsAllocationKey {
    pub name: String,
    /// `spec.range` of the IPPool object.
    pub range: String,
    /// Key in `spec.allocations`: the decimal offset from the first address of the range.
    pub offset: String,
}

/// Returns the allocation key of `address` in the range `pool`; `None` if `pool` is not a range that contains it.
pub fn allocation_key(space: &IpSpace, pool: &str, address: IpAddr) -> Option<WhereaboutsAllocationKey> {
    let subnet: IpNet = match pool.split_once('-') {
        Some((_, last)) => last.parse().ok()?,
        None => pool.parse().ok()?,
    };
    let range = subnet.trunc();
    if !range.contains(&address) {
        return None;
    }
    let offset = ip_to_number(address) - ip_to_number(range.network());
    let name = format!("{}{}", network_prefix(space), replace_separators(&range.to_string()));
    Some(WhereaboutsAllocationKey { name, range: range.to_string(), offset: offset.to_string() })
}

/// Returns the name of the OverlappingRangeIPReservation of `address`; `None` if the space allows overlapping ranges.
pub fn reservation_name(space: &IpSpace, address: IpAddr) -> Option<String> {
    if space.as_str().starts_with("pool/") {
        return None;
    }
    let mut text = address.to_string();
    if text.ends_with(':') {
        text.push('0');
    }
    Some(format!("{}{}", network_prefix(space), replace_separators(&text)))
}

/// Returns the address that the IPPool `name` with `range` stores under `offset`, and its IP space. Returns `None` if
/// the name does not match the range, or the range or offset is malformed.
pub fn parse_allocation_key(name: &str, range: &str, offset: &str) -> Option<(IpSpace, IpAddr)> {
    let range: IpNet = range.parse().ok()?;
    let plain = replace_separators(&range.trunc().to_string());
    let network = name.strip_suffix(&plain)?.strip_suffix('-');
    let space = network.map_or_else(IpSpace::default_space, IpSpace::network);
    let at = ip_to_number(range.trunc().addr()).checked_add(offset.parse().ok()?)?;
    let address = match range {
        IpNet::V4(_) => IpAddr::from(std::net::Ipv4Addr::from(u32::try_from(at).ok()?)),
        IpNet::V6(_) => IpAddr::from(std::net::Ipv6Addr::from(at)),
    };
    Some((space, address))
}

/// Returns the ranges that the name of an IPPool may contain. The name is `[<network>-][<node>-]<range>`, in which
/// `:` and `/` are replaced by `-`, so an IPv6 range may be ambiguous.
pub fn ranges_in_name(name: &str) -> Vec<IpNet> {
    let starts = std::iter::once(0).chain(name.match_indices('-').map(|(at, _)| at + 1));
    let parse = |text: &str| -> Option<IpNet> {
        let (address, prefix) = text.rsplit_once('-')?;
        format!("{}/{prefix}", address.replace('-', ":")).parse().ok()
    };
    starts.filter_map(|start| parse(&name[start..])).map(|range: IpNet| range.trunc()).collect()
}

/// Returns the space of an IPPool that belongs to a node slice, given the space that its name suggests. With node
/// slices (`node_slice_size`), the name is `[<network>-]<node>-<range>`. Returns `None` if the name contains no node.
pub fn node_slice_space(space: &IpSpace, is_node: impl Fn(&str) -> bool) -> Option<IpSpace> {
    let prefix = space.as_str().strip_prefix("network/")?;
    if is_node(prefix) {
        return Some(IpSpace::default_space());
    }
    let mut splits = prefix.match_indices('-').map(|(at, _)| (&prefix[..at], &prefix[at + 1..]));
    splits.find(|(_, node)| is_node(node)).map(|(network, _)| IpSpace::network(network))
}

fn network_prefix(space: &IpSpace) -> String {
    space.as_str().strip_prefix("network/").map(|name| format!("{name}-")).unwrap_or_default()
}

fn replace_separators(text: &str) -> String {
    text.replace([':', '/'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: ipam W01, ipam W24, ipam W26
    #[test]
    fn object_names_match_whereabouts() {
        let place = |space: &IpSpace, pool: &str, address: &str| {
            allocation_key(space, pool, address.parse().unwrap()).map(|place| (place.name, place.offset))
        };
        let default = IpSpace::default_space();
        let named = |name: &str, offset: &str| Some((name.to_owned(), offset.to_owned()));
        assert_eq!(place(&default, "192.168.0.0/24", "192.168.0.1"), named("192.168.0.0-24", "1"));
        assert_eq!(
            place(&default, "192.168.1.5-192.168.1.25/24", "192.168.1.7"),
            named("192.168.1.0-24", "7")
        );
        assert_eq!(place(&default, "2001:db8::/64", "2001:db8::5"), named("2001-db8---64", "5"));
        assert_eq!(place(&IpSpace::network("a"), "10.0.0.0/8", "10.0.1.0"), named("a-10.0.0.0-8", "256"));
        assert_eq!(place(&default, "10.0.0.0/8", "192.168.0.1"), None);
        assert_eq!(place(&default, "v4-91", "192.168.0.1"), None);
        let reservation = |space: &IpSpace, address: &str| reservation_name(space, address.parse().unwrap());
        assert_eq!(reservation(&default, "2001:db8::5").as_deref(), Some("2001-db8--5"));
        assert_eq!(reservation(&default, "2001:db9::").as_deref(), Some("2001-db9--0"));
        assert_eq!(reservation(&IpSpace::network("a"), "10.0.0.1").as_deref(), Some("a-10.0.0.1"));
        assert_eq!(reservation(&IpSpace::from_text("pool/10.0.0.0/24"), "10.0.0.1"), None);
    }

    // Case: ipam W14
    #[test]
    fn offsets_are_lossless() {
        let address = "2001:db9::".parse().unwrap();
        let place = allocation_key(&IpSpace::default_space(), "2001:db8::/30", address).unwrap();
        assert_eq!(place.offset, (1u128 << 96).to_string());
        assert_eq!(
            parse_allocation_key(&place.name, &place.range, &place.offset),
            Some((IpSpace::default_space(), address))
        );
    }

    // Case: ipam W41
    #[test]
    fn allocations_of_whereabouts_are_read() {
        let read = |name: &str, offset: &str| {
            parse_allocation_key(name, "192.168.0.0/24", offset)
                .map(|(space, address)| (space.to_string(), address.to_string()))
        };
        assert_eq!(read("192.168.0.0-24", "7"), Some(("default".into(), "192.168.0.7".into())));
        assert_eq!(read("a-192.168.0.0-24", "7"), Some(("network/a".into(), "192.168.0.7".into())));
        assert_eq!(read("192.168.0.0-24", "x"), None);
        assert_eq!(read("other", "7"), None);
    }

    #[test]
    fn ranges_are_found_in_the_name_of_an_ip_pool() {
        let ranges =
            |name: &str| -> Vec<String> { ranges_in_name(name).iter().map(ToString::to_string).collect() };
        assert_eq!(ranges("10.0.0.0-24"), ["10.0.0.0/24"]);
        assert_eq!(ranges("a-node-1-10.0.0.0-24"), ["10.0.0.0/24"]);
        assert!(ranges("a-2001-db8---64").contains(&"2001:db8::/64".to_owned()));
        assert_eq!(ranges("é-x"), Vec::<String>::new());
    }

    #[test]
    fn pool_of_a_node_slice_belongs_to_the_network_without_the_node() {
        let nodes = |name: &str| ["node-1", "b"].contains(&name);
        let space = |prefix: &str| node_slice_space(&IpSpace::network(prefix), nodes).map(|s| s.to_string());
        assert_eq!(space("node-1"), Some("default".into()));
        assert_eq!(space("net-a-node-1"), Some("network/net-a".into()));
        assert_eq!((space("net-a"), space("node-2")), (None, None));
        assert_eq!(node_slice_space(&IpSpace::default_space(), nodes), None);
    }
}
