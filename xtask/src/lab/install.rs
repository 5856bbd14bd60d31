//! Ferroband in the lab, put in as a user would.

use super::Lab;
use anyhow::{Result, bail};

/// Install it with simulated hardware of `profile` on each node.
pub fn install(_lab: &Lab, profile: &str) -> Result<()> {
    bail!("nothing to install yet (profile {profile})")
}
