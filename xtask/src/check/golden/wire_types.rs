//! The types that serde writes or reads, as a peer or a disk sees them: keys and variants, without the types' own names.

use super::super::sources::Source;
use syn::visit::{self, Visit};

/// One line for each type: how it is tagged, and the names of its fields or variants on the wire.
pub fn lines(sources: &[Source]) -> Vec<String> {
    let mut found = WireTypes::default();
    for source in sources.iter().filter(|source| source.is_product()) {
        found.krate = source.crate_name();
        source.visit_production(&mut found);
    }
    found.lines.sort();
    found.lines
}

#[derive(Default)]
struct WireTypes {
    krate: String,
    lines: Vec<String>,
}

impl<'ast> Visit<'ast> for WireTypes {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if super::super::sources::is_test_item(item) {
            return;
        }
        let shape = match item {
            syn::Item::Struct(item) if is_wire(&item.attrs) => {
                let container = SerdeAttributes::read(&item.attrs);
                Some((container.clone(), format!("struct {}", fields(&item.fields, container.rename_all()))))
            }
            syn::Item::Enum(item) if is_wire(&item.attrs) => {
                let container = SerdeAttributes::read(&item.attrs);
                let variants: Vec<_> =
                    item.variants.iter().map(|variant| variant_shape(variant, &container)).collect();
                Some((container, format!("enum {}", variants.join(" | "))))
            }
            _ => None,
        };
        if let Some((container, shape)) = shape {
            let attributes = container.shown();
            self.lines.push(format!("{}: {attributes}{shape}", self.krate));
        }
        visit::visit_item(self, item);
    }
}

fn variant_shape(variant: &syn::Variant, container: &SerdeAttributes) -> String {
    let attributes = SerdeAttributes::read(&variant.attrs);
    let ident = variant.ident.to_string();
    let name = match container.is_untagged() {
        true => "_".to_owned(),
        false => attributes.rename().unwrap_or_else(|| apply_rule(&ident, container.rename_all(), true)),
    };
    let rule = attributes.rename_all().or(container.value("rename_all_fields"));
    let body = match &variant.fields {
        syn::Fields::Unit => String::new(),
        other => format!(" {}", fields(other, rule)),
    };
    format!("{}{name}{body}", attributes.shown())
}

fn fields(fields: &syn::Fields, rule: Option<&str>) -> String {
    let named = fields.iter().map(|field| {
        let attributes = SerdeAttributes::read(&field.attrs);
        let name = match &field.ident {
            None => "_".to_owned(),
            Some(ident) => attributes.rename().unwrap_or_else(|| apply_rule(&ident.to_string(), rule, false)),
        };
        format!("{}{name}", attributes.shown())
    });
    format!("{{ {} }}", named.collect::<Vec<_>>().join(", "))
}

/// Whether serde derives something for a type.
fn is_wire(attributes: &[syn::Attribute]) -> bool {
    let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let mut names = derives.flat_map(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.tokens.clone().into_iter().map(|token| token.to_string()).collect(),
        _ => Vec::new(),
    });
    names.any(|name| name == "Serialize" || name == "Deserialize")
}

/// The `#[serde(…)]` attributes of one item, as (name, value) pairs.
#[derive(Clone, Default)]
struct SerdeAttributes(Vec<(String, Option<String>)>);

impl SerdeAttributes {
    fn read(attributes: &[syn::Attribute]) -> Self {
        let mut pairs = Vec::new();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            // An attribute that cannot be parsed does not compile either.
            let _ = attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let value = match meta.value() {
                    Ok(value) => Some(value.parse::<syn::LitStr>()?.value()),
                    Err(_) => None,
                };
                pairs.push((name, value));
                Ok(())
            });
        }
        Self(pairs)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).and_then(|(_, value)| value.as_deref())
    }

    fn rename(&self) -> Option<String> {
        self.value("rename").map(str::to_owned)
    }

    fn is_untagged(&self) -> bool {
        self.0.iter().any(|(name, _)| name == "untagged")
    }

    fn rename_all(&self) -> Option<&str> {
        self.value("rename_all")
    }

    /// What changes the wire form apart from names. Functions are code names, so only their presence counts.
    fn shown(&self) -> String {
        let shown = self.0.iter().filter_map(|(name, value)| match name.as_str() {
            "tag" | "content" | "alias" => Some(format!("#{name}={}", value.as_deref().unwrap_or_default())),
            "untagged"
            | "transparent"
            | "flatten"
            | "skip"
            | "deny_unknown_fields"
            | "default"
            | "with"
            | "deserialize_with"
            | "serialize_with"
            | "skip_serializing"
            | "skip_serializing_if" => Some(format!("#{name}")),
            _ => None,
        });
        shown.map(|text| text + " ").collect()
    }
}

/// A name under serde's `rename_all`.
fn apply_rule(name: &str, rule: Option<&str>, is_variant: bool) -> String {
    let name = name.trim_start_matches("r#");
    let words: Vec<String> = if is_variant {
        let mut words: Vec<String> = Vec::new();
        for letter in name.chars() {
            match words.last_mut() {
                Some(word) if !letter.is_uppercase() => word.push(letter),
                _ => words.push(letter.to_string()),
            }
        }
        words.iter().map(|word| word.to_lowercase()).collect()
    } else {
        name.split('_').map(str::to_owned).collect()
    };
    let capital = |word: &String| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    };
    match rule {
        Some("lowercase") => words.concat(),
        Some("UPPERCASE") => words.concat().to_uppercase(),
        Some("snake_case") => words.join("_"),
        Some("SCREAMING_SNAKE_CASE") => words.join("_").to_uppercase(),
        Some("kebab-case") => words.join("-"),
        Some("PascalCase") => words.iter().map(capital).collect(),
        Some("camelCase") => words.iter().take(1).cloned().chain(words.iter().skip(1).map(capital)).collect(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::apply_rule;

    #[test]
    fn names_follow_serdes_rules() {
        assert_eq!(apply_rule("mac_address", Some("camelCase"), false), "macAddress");
        assert_eq!(apply_rule("MoveToPod", Some("camelCase"), true), "moveToPod");
        assert_eq!(apply_rule("MoveToPod", Some("kebab-case"), true), "move-to-pod");
        assert_eq!(apply_rule("MoveToPod", None, true), "MoveToPod");
        assert_eq!(apply_rule("r#type", None, false), "type");
    }
}
