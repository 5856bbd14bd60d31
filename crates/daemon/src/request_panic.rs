//! Panics while a request is handled, or in a pass of a controller, fail that request or pass only. All other panics
//! end the process.
//!
//! Requests and API objects are input of tenants. A defect that such input triggers must not end the daemon for everyone
//! else. Anywhere else a panic would leave a daemon that looks healthy while one of its tasks is gone, so the process
//! aborts and is restarted.

use std::{
    any::Any,
    cell::Cell,
    future::{Future, poll_fn},
    panic::{self, AssertUnwindSafe},
    pin::pin,
    process,
    task::Poll,
};

thread_local! {
    static HANDLES_REQUEST: Cell<bool> = const { Cell::new(false) };
}

/// The message of a panic that was caught.
#[derive(Debug, thiserror::Error)]
#[error(
    "the request or object caused a panic: {message}; this is a defect of Ferroband, please report it with the log"
)]
pub struct RequestPanic {
    pub message: String,
}

impl RequestPanic {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        Self { message }
    }
}

/// Makes every panic outside of [`catch_panic`] and [`catch_panic_async`] abort the process, in every thread and task.
/// The message is printed first.
pub fn abort_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        if !HANDLES_REQUEST.get() {
            process::abort();
        }
    }));
}

/// Handles a request in `work`. Returns an error if it panics.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, RequestPanic> {
    let outer = HANDLES_REQUEST.replace(true);
    // State behind a lock is protected by the lock's poisoning; everything else belongs to the request.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    HANDLES_REQUEST.set(outer);
    result.map_err(|payload| RequestPanic::new(payload.as_ref()))
}

/// Like [`catch_panic`], for asynchronous work. Tasks that the work spawns are not part of the request.
pub async fn catch_panic_async<T>(work: impl Future<Output = T>) -> Result<T, RequestPanic> {
    let mut work = pin!(work);
    poll_fn(move |context| match catch_panic(|| work.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::process::ExitStatusExt, process::Command};

    const SIGABRT: i32 = 6;

    #[tokio::test]
    async fn a_panic_of_a_request_is_an_error_of_that_request() {
        let broken = async {
            tokio::task::yield_now().await;
            panic!("broken by {}", "input")
        };
        let error = catch_panic_async::<()>(broken).await.unwrap_err();
        assert_eq!(error.message, "broken by input");
        assert_eq!(catch_panic_async(async { 5 }).await.unwrap(), 5);
        assert_eq!(catch_panic(|| -> u8 { panic!("text") }).unwrap_err().message, "text");
        assert!(!HANDLES_REQUEST.get());
    }

    /// Set in the process that the test below starts: where that process panics after a panic of a request.
    const PLACE_VARIABLE: &str = "FERROBAND_TEST_PANIC_PLACE";

    fn panic_at(place: &str) {
        abort_on_panic();
        catch_panic::<()>(|| panic!("in the request")).unwrap_err();
        println!("survived the request");
        match place {
            "task" => {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let _ = runtime.block_on(runtime.spawn(async { panic!("in a task") }));
            }
            _ => drop(std::thread::spawn(|| panic!("in a thread")).join()),
        }
        println!("survived the {place}");
    }

    #[test]
    fn a_panic_outside_of_requests_ends_the_process() {
        if let Ok(place) = std::env::var(PLACE_VARIABLE) {
            return panic_at(&place);
        }
        let name = "request_panic::tests::a_panic_outside_of_requests_ends_the_process";
        for place in ["task", "thread"] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let output =
                child.args(["--exact", name, "--nocapture"]).env(PLACE_VARIABLE, place).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.signal(), Some(SIGABRT), "{place}: {text}");
            assert!(text.contains("survived the request"), "{text}");
            assert!(!text.contains(&format!("survived the {place}")), "{text}");
        }
    }
}
