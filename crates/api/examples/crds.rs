//! Writes all CRDs to a directory, one file each.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("usage: crds <directory>")?);
    std::fs::create_dir_all(&folder)?;
    for file in ferroband_api::render_crds()? {
        std::fs::write(folder.join(&file.file_name), file.yaml)?;
        println!("{}", folder.join(file.file_name).display());
    }
    Ok(())
}
