//! StickyAddresses that the leader writes and deletes: the pointers from StatefulSet pods to their entries.

use super::foreign_records::RecordSlot;
use crate::{
    Error,
    object_writes::{delete_object, get_object, unless_outdated},
};
use ferroband_address::{AddressAllocation, StickyAddress};
use ferroband_api::ferroband::StickyAddresses;
use ferroband_daemon::{
    addresses::{sticky_from_object, sticky_to_object},
    api_call::with_timeout,
};
use kube::{Api, Client, api::PostParams};

/// Makes the pod's pointers include the address of `entry`. Must be called before the entry is written, so that a node
/// that starts the pod finds it. Returns `false` if the object was written concurrently, and the next pass must try again.
pub async fn add_pointer(
    client: &Client,
    slot: &RecordSlot,
    entry: &AddressAllocation,
) -> Result<bool, Error> {
    let Some((namespace, name)) = entry.pod.split_once('/') else { return Ok(true) };
    let api: Api<StickyAddresses> = Api::namespaced(client.clone(), namespace);
    let found = get_object(&api, name).await?;
    let mut record = found.as_ref().map(sticky_from_object).unwrap_or_default();
    let changed = record.set(StickyAddress {
        interface: entry.interface.clone(),
        ordinal: entry.ordinal,
        space: slot.space.clone(),
        address: slot.address,
    });
    if !changed {
        return Ok(true);
    }
    let (object, parameters) = (sticky_to_object(namespace, name, &record), PostParams::default());
    let written = match found {
        Some(_) => with_timeout(api.replace(name, &parameters, &object)).await,
        None => with_timeout(api.create(&parameters, &object)).await,
    };
    Ok(unless_outdated(written, "write", format!("StickyAddresses {}", entry.pod))?.is_some())
}

/// Deletes the pointers of a pod whose addresses are no longer kept for the next pod of its name.
pub async fn delete_pointers(client: &Client, pod: &str) -> Result<(), Error> {
    let Some((namespace, name)) = pod.split_once('/') else { return Ok(()) };
    let api: Api<StickyAddresses> = Api::namespaced(client.clone(), namespace);
    delete_object(&api, name).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroband_address::IpSpace;
    use ferroband_testbed::fake_api::FakeApi;
    use serde_json::json;

    #[tokio::test]
    async fn a_pointer_is_added_once_beside_those_of_other_interfaces() {
        let (api, objects) =
            (FakeApi::default(), "/apis/ferroband.io/v1alpha1/namespaces/ns/stickyaddresses");
        let add = async |interface: &str, last: u8| {
            let slot = RecordSlot { space: IpSpace::default_space(), address: [10, 0, 0, last].into() };
            let entry = AddressAllocation {
                pod: "ns/db-0".into(),
                interface: interface.into(),
                ..AddressAllocation::default()
            };
            assert!(add_pointer(&api.client(), &slot, &entry).await.unwrap());
        };
        add("net1", 1).await;
        add("net2", 2).await;
        add("net1", 1).await;
        let stored = api.get_object(&format!("{objects}/db-0")).unwrap();
        let address = |number: usize| stored["spec"]["addresses"][number]["address"].clone();
        assert_eq!((address(0), address(1)), (json!("10.0.0.1"), json!("10.0.0.2")));
        let writes = api.list_calls().iter().filter(|call| !call.starts_with("GET")).count();
        assert_eq!(writes, 2);
        delete_pointers(&api.client(), "ns/db-0").await.unwrap();
        assert_eq!(api.list_calls().last(), Some(&format!("DELETE {objects}/db-0")));
    }
}
