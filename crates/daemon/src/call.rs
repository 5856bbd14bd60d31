//! Calls of the API server: how long they may take, and what their failures mean.

use std::{future::Future, io, time::Duration};
use tokio::time::timeout;

/// How long one call may take before its outcome counts as unknown. The client itself waits for minutes, as watches
/// must.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the failure of a call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No answer, or "not now": the same call may succeed later.
    Away,
    /// What was asked about is not there.
    NotFound,
    /// It is there, but not in the state that was expected.
    Conflict,
    /// The same call would be refused again.
    Refused,
}

/// Make a call, but not for ever.
pub async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match timeout(PATIENCE, call).await {
        Ok(answer) => answer,
        Err(_) => {
            let late = io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
            Err(kube::Error::Service(Box::new(late)))
        }
    }
}

/// What `error` means.
pub fn failure(error: &kube::Error) -> Failure {
    let kube::Error::Api(status) = error else { return Failure::Away };
    match status.code {
        404 => Failure::NotFound,
        409 => Failure::Conflict,
        429 | 500.. => Failure::Away,
        // The object with that name has another UID than the call says.
        422 if names_uid(status) => Failure::Conflict,
        _ => Failure::Refused,
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
            failure(&kube::Error::Api(serde_json::from_value(status).unwrap()))
        };
        assert_eq!(of(404, ""), Failure::NotFound);
        assert_eq!(of(409, ""), Failure::Conflict);
        assert_eq!(of(422, "metadata.uid"), Failure::Conflict);
        assert_eq!(of(422, "metadata.annotations"), Failure::Refused);
        assert_eq!(of(403, ""), Failure::Refused);
        assert_eq!(of(503, ""), Failure::Away);
        let away = kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)));
        assert_eq!(failure(&away), Failure::Away);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends() {
        let endless = bounded(std::future::pending::<kube::Result<()>>()).await;
        assert_eq!(failure(&endless.unwrap_err()), Failure::Away);
    }
}
