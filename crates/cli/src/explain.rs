//! `ferroband explain`: describes error codes.

use crate::output::{OutputFormat, print};
use crate::table::{render, table};
use anyhow::bail;
use clap::Args;
use ferroband_model::FaultCode;
use serde_json::{Value, json};

/// Explain an error code
///
/// Every error message of Ferroband ends with a code in brackets, in pod events, conditions and on the
/// command line. This command prints the code's meaning, causes and remedies. Without a code it lists all
/// codes.
#[derive(Args, Debug)]
pub struct ExplainCommand {
    /// Error code, for example NoParent, or a CNI error number.
    code: Option<String>,

    /// Output format of the codes.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

impl ExplainCommand {
    pub fn run(self) -> anyhow::Result<()> {
        let codes = match &self.code {
            None => FaultCode::ALL.to_vec(),
            Some(query) => find_codes(query)?,
        };
        let described: Vec<Value> = codes.iter().copied().map(to_json).collect();
        print(self.output, &described, || match self.code {
            None => render_list(&codes),
            Some(_) => codes.iter().copied().map(render_code).collect::<Vec<_>>().join("\n"),
        })
    }
}

/// Finds the code whose name is `query`, or all codes whose CNI error number is `query`. Brackets around
/// `query` are ignored.
fn find_codes(query: &str) -> anyhow::Result<Vec<FaultCode>> {
    let word = query.trim_matches(['[', ']']);
    let number: Option<u32> = word.parse().ok();
    let fits = |code: &FaultCode| code.reason().eq_ignore_ascii_case(word) || number == Some(code.cni_code());
    let codes: Vec<_> = FaultCode::ALL.into_iter().filter(fits).collect();
    if codes.is_empty() {
        bail!("unknown error code `{query}`; run `ferroband explain` to list all codes");
    }
    Ok(codes)
}

fn to_json(code: FaultCode) -> Value {
    let about = code.explanation();
    json!({
        "code": code.reason(), "cniError": code.cni_code(), "retried": code.is_retried(),
        "meaning": about.meaning, "causes": about.causes, "remedies": about.remedies,
    })
}

fn render_list(codes: &[FaultCode]) -> String {
    let mut rows = table(["CODE", "CNI", "MEANING"]);
    for code in codes {
        rows.add_row([
            code.reason().to_owned(),
            code.cni_code().to_string(),
            code.explanation().meaning.to_owned(),
        ]);
    }
    render(rows)
}

fn render_code(code: FaultCode) -> String {
    let about = code.explanation();
    let again = if code.is_retried() { "; retried by the runtime" } else { "" };
    let points = |points: &[&str]| points.iter().map(|point| format!("  - {point}\n")).collect::<String>();
    format!(
        "{} (CNI error {}{again})\n\n{}\n\nCauses\n{}\nRemedies\n{}",
        code.reason(),
        code.cni_code(),
        about.meaning,
        points(about.causes),
        points(about.remedies)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_by_name_number_or_with_brackets() {
        for query in ["NoParent", "noparent", "[NoParent]", "103"] {
            assert_eq!(find_codes(query).unwrap(), [FaultCode::NoParent], "{query}");
        }
        assert!(find_codes("11").unwrap().len() > 2);
        assert!(find_codes("Nonsense").unwrap_err().to_string().contains("ferroband explain"));
    }
}
