//! Which address next.

use crate::draft::Draft;
use crate::granule::GranuleId;
use crate::pool::Pool;
use crate::view::Outline;
use std::collections::VecDeque;
use std::net::IpAddr;

/// A pool is ample while it has this many free granules for each node.
const FREE_PER_NODE: u128 = 4;

/// The addresses of one pool in the order in which one node takes them.
///
/// ```text
/// Held ──▶ Ahead ──▶ Open ──▶ Others
///  │        │         │        └ granules other nodes hold: their free addresses, before the pool is called full
///  │        │         └ granules nobody holds, made where missing, shared with every node
///  │        └ whole free granules, while the pool is ample
///  └ granules this node holds
/// ```
pub(crate) struct Chooser<'a> {
    pool: &'a Pool,
    node: &'a str,
    nodes: usize,
    attempt: u32,
    stage: Stage,
    queue: VecDeque<GranuleId>,
    /// Where to go on looking for free or open granules.
    cursor: Option<IpAddr>,
    looked: bool,
    /// Free granules left.
    free: u128,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Held,
    Ahead,
    Open,
    Others,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(pool: &'a Pool, draft: &Draft<'_>, node: &'a str, nodes: usize, attempt: u32) -> Self {
        let offered = |granule: &Outline<'_>| pool.offered(granule.id.first) != 0;
        let taken = draft.of(pool).filter(offered).filter(|granule| !granule.is_free()).count();
        let free = pool.granules().saturating_sub(taken as u128);
        let queue = VecDeque::new();
        Self { pool, node, nodes, attempt, stage: Stage::Held, queue, cursor: None, looked: false, free }
    }

    /// The next free address and the node that shall hold its granule, if the granule has no holder.
    pub(crate) fn next(&mut self, draft: &Draft<'_>) -> Option<(GranuleId, u8, Option<&'a str>)> {
        loop {
            while let Some(id) = self.queue.front() {
                let Some(offset) = draft.free_offset(self.pool, id) else {
                    self.queue.pop_front();
                    continue;
                };
                if self.stage != Stage::Ahead {
                    return Some((id.clone(), offset, None));
                }
                let mine = draft.outline(id).is_some_and(|granule| granule.node == Some(self.node));
                if !mine && !self.ample() {
                    self.enter(Stage::Open);
                    break;
                }
                if !mine {
                    self.free -= 1;
                }
                return Some((id.clone(), offset, Some(self.node)));
            }
            if self.queue.is_empty() && !self.refill(draft) {
                match self.stage {
                    Stage::Held => self.enter(if self.ample() { Stage::Ahead } else { Stage::Open }),
                    Stage::Ahead => self.enter(Stage::Open),
                    Stage::Open => self.enter(Stage::Others),
                    Stage::Others => return None,
                }
            }
        }
    }

    fn ample(&self) -> bool {
        self.free >= FREE_PER_NODE * self.nodes.max(1) as u128 && self.free > 0
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.queue.clear();
        self.cursor = None;
        self.looked = false;
    }

    /// Finds more granules for this stage; false when there are none.
    fn refill(&mut self, draft: &Draft<'_>) -> bool {
        match self.stage {
            Stage::Held | Stage::Others => {
                if self.looked {
                    return false;
                }
                let wanted = |holder: &str| (holder == self.node) == (self.stage == Stage::Held);
                self.queue = draft
                    .of(self.pool)
                    .filter(|granule| granule.node.is_some_and(wanted))
                    .map(|granule| granule.id.clone())
                    .collect();
                if self.stage == Stage::Others {
                    self.spread(self.queue.len());
                }
            }
            Stage::Ahead => {
                self.look_further(draft, |granule| granule.is_none_or(|granule| granule.is_free()));
            }
            // One's own too: another pool of the batch may have taken it since the first stage.
            Stage::Open => {
                let node = self.node;
                let open = |granule: Outline<'_>| granule.node.is_none_or(|holder| holder == node);
                self.look_further(draft, |granule| granule.is_none_or(open));
            }
        }
        self.looked = true;
        !self.queue.is_empty()
    }

    /// Queues the next granules of the pool that are `wanted` and have something free, at first from the lowest
    /// on.
    fn look_further(&mut self, draft: &Draft<'_>, wanted: impl Fn(Option<Outline<'_>>) -> bool) {
        // A node that lost a race looks at more of them and starts elsewhere than its rivals. The first try takes
        // the lowest, so a quiet pool fills from its beginning as people expect.
        let window = 4usize.pow(self.attempt.min(5));
        let skip = usize::from(self.cursor.is_some());
        let space = self.pool.space();
        let found = self
            .pool
            .granules_from(self.cursor)
            .skip(skip)
            .map(|first| GranuleId { space: space.clone(), first })
            .filter(|id| wanted(draft.outline(id)) && draft.free_offset(self.pool, id).is_some())
            .take(window);
        self.queue = found.collect();
        if let Some(last) = self.queue.back() {
            self.cursor = Some(last.first);
        }
        if !self.looked {
            self.spread(window);
        }
    }

    /// Starts at another place within the first `window` for each node and attempt.
    fn spread(&mut self, window: usize) {
        let window = window.min(self.queue.len());
        if self.attempt > 0 && window > 1 {
            let seed = self.node.bytes().chain(self.attempt.to_le_bytes());
            let hash = seed.fold(0xcbf29ce484222325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3)
            });
            self.queue.rotate_left((hash % window as u64) as usize);
        }
    }
}
