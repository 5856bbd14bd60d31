//! `ferroband node --dry-run`: shows the changes to the adapters that the node daemon would make.

use crate::{
    connection::block_on,
    output::{OutputFormat, print},
    table::{render, table},
};
use anyhow::Context;
use ferroband_api::sriov::SriovNetworkNodeState;
use ferroband_node::{
    NodeSettings,
    configure::{DryRun, dry_run},
};
use std::{fs, path::Path};

pub fn show(settings: NodeSettings, file: Option<&Path>, output: OutputFormat) -> anyhow::Result<()> {
    let state = file.map(read_state).transpose()?;
    let result = block_on(async { Ok(dry_run(settings, state).await?) })?;
    print(output, &result, || render_table(&result))
}

fn read_state(path: &Path) -> anyhow::Result<SriovNetworkNodeState> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text)
        .with_context(|| format!("{} is not a SriovNetworkNodeState", path.display()))
}

fn render_table(result: &DryRun) -> String {
    let mut text = "no changes\n".to_owned();
    if !result.actions.is_empty() {
        let mut rows = table(["TARGET", "CHANGE", "WAITS FOR"]);
        for action in &result.actions {
            rows.add_row([&action.target, &action.change, action.waits_for.as_deref().unwrap_or_default()]);
        }
        text = render(rows);
    }
    result.problems.iter().fold(text, |text, problem| format!("{text}problem: {problem}\n"))
}
