//! Natural sort order: gpu2 before gpu10.

use std::cmp::Ordering;

/// Compares two names. Runs of digits are compared as numbers.
pub fn natural_cmp(a: &str, b: &str) -> Ordering {
    let (mut a_rest, mut b_rest) = (a, b);
    loop {
        let (a_part, b_part) = (leading_run(a_rest), leading_run(b_rest));
        if a_part.is_empty() || b_part.is_empty() {
            // One name is at its end and both are equal so far. The shorter one is first. Names whose numbers are
            // equal but written differently (01, 1) are compared as text.
            return a_rest.len().cmp(&b_rest.len()).then_with(|| a.cmp(b));
        }
        let digits = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        let order = match digits(a_part) && digits(b_part) {
            true => {
                let (a, b) = (a_part.trim_start_matches('0'), b_part.trim_start_matches('0'));
                a.len().cmp(&b.len()).then_with(|| a.cmp(b))
            }
            false => a_part.cmp(b_part),
        };
        if order != Ordering::Equal {
            return order;
        }
        (a_rest, b_rest) = (&a_rest[a_part.len()..], &b_rest[b_part.len()..]);
    }
}

/// Returns the run of digits, or of other characters, at the start of the text.
fn leading_run(text: &str) -> &str {
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    // Case: ipam M19
    #[test]
    fn digits_are_compared_as_numbers() {
        let mut names: Vec<String> = (1..=12).rev().map(|n| format!("s/gpu{n}-ib")).collect();
        names.extend(["s/gpu".to_owned(), "s/gpu02-ib".to_owned(), "a/z".to_owned()]);
        names.sort_by(|a, b| natural_cmp(a, b));
        assert_eq!(names[..5], ["a/z", "s/gpu", "s/gpu1-ib", "s/gpu02-ib", "s/gpu2-ib"]);
        assert_eq!(names.last().unwrap(), "s/gpu12-ib");
        let huge = "9".repeat(50);
        assert_eq!(natural_cmp(&format!("a{huge}"), "a1"), Ordering::Greater);
    }
}
