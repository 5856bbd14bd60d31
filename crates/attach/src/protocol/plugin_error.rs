//! The error that a foreign plugin printed.

use serde::Deserialize;
use std::process::Output;

/// The error object that a failed plugin printed on standard output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PluginError {
    /// Error code, from the specification or plugin-specific.
    #[serde(default)]
    pub code: u32,
    /// Error message in one line.
    #[serde(default)]
    pub msg: String,
    /// Longer description of the error; empty if the plugin printed none.
    #[serde(default)]
    pub details: String,
}

impl PluginError {
    /// Whether `code` is one of the two error codes of STATUS (SPEC 1.1.0: 50 and 51).
    pub(crate) fn is_status(&self) -> bool {
        matches!(self.code, 50 | 51)
    }

    /// Message and details in one line.
    pub(crate) fn text(&self) -> String {
        if self.details.is_empty() { self.msg.clone() } else { format!("{}; {}", self.msg, self.details) }
    }

    pub(crate) fn from_output(output: &Output) -> Self {
        if let Ok(reply) = serde_json::from_slice::<Self>(&output.stdout)
            && !(reply.msg.is_empty() && reply.code == 0)
        {
            return reply;
        }
        // The plugin did not print an error object. Its raw output is still the best clue.
        let texts =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).trim().to_owned());
        let outputs: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        let msg = if outputs.is_empty() { output.status.to_string() } else { outputs.join(" / ") };
        Self { code: 0, msg, details: String::new() }
    }
}
