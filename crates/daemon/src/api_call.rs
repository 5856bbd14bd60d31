//! Timeout of API calls, and classification of failed calls.

use std::{future::Future, io, time::Duration};
use tokio::time::timeout;

/// Time limit of one API call. The outcome of a call that exceeds it is unknown. The client's own timeout is
/// several minutes, because it also applies to watches.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Class of a failed API call. It determines whether the caller retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// No response, or a temporary error: the same call may succeed later.
    Unavailable,
    /// The object does not exist.
    NotFound,
    /// The object already exists, or has another UID or resource version than the call expects.
    Conflict,
    /// The API server rejected the call and would reject it again.
    Rejected,
}

/// Runs an API call. Returns `kube::Error::Service` if there is no response within `CALL_TIMEOUT`.
pub async fn with_timeout<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(CALL_TIMEOUT, call).await {
        Ok(response) => response,
        Err(_) => {
            let timed_out =
                io::Error::new(io::ErrorKind::TimedOut, "no response from the API server in time");
            Err(kube::Error::Service(Box::new(timed_out)))
        }
    }
}

/// Classifies an error by its HTTP status. An error without a status, such as a timeout, counts as
/// unavailable.
pub fn classify(error: &kube::Error) -> ApiFailure {
    let kube::Error::Api(status) = error else { return ApiFailure::Unavailable };
    match status.code {
        404 => ApiFailure::NotFound,
        409 => ApiFailure::Conflict,
        429 | 500.. => ApiFailure::Unavailable,
        // The object of that name has a different UID than the call expects.
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
    fn failures_are_classified_by_status() {
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
        let unreachable = kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert_eq!(classify(&unreachable), ApiFailure::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn call_without_response_times_out() {
        let endless = with_timeout(std::future::pending::<kube::Result<()>>()).await;
        assert_eq!(classify(&endless.unwrap_err()), ApiFailure::Unavailable);
    }
}
