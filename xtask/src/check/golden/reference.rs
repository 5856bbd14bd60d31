//! The names in the generated reference: headings, first columns, defaults, and words in code marks or brackets. No prose.

use anyhow::{Context, Result};
use ferroband_lab::cache;
use std::fs;

/// One line for each heading and table row of `docs/reference`, reduced to its names.
pub fn lines() -> Result<Vec<String>> {
    let folder = cache::checkout().join("docs/reference");
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        pages.push(entry?.path());
    }
    pages.sort();
    let mut lines = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut section = String::new();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                section = heading.to_owned();
                lines.push(format!("{name}: {section}"));
            } else if let Some((_, number)) = line.rsplit_once(" (CNI error ") {
                lines.push(format!(
                    "{name}: {section}: CNI error {}",
                    number.split([',', ')']).next().unwrap_or_default()
                ));
            } else if let Some(row) = line.strip_prefix("| `") {
                lines.push(format!("{name}: {section}: {}", names_of(row)));
            }
        }
    }
    Ok(lines)
}

/// The first cell, what the second has in brackets (environment variables) or lists as values, and short further cells.
fn names_of(row: &str) -> String {
    let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
    let mut names = vec![cells[0].trim_end_matches('`').to_owned()];
    for cell in &cells[1..] {
        if let Some((_, variable)) = cell.rsplit_once('[').filter(|_| cell.ends_with(']')) {
            names.push(format!("[{variable}"));
        }
        if let Some((_, values)) = cell.rsplit_once("One of ") {
            names.push(values.split('.').next().unwrap_or_default().to_owned());
        }
        if cell.starts_with('`') && cell.ends_with('`') && !cell.contains(' ') {
            names.push((*cell).to_owned());
        }
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::names_of;

    #[test]
    fn a_row_keeps_its_names_and_loses_its_prose() {
        let row = "--log FILTER` | What to log. One of a, b. [FERROBAND_LOG] | `info` |";
        assert_eq!(names_of(row), "--log FILTER [FERROBAND_LOG] a, b `info`");
    }
}
