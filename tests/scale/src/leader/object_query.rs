//! Which objects a request is about: path, name, selectors and paging.

use super::stored_object::StoredObject;

/// The target of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectPath {
    /// `/apis/<group>/<version>/<resource>` or `/api/v1/<resource>`, for all namespaces.
    pub collection: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl ObjectPath {
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let prefix = if parts.first() == Some(&"apis") { 3 } else { 2 };
        if parts.len() <= prefix {
            return None;
        }
        let root = parts.drain(..prefix).collect::<Vec<_>>().join("/");
        let namespace = (parts[0] == "namespaces" && parts.len() > 2).then(|| parts[1].to_owned());
        if namespace.is_some() {
            parts.drain(..2);
        }
        let mut parts = parts.into_iter().map(str::to_owned);
        let collection = format!("/{root}/{}", parts.next()?);
        Some(Self { collection, namespace, name: parts.next(), subresource: parts.next() })
    }

    /// The key of the object in its collection.
    pub fn key(&self, name: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }

    pub fn is_status(&self) -> bool {
        self.subresource.as_deref() == Some("status")
    }
}

/// Decoded parameters of a query.
#[derive(Clone, Debug, Default)]
pub struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), decode(value))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    pub fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }
}

/// Decodes `%xx` and `+`.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap_or(b'?')
            }
            byte => byte,
        };
        bytes.push(decoded);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Label and name selectors. Other field selectors select nothing less.
#[derive(Clone, Debug, Default)]
pub struct ObjectSelector {
    labels: Vec<LabelRule>,
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Clone, Debug)]
enum LabelRule {
    Equal(String, String),
    NotEqual(String, String),
    Present(String),
    Absent(String),
}

impl ObjectSelector {
    pub fn new(path: &ObjectPath, query: &QueryParameters) -> Self {
        let rules = query.get("labelSelector").into_iter().flat_map(|text| text.split(','));
        let fields = query.get("fieldSelector").into_iter().flat_map(|text| text.split(','));
        let name = fields.filter_map(|rule| rule.strip_prefix("metadata.name=")).next();
        Self {
            labels: rules.map(LabelRule::parse).collect(),
            name: name.map(|name| name.trim_start_matches('=').to_owned()),
            namespace: path.namespace.clone(),
        }
    }

    pub fn matches(&self, object: &StoredObject) -> bool {
        let namespace = || object.metadata.get("namespace").and_then(|namespace| namespace.as_str());
        self.name.as_deref().is_none_or(|name| name == object.name())
            && self.namespace.as_deref().is_none_or(|of| namespace() == Some(of))
            && self.labels.iter().all(|rule| rule.matches(object))
    }
}

impl LabelRule {
    fn parse(text: &str) -> Self {
        if let Some((key, value)) = text.split_once("!=") {
            return Self::NotEqual(key.trim().to_owned(), value.trim().to_owned());
        }
        if let Some((key, value)) = text.split_once('=') {
            return Self::Equal(key.trim().to_owned(), value.trim_start_matches('=').trim().to_owned());
        }
        match text.strip_prefix('!') {
            Some(key) => Self::Absent(key.trim().to_owned()),
            None => Self::Present(text.trim().to_owned()),
        }
    }

    fn matches(&self, object: &StoredObject) -> bool {
        match self {
            Self::Equal(key, value) => object.label(key) == Some(value),
            Self::NotEqual(key, value) => object.label(key) != Some(value),
            Self::Present(key) => object.label(key).is_some(),
            Self::Absent(key) => object.label(key).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_and_selectors_are_understood() {
        let path = ObjectPath::parse("/apis/a.b/v1/namespaces/n/things/x/status").unwrap();
        assert_eq!((path.collection.as_str(), path.key("x").as_str()), ("/apis/a.b/v1/things", "n/x"));
        assert!(path.is_status());
        let nodes = ObjectPath::parse("/api/v1/nodes").unwrap();
        assert_eq!((nodes.collection.as_str(), nodes.name.clone()), ("/api/v1/nodes", None));
        assert_eq!(ObjectPath::parse("/api/v1/namespaces/a").unwrap().name.as_deref(), Some("a"));
        let query =
            QueryParameters::parse("labelSelector=a%3Db%2Cc%21%3Dd&fieldSelector=metadata.name%3Dx&watch=1");
        let selector = ObjectSelector::new(&nodes, &query);
        let object = |name: &str, labels| {
            StoredObject::from_value(&json!({"metadata": {"name": name, "labels": labels}})).unwrap()
        };
        assert!(query.is_true("watch") && selector.matches(&object("x", json!({"a": "b"}))));
        assert!(!selector.matches(&object("y", json!({"a": "b"}))));
        assert!(!selector.matches(&object("x", json!({"a": "b", "c": "d"}))));
    }
}
