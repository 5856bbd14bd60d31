//! State that the replaced plugins left on the node. DEL and GC undo what it describes.

pub(crate) mod multus;
