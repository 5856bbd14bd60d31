//! Answers one AdmissionReview.
//!
//! Every program that reaches the Service can send a request, not only the API server. A request of any content
//! gets an answer: values are read with checks, and decoded where a type exists.

use super::admission::AdmissionReview;
use super::{context::WebhookContext, networks, pods, pools};
use http::StatusCode;
use serde_json::Value;
use tracing::{info, warn};

/// The paths of the webhook, one for each entry of the webhook configuration.
pub const PATHS: [&str; 3] = ["/pods", "/networks", "/pools"];

/// Returns status and text of the answer to the request `body` at `path`.
pub async fn answer(path: &str, body: &[u8], context: &WebhookContext) -> (StatusCode, String) {
    let review: AdmissionReview = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(e) => {
            warn!(error = %e, "cannot decode AdmissionReview");
            return (StatusCode::BAD_REQUEST, e.to_string());
        }
    };
    let request = review.request;
    let response = match path {
        "/pods" => pods::inject(&request, context).await,
        "/pools" => pools::review(&request, context).await,
        _ => networks::review(&request, context.settings()),
    };
    if response != Default::default() {
        let (kind, namespace) = (&request.kind.kind, &request.namespace);
        let metadata = |key: &str| request.object.get("metadata")?.get(key).and_then(Value::as_str);
        let name = metadata("name").or_else(|| metadata("generateName")).unwrap_or_default();
        info!(
            object = format!("{kind} {namespace}/{name}"),
            patches = response.patch.len(),
            denied = response.denied,
            "admission review answered"
        );
    }
    (StatusCode::OK, response.to_review(&request.uid).to_string())
}

#[cfg(test)]
mod tests;
