//! IPoIB interfaces for pods.
//!
//! ```text
//! host:  parent ── child "veth…" (made, down) ──┐ moved
//! pod:                                          └▶ looked up by name, named net1, MTU, up
//! ```

use crate::config::ConfigFields;
use crate::journal::InterfaceIdentity;
use crate::plan::IpoibStep;
use crate::result::ResultInterface;
use crate::{CniContext, CniResult, Error, FailPoint};
use ferroband_kernel::{IpoibChild, Link, Netns, RouteSocket};
use ferroband_model::PKey;
use serde_json::{Map, Value};
use std::fs;

/// What of a configuration can be refused before anything is made.
pub(crate) fn preflight(
    machine: &CniContext<'_>,
    child: &IpoibStep,
    config: &Map<String, Value>,
) -> Result<(), Error> {
    machine.host.ipoib_parent(&child.parent)?;
    if ConfigFields(config).ipam_type()? == Some("dhcp") {
        return Err(Error::Dhcp);
    }
    Ok(())
}

/// The step that a plugin's own configuration asks for.
pub(crate) fn parse_config(fields: ConfigFields<'_>) -> Result<IpoibStep, Error> {
    let parent = fields.text("master")?.filter(|parent| !parent.is_empty()).ok_or(Error::NoMaster)?;
    let mtu = fields.integer("mtu")?.filter(|mtu| *mtu > 0);
    let wrong = |_| Error::Field { field: "mtu".to_owned(), wanted: "a number that fits an MTU" };
    let mtu = mtu.map(u32::try_from).transpose().map_err(wrong)?;
    Ok(IpoibStep { parent: parent.to_owned(), mtu, pkey: parse_pkey(fields)? })
}

/// The partition that a configuration names: text, or a number as YAML gives it without quotes.
fn parse_pkey(fields: ConfigFields<'_>) -> Result<Option<PKey>, Error> {
    let wrong =
        || Error::Field { field: "pkey".to_owned(), wanted: "a P_Key from 0x0001 to 0x7ffe (1 to 32766)" };
    let key: PKey = match fields.get("pkey") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.is_empty() => return Ok(None),
        Some(value) => serde_json::from_value(value.clone()).map_err(|_| wrong())?,
    };
    // The default partition is the parent's.
    if key.base() == PKey::DEFAULT.base() { Err(wrong()) } else { Ok(Some(key.full())) }
}

/// The name of a child until it is in the pod, made from the stem of the sandbox's files and a position.
///
/// It is the same each time, so that it can be found even without a journal. Like upstream's it begins with
/// `veth`, which keeps NetworkManager's hands off it.
pub(crate) fn temporary_name(stem: &str, position: usize) -> String {
    format!("{}{:02x}", temporary_prefix(stem), position & 0xff)
}

/// What the temporary names of one sandbox begin with.
pub(crate) fn temporary_prefix(stem: &str) -> String {
    // FNV-1a: short, the same on every machine and in every release.
    let hash = stem.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("veth{:09x}", hash >> 28)
}

/// Make a child in the host's namespace and tell how to recognize it.
pub(crate) fn create(
    machine: &CniContext<'_>,
    child: &IpoibStep,
    temporary: &str,
) -> Result<InterfaceIdentity, Error> {
    let parent = machine.host.ipoib_parent(&child.parent)?;
    // Key and mode follow the parent, unless a key is asked for: then the child comes up when the port has that key.
    let new = IpoibChild { parent: parent.index, pkey: child.pkey.unwrap_or(parent.pkey), mode: parent.mode };
    machine.host.create_ipoib_child(temporary, &new)?;
    (machine.fail_point)(FailPoint::InterfaceCreated);
    let link = find_link(&mut RouteSocket::open()?, temporary, "the host")?;
    Ok(InterfaceIdentity {
        temporary: temporary.to_owned(),
        kind: link.kind.clone(),
        addresses: vec![format_address(&link.address)],
    })
}

/// Move a child into the sandbox and set it up there under its final name.
pub(crate) fn move_to_pod(
    machine: &CniContext<'_>,
    netns: &Netns,
    inside: &mut RouteSocket,
    child: &IpoibStep,
    temporary: &str,
    ifname: &str,
) -> Result<Link, Error> {
    let mut here = RouteSocket::open()?;
    let index = find_link(&mut here, temporary, "the host")?.index;
    here.move_link(index, netns)?;
    (machine.fail_point)(FailPoint::InterfaceMoved);

    // By name: the sandbox may have another interface with the index that this one had in the host
    // (`__dev_change_net_namespace` in net/core/dev.c gives a new one then).
    let index = find_link(inside, temporary, "the sandbox")?.index;
    // As upstream does; it must be under the name that the kernel has now.
    write_sysctl(machine, netns, &format!("net/ipv4/conf/{temporary}/proxy_arp"), "1")?;
    inside.set_down(index)?;
    inside.rename_link(index, ifname)?;
    (machine.fail_point)(FailPoint::InterfaceRenamed);
    if let Some(mtu) = child.mtu {
        inside.set_mtu(index, mtu)?;
    }
    inside.set_up(index)?;
    let link = find_link(inside, ifname, "the sandbox")?;
    warn_mtu(&link, child.mtu);
    Ok(link)
}

/// Datagram mode takes any MTU up to the port's and then keeps to the multicast group's.
pub(crate) fn warn_mtu(link: &Link, asked: Option<u32>) {
    match asked {
        Some(asked) if asked != link.mtu => {
            eprintln!(
                "ferroband: interface {} has MTU {}, not {asked}: the kernel chose",
                link.name, link.mtu
            );
        }
        _ => {}
    }
}

/// The interface as a result tells it.
pub(crate) fn build_result(
    link: &Link,
    sandbox: &str,
    config: &Map<String, Value>,
) -> Result<CniResult, Error> {
    let interface = ResultInterface {
        name: link.name.clone(),
        mac: format_address(&link.address),
        mtu: Some(link.mtu),
        sandbox: sandbox.to_owned(),
        ..ResultInterface::default()
    };
    let dns = ConfigFields(config).object("dns")?.map(|dns| dns.0.clone()).unwrap_or_default();
    Ok(CniResult { interfaces: vec![interface], dns, ..CniResult::default() })
}

/// Remove the interface of `trace` wherever it is: in the host or in the sandbox, under either name.
pub(crate) fn remove(
    machine: &CniContext<'_>,
    netns: Option<&Netns>,
    trace: &InterfaceIdentity,
    ifname: &str,
) -> Result<(), Error> {
    // Both the name and the address are the pod's to change, so either will do, for an interface of our kind. The
    // name was free when we began. As long as the kind is not known, it has not been moved.
    let same =
        |link: &Link| !link.address.is_empty() && trace.addresses.contains(&format_address(&link.address));
    let kind = |link: &Link| trace.kind.is_some() && link.kind == trace.kind;
    if let Some(netns) = netns {
        let ours = |link: &Link| kind(link) && (link.name == ifname || same(link));
        delete_links(&mut RouteSocket::open_in(netns)?, |link| link.name == trace.temporary || ours(link))?;
    }
    let mut here = RouteSocket::open()?;
    if let Some(link) = here.link(&trace.temporary)? {
        here.delete_link(link.index)?;
    }
    if netns.is_none() {
        // A namespace that dies hands its IPoIB interfaces back to the host, as they are called or as
        // `dev<index>` if that name is taken (`default_device_exit_net` in net/core/dev.c).
        let named = |link: &Link| link.name == ifname || link.name.starts_with("dev");
        delete_links(&mut here, |link| kind(link) && same(link) && named(link))?;
    }
    (machine.fail_point)(FailPoint::StepUndone);
    Ok(())
}

/// Delete every interface that `ours` says is ours.
pub(crate) fn delete_links(route: &mut RouteSocket, ours: impl Fn(&Link) -> bool) -> Result<(), Error> {
    for link in route.links()?.iter().filter(|link| ours(link)) {
        route.delete_link(link.index)?;
    }
    Ok(())
}

/// Write `value` to a setting of the sandbox.
pub(crate) fn write_sysctl(
    machine: &CniContext<'_>,
    netns: &Netns,
    setting: &str,
    value: &str,
) -> Result<(), Error> {
    let path = machine.root.proc_("sys").join(setting);
    // /proc/sys/net shows the namespace of the thread that looks.
    let written = netns.run(|| fs::write(&path, value))?;
    written.map_err(|source| Error::Sysctl { path, source })
}

/// A hardware address as text.
pub(crate) fn format_address(address: &[u8]) -> String {
    address.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// The interface called exactly `name`.
pub(crate) fn find_link(route: &mut RouteSocket, name: &str, place: &str) -> Result<Link, Error> {
    let link = route.link(name)?.filter(|link| link.name == name);
    link.ok_or_else(|| Error::NoInterface { ifname: name.to_owned(), place: place.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(config: Value) -> Result<IpoibStep, Error> {
        parse_config(ConfigFields(config.as_object().unwrap()))
    }

    #[test]
    fn case_17_a_master_is_needed() {
        for config in [json!({}), json!({"master": ""}), json!({"master": null})] {
            assert!(matches!(step(config), Err(Error::NoMaster)));
        }
        assert_eq!(step(json!({"master": "ib0"})).unwrap().parent, "ib0");
    }

    #[test]
    fn case_22_only_a_positive_mtu_is_set() {
        let mtu = |mtu: Value| step(json!({"master": "ib0", "mtu": mtu})).map(|step| step.mtu);
        assert_eq!(mtu(json!(1496)).unwrap(), Some(1496));
        for unset in [json!(0), json!(-5), json!(null)] {
            assert_eq!(mtu(unset).unwrap(), None);
        }
        assert!(matches!(mtu(json!(1u64 << 40)), Err(Error::Field { .. })));
    }

    #[test]
    fn temporary_names_fit_and_are_told_apart() {
        let names = [
            temporary_name("c1", 0),
            temporary_name("c1", 255),
            temporary_name("c2", 0),
            temporary_name("c1", 256),
        ];
        for name in &names {
            assert!(name.len() == 15 && name.starts_with("veth"), "{name}");
        }
        assert!(
            names[0].starts_with(&temporary_prefix("c1")) && !names[2].starts_with(&temporary_prefix("c1"))
        );
        assert_eq!(names[0], temporary_name("c1", 0));
    }
}
