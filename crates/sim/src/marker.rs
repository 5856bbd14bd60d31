//! The marker file of a running simulation. It is written last and removed first: while it exists, the simulation
//! is complete.

use crate::{Error, Simulation, files};
use ferroband_kernel::Root;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

pub(crate) fn path(root: &Root) -> PathBuf {
    root.run("ferroband/simulation.json")
}

pub(crate) fn read(root: &Root) -> Result<Option<Simulation>, Error> {
    let path = path(root);
    match fs::read(&path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(simulation) => Ok(Some(simulation)),
            Err(source) => Err(Error::InvalidFile { path, source }),
        },
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(files::file_error("read", &path, source)),
    }
}

pub(crate) fn write(root: &Root, simulation: &Simulation) -> Result<(), Error> {
    let path = path(root);
    match serde_json::to_vec_pretty(simulation) {
        Ok(bytes) => files::write_private_file(&path, &bytes),
        Err(source) => Err(Error::InvalidFile { path, source }),
    }
}

pub(crate) fn remove(root: &Root) -> Result<(), Error> {
    files::remove_file(&path(root))
}
