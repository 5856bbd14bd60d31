//! Embeds the cases in the binary, so that it can be copied to another machine.

use std::{env, error::Error, fmt::Write, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::var("CARGO_MANIFEST_DIR")?;
    println!("cargo::rerun-if-changed={folder}");
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        writeln!(list, "    ({name:?}, include_str!({:?})),", file.display().to_string())?;
    }
    list.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("cases.rs"), list)?;
    Ok(())
}
