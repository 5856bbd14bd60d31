//! `cargo xtask dist`: builds a release in one folder.
//!
//! ```text
//! ferroband-ARCH-linux, ferroband-cni-ARCH-linux    static programs
//! ferroband-image-ARCH.tar                          the image: docker load, ctr images import
//! ferroband-tools-image-ARCH.tar                    the same with mstflint, opensm, perftest … of Debian
//! ferroband.yaml, crds.yaml                         manifests for kubectl apply
//! completions/, man/                                shell completions and manual pages
//! sbom.cdx.json                                     linked crates (CycloneDX)
//! provenance.json                                   what all of these were built from (in-toto, SLSA)
//! SHA256SUMS                                        of all of these
//! ```
//!
//! Two builds of one commit have the same checksums, in whatever folder they are made: `--reproduce` checks that.
//! Other architectures are only checked, which needs their standard library but no linker.

mod architectures;
mod bom;
mod checksums;
mod elf;
mod provenance;
mod reproduce;

use anyhow::{Context, Result, ensure};
use clap::Args;
use ferroband_lab::command::{command, output};
use ferroband_lab::image;
use ferroband_lab::progress::run_step;
use std::fs;
use std::path::{Path, PathBuf};

/// `cargo xtask dist`
#[derive(Args, Debug)]
pub struct DistArgs {
    /// Output folder [default: `dist` in cargo's target folder]; files of an earlier run are replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Skip the check that the sources compile for other architectures
    #[arg(long)]
    this_architecture: bool,
    /// Build the commit again in another folder, and fail if a checksum differs
    #[arg(long)]
    reproduce: bool,
}

/// Builds the release and prints its checksums.
pub fn dist(args: &DistArgs) -> Result<()> {
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => image::cargo_target_dir()?.join("dist"),
    };
    make(&folder)?;
    if !args.this_architecture {
        architectures::check_others();
    }
    if args.reproduce {
        reproduce::check(&folder)?;
    }
    print!("{}", fs::read_to_string(folder.join(checksums::FILE))?);
    println!("all in {}", folder.display());
    Ok(())
}

/// Builds the release for this architecture.
pub fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let earlier = checksums::listed(folder)?;
    let foreign = earlier.is_empty() && fs::read_dir(folder)?.next().is_some();
    ensure!(
        !foreign,
        "{} contains files that are not from an earlier release; use another folder",
        folder.display()
    );
    for file in &earlier {
        let _ = fs::remove_file(folder.join(file));
    }
    let product = image::build_product()?;
    let architecture = std::env::consts::ARCH;
    run_step("programs and image", |_| {
        for (from, name) in [(&product.ferroband, "ferroband"), (&product.cni, "ferroband-cni")] {
            ensure!(elf::is_static(&fs::read(from)?)?, "{} is not static", from.display());
            copy(from, &folder.join(format!("{name}-{architecture}-linux")))?;
        }
        copy(&product.archive, &folder.join(format!("ferroband-image-{architecture}.tar")))
    })?;
    let tools = image::build_tools_product(&product)?;
    copy(&tools, &folder.join(format!("ferroband-tools-image-{architecture}.tar")))?;
    run_step("definitions, manifests, completions, manual pages", |_| {
        write_generated(&product.ferroband, folder)
    })?;
    run_step("bill of materials", |_| {
        let bom = bom::checkout_bom(&["ferroband-cli", "ferroband-cni"], &image::rust_target())?;
        fs::write(folder.join("sbom.cdx.json"), bom).context("sbom.cdx.json")
    })?;
    run_step("provenance", |_| {
        let source = provenance::ReleaseSource::of_checkout(&image::rust_target())?;
        let statement = provenance::statement_of(folder, &source)?;
        fs::write(folder.join(provenance::FILE), statement).context(provenance::FILE)
    })?;
    checksums::write(folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Writes CRDs, manifests, completions and manual pages.
fn write_generated(ferroband: &Path, folder: &Path) -> Result<()> {
    let program = ferroband.to_string_lossy();
    let keep = |name: &str, args: &[&str]| -> Result<()> {
        let text = output(&mut command(&program, args))?;
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))
    };
    for below in ["completions", "man"] {
        fs::create_dir_all(folder.join(below)).with_context(|| format!("cannot create {below}"))?;
    }
    keep("crds.yaml", &["crds", "print"])?;
    keep("ferroband.yaml", &["manifests", "--image", &image::release_image_name()])?;
    for (shell, name) in crate::generate::SHELLS {
        keep(&format!("completions/{name}"), &["completions", shell])?;
    }
    output(command(&program, ["man", "--dir"]).arg(folder.join("man"))).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_earlier_run_are_found_by_the_checksum_list() {
        let folder = ferroband_lab::cache::folder("dist-test").unwrap().join(std::process::id().to_string());
        fs::create_dir_all(folder.join("man")).unwrap();
        fs::write(folder.join("b"), "b").unwrap();
        fs::write(folder.join("man/a"), "a").unwrap();
        assert_eq!(checksums::listed(&folder).unwrap(), Vec::<PathBuf>::new());
        checksums::write(&folder).unwrap();
        let text = fs::read_to_string(folder.join(checksums::FILE)).unwrap();
        // printf a | sha256sum
        let a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
        let b = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d";
        assert_eq!(text, format!("{b}  b\n{a}  man/a\n"));
        assert_eq!(checksums::listed(&folder).unwrap(), [PathBuf::from("b"), PathBuf::from("man/a")]);
        fs::write(folder.join("b"), "changed").unwrap();
        assert!(checksums::verify(&folder).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
