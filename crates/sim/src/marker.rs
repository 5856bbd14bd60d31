//! The marker file of a running simulation. It is written last and removed first: while it exists, the simulation
//! is complete.

use crate::{Error, Simulation, files};
use ferroband_kernel::Root;
use std::path::PathBuf;

pub(crate) fn path(root: &Root) -> PathBuf {
    root.run("ferroband/simulation.json")
}

pub(crate) fn read(root: &Root) -> Result<Option<Simulation>, Error> {
    files::read_json(&path(root))
}

pub(crate) fn write(root: &Root, simulation: &Simulation) -> Result<(), Error> {
    files::write_private_json(&path(root), simulation)
}

pub(crate) fn remove(root: &Root) -> Result<(), Error> {
    files::remove_file(&path(root))
}
