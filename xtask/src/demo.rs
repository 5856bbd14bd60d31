//! The product's main job, shown.
use anyhow::Result;
/// Show it.
pub fn demo() -> Result<()> {
    let lab = crate::lab::Lab::named("demo")?;
    crate::lab::up(&lab, &crate::lab::Up::again())
}
