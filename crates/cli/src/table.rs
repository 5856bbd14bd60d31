//! Tables in the style of `kubectl get`.

use comfy_table::{ContentArrangement, Table, presets};

/// Creates a table without borders that has the column headers `heads`.
pub fn table<'a>(heads: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(heads.into_iter().collect::<Vec<_>>());
    table
}

/// Renders the table without trailing spaces.
pub fn render(mut table: Table) -> String {
    let columns = table.column_count();
    for column in 0..columns {
        if let Some(column) = table.column_mut(column) {
            column.set_padding((0, 2));
        }
    }
    let lines = table.to_string();
    lines.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
