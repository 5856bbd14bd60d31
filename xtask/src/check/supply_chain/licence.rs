//! SPDX licence expressions.

/// Whether `allowed` licences satisfy the expression: one side of each `OR`, both sides of each `AND`. Old crates write
/// `/` instead of `OR`.
pub fn is_allowed(expression: &str, allowed: &[String]) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Words<'_> = spaced.split_whitespace().peekable();
    let result = any(&mut words, allowed)?;
    match words.next() {
        None => Ok(result),
        Some(word) => Err(format!("unexpected {word:?}")),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> Result<bool, String> {
    let mut result = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        result |= all(words, allowed)?;
    }
    Ok(result)
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> Result<bool, String> {
    let mut result = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        result &= one(words, allowed)?;
    }
    Ok(result)
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> Result<bool, String> {
    let word = words.next().ok_or("it ends too early")?;
    if word == "(" {
        let result = any(words, allowed)?;
        words.next_if_eq(&")").ok_or("a parenthesis is not closed")?;
        return Ok(result);
    }
    let name = match words.next_if_eq(&"WITH") {
        Some(_) => format!("{word} WITH {}", words.next().ok_or("WITH without an exception")?),
        None => word.to_owned(),
    };
    Ok(allowed.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions_are_evaluated() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND ISC", true),
            ("MIT AND GPL-3.0", false),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("GPL-3.0 OR MIT AND GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), Ok(expected), "{expression}");
        }
        for wrong in ["", "MIT OR", "(MIT", "MIT MIT", "MIT WITH"] {
            assert!(is_allowed(wrong, &allowed).is_err(), "{wrong:?}");
        }
    }
}
