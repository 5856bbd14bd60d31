//! Requests of a node to the API server, and their results.

use crate::batch::BlockWrite;
use crate::block::{IpBlock, IpBlockId};
use crate::block_index::IndexedBlock;
use crate::block_view::ResourceVersion;
use crate::ip_space::IpSpace;
use crate::labels::BlockScope;
use crate::sticky::StickyRecord;
use ferroband_model::Fault;

/// Namespace and name of a pod.
pub type PodName = (String, String);

/// One request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockCall {
    /// Write a block. Answered by [`CallOutcome::Block`].
    Write(BlockWrite),
    /// Read a block. Answered by [`CallOutcome::Block`].
    Read(IpBlockId),
    /// List the blocks with the label of the node. Answered by [`CallOutcome::Blocks`].
    ListOwn,
    /// List all blocks of a space, or of regions of it, consistently. Answered by [`CallOutcome::Blocks`].
    ListSpace(BlockScope),
    /// Read the index of a space. Answered by [`CallOutcome::Index`], empty if there is none.
    ReadIndex(IpSpace),
    /// Read the pointers to the addresses of a StatefulSet pod. Answered by [`CallOutcome::Sticky`], with a default
    /// record if there is none.
    ReadSticky(PodName),
    /// Write the pointers at the version of the record. Answered by [`CallOutcome::Sticky`].
    WriteSticky(PodName, StickyRecord),
}

/// Result of a [`BlockCall`].
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// The block after a write, or as it was read; `None` if it does not exist.
    Block(Option<(IpBlock, ResourceVersion)>),
    Blocks {
        blocks: Vec<(IpBlock, ResourceVersion)>,
        /// Names of the objects that cannot be read.
        unreadable: Vec<String>,
    },
    Index(Vec<IndexedBlock>),
    /// The record and its version after a read or a write.
    Sticky(StickyRecord),
    /// The object has changed. Nothing was written.
    Conflict,
    /// No response, or a temporary failure. A write may or may not have succeeded.
    Unavailable,
    /// The API server rejected the request, or returned an object that cannot be parsed.
    Rejected(Fault),
}
