//! Calls of the API server: how long they may take, and what their failures mean.

use std::{future::Future, io, time::Duration};
use tokio::time::timeout;

/// How long one call may take before its outcome counts as unknown. The client itself waits for minutes, as watches
/// must.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What the failure of a call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// No answer, or "not now": the same call may succeed later.
    Unavailable,
    /// What was asked about is not there.
    NotFound,
    /// It is there, but not in the state that was expected.
    Conflict,
    /// The same call would be refused again.
    Rejected,
}

/// Make a call, but not for ever.
pub async fn with_timeout<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let late = io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
            Err(kube::Error::Service(Box::new(late)))
        }
    }
}

/// What `error` means.
pub fn classify(error: &kube::Error) -> ApiFailure {
    let kube::Error::Api(status) = error else { return ApiFailure::Unavailable };
    match status.code {
        404 => ApiFailure::NotFound,
        409 => ApiFailure::Conflict,
        429 | 500.. => ApiFailure::Unavailable,
        // The object with that name has another UID than the call says.
        422 if names_uid(status) => ApiFailure::Conflict,
        _ => ApiFailure::Rejected,
    }
}

fn names_uid(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failures_are_told_apart() {
        let of = |code: u16, field: &str| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": "x", "message": "x", "details": {"causes": [{"field": field, "message": "x", "reason": "x"}]}});
            classify(&kube::Error::Api(serde_json::from_value(status).unwrap()))
        };
        assert_eq!(of(404, ""), ApiFailure::NotFound);
        assert_eq!(of(409, ""), ApiFailure::Conflict);
        assert_eq!(of(422, "metadata.uid"), ApiFailure::Conflict);
        assert_eq!(of(422, "metadata.annotations"), ApiFailure::Rejected);
        assert_eq!(of(403, ""), ApiFailure::Rejected);
        assert_eq!(of(503, ""), ApiFailure::Unavailable);
        let away = kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert_eq!(classify(&away), ApiFailure::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends() {
        let endless = with_timeout(std::future::pending::<kube::Result<()>>()).await;
        assert_eq!(classify(&endless.unwrap_err()), ApiFailure::Unavailable);
    }
}
