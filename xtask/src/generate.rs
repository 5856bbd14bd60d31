//! Files that are generated and committed.

use anyhow::Result;

/// Whether the committed files are what the sources give.
pub fn check() -> Result<()> {
    Ok(())
}
