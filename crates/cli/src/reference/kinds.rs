//! Generates `kinds.md`, the reference of all kinds and their fields, from the CRDs.

use super::{markdown_table, page_header};
use ferroband_api::all_crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

pub fn page() -> String {
    let mut text = page_header(
        "Kinds",
        "All fields that the CRDs describe. Kinds of other projects preserve fields that are not listed here.\n\
         Fields marked * are required.",
    );
    for definition in all_crds() {
        text.push_str(&kind(&definition));
    }
    text
}

fn kind(definition: &CustomResourceDefinition) -> String {
    let names = &definition.spec.names;
    let mut text = format!("\n## {}\n", names.kind);
    for version in &definition.spec.versions {
        let Some(schema) = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref())
        else {
            continue;
        };
        let scope = if definition.spec.scope == "Cluster" { "cluster-wide" } else { "namespaced" };
        let short = names
            .short_names
            .as_ref()
            .map(|names| format!(", short name {}", names.join(", ")))
            .unwrap_or_default();
        text.push_str(&format!("\n`{}/{}`, {scope}{short}.", definition.spec.group, version.name));
        text.push_str(&schema.description.as_ref().map(|about| format!(" {about}")).unwrap_or_default());
        let mut rows = Vec::new();
        for name in ["spec", "status"] {
            if let Some(part) = schema.properties.as_ref().and_then(|fields| fields.get(name)) {
                fields(part, name, &mut rows);
            }
        }
        text.push_str("\n\n");
        text.push_str(&markdown_table(["Field", "Type", "Meaning"], rows));
    }
    text
}

fn fields(schema: &JSONSchemaProps, path: &str, rows: &mut Vec<[String; 3]>) {
    for (name, field) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        let needed = schema.required.iter().flatten().any(|required| required == name);
        let star = if needed { "\\*" } else { "" };
        rows.push([format!("`{path}`{star}"), kind_of(field), meaning(field)]);
        below(field, &path, rows);
    }
}

fn below(field: &JSONSchemaProps, path: &str, rows: &mut Vec<[String; 3]>) {
    fields(field, path, rows);
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &field.items {
        below(item, &format!("{path}[]"), rows);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(value)) = &field.additional_properties {
        below(value, &format!("{path}.<key>"), rows);
    }
}

fn kind_of(field: &JSONSchemaProps) -> String {
    if field.x_kubernetes_int_or_string == Some(true) {
        return "number or string".to_owned();
    }
    if let Some(values) = &field.enum_ {
        let values: Vec<_> =
            values.iter().map(|value| value.0.to_string().trim_matches('"').to_owned()).collect();
        return format!("one of {}", values.join(", "));
    }
    match (field.type_.as_deref(), &field.items, &field.additional_properties) {
        (Some("array"), Some(JSONSchemaPropsOrArray::Schema(item)), _) => {
            format!("list of {}", kind_of(item))
        }
        (Some("object"), _, Some(JSONSchemaPropsOrBool::Schema(value))) => {
            format!("map to {}", kind_of(value))
        }
        (Some(kind), _, _) => kind.to_owned(),
        (None, _, _) => "any".to_owned(),
    }
}

fn meaning(field: &JSONSchemaProps) -> String {
    let mut text = field.description.clone().unwrap_or_default();
    if let Some(default) = &field.default {
        text.push_str(&format!(" Default: `{}`.", default.0));
    }
    let rules = field.x_kubernetes_validations.iter().flatten().filter_map(|rule| rule.message.as_ref());
    rules.for_each(|rule| text.push_str(&format!(" Validation: {rule}.")));
    text
}
