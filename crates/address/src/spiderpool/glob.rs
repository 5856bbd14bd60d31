//! Glob patterns for pool names: `*`, `?` and `[…]`.

/// Whether `pattern` contains wildcards.
pub(super) fn is_pattern(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Whether `name` matches `pattern`, with shell rules.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Position of the last star in the pattern, and position in the name where its match ends. On a mismatch the match
    // of the last star is extended by one character. Backtracking further is never needed.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => class(&pattern[p..], name[n]),
            Some(c) if *c == name[n] => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => {
                p += length;
                n += 1;
            }
            (None, Some((at, taken))) => {
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Returns the length of the bracket expression at the start of `pattern` if the expression matches `c`.
fn class(pattern: &[char], c: char) -> Option<usize> {
    // A closing bracket right after the opening one is a member of the set and does not end the expression.
    let close = pattern.iter().skip(2).position(|p| *p == ']')? + 2;
    let (negated, members) = match pattern[1] {
        '!' | '^' => (true, &pattern[2..close]),
        _ => (false, &pattern[1..close]),
    };
    let mut inside = false;
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            inside |= (members[at]..=members[at + 2]).contains(&c);
            at += 3;
        } else {
            inside |= members[at] == c;
            at += 1;
        }
    }
    (inside != negated).then_some(close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_shell_globs() {
        for (pattern, name, expected) in [
            ("v4-*", "v4-91", true),
            ("v4-*", "v6-91", false),
            ("*", "anything", true),
            ("*-91", "v4-91", true),
            ("*a*b", "xaxxbab", true),
            ("v4-?1", "v4-91", true),
            ("v4-?", "v4-91", false),
            ("v[46]-91", "v6-91", true),
            ("v[0-4]-91", "v6-91", false),
            ("v[!6]-91", "v4-91", true),
            ("gpu[1-8]", "gpu8", true),
            ("gpu[1-8]", "gpu5", true),
            ("gpu[1-8]", "gpu-", false),
            ("gpu[!1-8]", "gpu5", false),
            ("gpu[148]", "gpu2", false),
            ("gpu[148]", "gpu4", true),
            ("gpu[1-]", "gpu-", true),
            ("gpu[1-]", "gpu1", true),
            ("gpu[1-]", "gpu2", false),
            ("v4*", "v4", true),
            ("v4**", "v4", true),
            ("v4-9", "v4-", false),
            ("[", "[", false),
            ("v4", "v4", true),
            ("", "v4", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(is_pattern("a*") && is_pattern("a[1]") && !is_pattern("v4-91"));
    }
}
