//! Verdicts of guest tests, parsed from the machine's console.

/// Result of a guest test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestVerdict {
    /// Name of the test.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// Duration in the guest.
    pub seconds: f32,
    /// Why it failed; empty if it passed.
    pub reason: String,
}

impl TestVerdict {
    /// Parses `VERDICT pass NAME 1.2s` or `VERDICT fail NAME 1.2s REASON`.
    pub fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once("VERDICT ")?;
        let mut words = rest.trim_end().splitn(4, ' ');
        let passed = match words.next()? {
            "pass" => true,
            "fail" => false,
            _ => return None,
        };
        let name = words.next()?.to_owned();
        let seconds = words.next()?.strip_suffix('s')?.parse().ok()?;
        let reason = words.next().unwrap_or_default().to_owned();
        Some(Self { name, passed, seconds, reason })
    }

    /// A failure for a test without a verdict.
    pub fn missing(name: &str, reason: &str) -> Self {
        Self { name: name.to_owned(), passed: false, seconds: 0.0, reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::TestVerdict;

    #[test]
    fn pass_and_fail_are_parsed() {
        let pass = TestVerdict::parse("VERDICT pass netns-death 3.4s\r").unwrap();
        assert!(pass.passed && pass.name == "netns-death" && (pass.seconds - 3.4).abs() < 0.01);
        let fail = TestVerdict::parse("[   12.1] VERDICT fail verbs 60.0s no answer within 60 s").unwrap();
        assert!(!fail.passed);
        assert_eq!(fail.reason, "no answer within 60 s");
    }

    #[test]
    fn other_lines_are_ignored() {
        for line in [
            "",
            "VERDICT",
            "VERDICT maybe x 1.0s",
            "VERDICT pass x",
            "verdict pass x 1.0s",
            "VERDICT pass x 1.0",
        ] {
            assert_eq!(TestVerdict::parse(line), None, "{line}");
        }
    }
}
