//! Generates `codes.md`, the reference of error codes, from the texts of `ferroband explain`.

use super::page_header;
use ferroband_model::FaultCode;

pub fn page() -> String {
    let mut text = page_header(
        "Error codes",
        "Every error message ends with its code in brackets, in pod events, conditions and on the command line. \
         Codes never change.\nThe number is the CNI error code. `ferroband explain CODE` prints the same text.",
    );
    for code in FaultCode::ALL {
        let about = code.explanation();
        let again = if code.is_retried() { ", retried automatically" } else { "" };
        let points = |points: &[&str]| points.iter().map(|point| format!("- {point}\n")).collect::<String>();
        text.push_str(&format!(
            "\n## {}\n\n{} (CNI error {}{again})\n\nCauses:\n\n{}\nRemedies:\n\n{}",
            code.reason(),
            about.meaning,
            code.cni_code(),
            points(about.causes),
            points(about.remedies)
        ));
    }
    text
}
