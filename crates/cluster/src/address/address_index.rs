//! Keeps the index of every IP space: which blocks exist, and how full they are. Nodes that need another block read it.

use super::{caches::AddressCaches, write_pacer::WritePacer};
use crate::{
    ControllerContext, Error,
    object_writes::{apply_object, delete_object},
};
use ferroband_address::{IndexedBlock, IpSpace, SPACE_LABEL, space_label};
use ferroband_api::ferroband::{AddressIndex, AddressIndexSpec};
use ferroband_daemon::{Controller, ControllerTiming};
use kube::Api;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Number of blocks in one object. A block needs at most 51 bytes, so an object stays below 500 kB.
const BLOCKS_PER_OBJECT: usize = 8000;
/// Shortest and longest pause between two writes of one object. Nodes use the index as a hint only.
const WRITE_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The controller that writes AddressIndexes.
pub struct AddressIndexController {
    context: ControllerContext,
    caches: AddressCaches,
    pacer: WritePacer,
}

impl AddressIndexController {
    pub fn new(context: &ControllerContext, caches: AddressCaches) -> Self {
        Self { context: context.clone(), caches, pacer: WritePacer::new(WRITE_PAUSE.0, WRITE_PAUSE.1) }
    }

    fn desired(&self) -> BTreeMap<String, AddressIndexSpec> {
        let mut spaces: BTreeMap<IpSpace, BTreeSet<IndexedBlock>> = BTreeMap::new();
        for cached in self.caches.blocks.values() {
            spaces.entry(cached.block.space.clone()).or_default().insert(IndexedBlock::of(&cached.block));
        }
        spaces.into_iter().flat_map(|(space, blocks)| index_objects(&space, &blocks)).collect()
    }
}

/// Returns name and content of the objects of one space.
fn index_objects(space: &IpSpace, blocks: &BTreeSet<IndexedBlock>) -> Vec<(String, AddressIndexSpec)> {
    let lines: Vec<String> = blocks.iter().map(ToString::to_string).collect();
    let shards = lines.chunks(BLOCKS_PER_OBJECT).zip(0..);
    let object = |(blocks, shard): (&[String], i32)| {
        let spec = AddressIndexSpec { space: space.as_str().to_owned(), shard, blocks: blocks.to_vec() };
        (format!("{}-{shard}", space.slug()), spec)
    };
    shards.map(object).collect()
}

impl Controller for AddressIndexController {
    const NAME: &'static str = "address index";
    const TIMING: ControllerTiming =
        ControllerTiming { debounce: Duration::from_secs(1), ..ControllerTiming::DEFAULT };
    type Error = Error;

    async fn reconcile(&self) -> Result<Option<Duration>, Error> {
        let (desired, mut next, mut failed) = (self.desired(), None, None);
        let api: Api<AddressIndex> = Api::all(self.context.client.clone());
        for (name, spec) in &desired {
            if self.caches.indexes.get("", name).as_deref() == Some(spec) {
                continue;
            }
            if let Some(wait) = self.pacer.wait(name) {
                next = Some(next.map_or(wait, |next: Duration| next.min(wait)));
                continue;
            }
            self.pacer.record(name);
            let labels = json!({SPACE_LABEL: space_label(&IpSpace::from_text(&spec.space))});
            let object = json!({"metadata": {"labels": labels}, "spec": spec});
            failed = failed.or(apply_object(&api, name, object).await.err());
        }
        for ((_, name), _) in self.caches.indexes.list() {
            if !desired.contains_key(&name) {
                failed = failed.or(delete_object(&api, &name).await.err());
            }
        }
        self.pacer.retain(|name| desired.contains_key(name));
        failed.map_or(Ok(next), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(firsts: impl Iterator<Item = u32>) -> BTreeSet<IndexedBlock> {
        let block = |number: u32| IndexedBlock {
            first: std::net::Ipv4Addr::from(number * 16).into(),
            used: (number % 17) as u8,
            held: number.is_multiple_of(2),
        };
        firsts.map(block).collect()
    }

    #[test]
    fn objects_of_the_index_stay_below_500_kb() {
        let longest = |number: u32| IndexedBlock {
            first: std::net::Ipv6Addr::from(
                0xffff_ffff_ffff_ffff_1111_1111_1111_0000 + (u128::from(number) << 4),
            )
            .into(),
            used: 16,
            held: true,
        };
        let all = (0..8001).map(longest).collect();
        let objects = index_objects(&IpSpace::network("a"), &all);
        assert_eq!(objects.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a-0", "a-1"]);
        for (name, spec) in objects {
            let size = serde_json::to_string(&spec).unwrap().len();
            assert!(size < 500_000, "{name}: {size} bytes");
        }
    }

    proptest! {
        #[test]
        fn the_index_lists_every_block_once_and_in_order(firsts in proptest::collection::btree_set(0u32..100_000, 0..300)) {
            let expected = blocks(firsts.into_iter());
            let objects = index_objects(&IpSpace::default_space(), &expected);
            let listed: Vec<IndexedBlock> =
                objects.iter().flat_map(|(_, spec)| &spec.blocks).map(|line| line.parse().unwrap()).collect();
            prop_assert_eq!(listed, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
