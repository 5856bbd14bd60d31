//! Long-running tasks of a daemon, and the signals that end them.

use crate::error_chain;
use std::{error::Error, future::Future, io};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// A task ended before the daemon was stopped.
#[derive(Debug, thiserror::Error)]
#[error("task {task} of the daemon ended unexpectedly")]
pub struct TaskEnded {
    pub task: &'static str,
    /// The panic that ended the task; `None` if the task returned.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// Tasks that run as long as the daemon. If one ends early or panics, the daemon exits, because a daemon with a
/// missing task would look healthy without working.
pub struct TaskSet<E> {
    set: JoinSet<(&'static str, Result<(), E>)>,
    /// Token that is cancelled to stop all tasks.
    pub stop: CancellationToken,
}

impl<E> Default for TaskSet<E> {
    fn default() -> Self {
        Self { set: JoinSet::new(), stop: CancellationToken::new() }
    }
}

impl<E: Error + From<TaskEnded> + Send + 'static> TaskSet<E> {
    /// Starts a task that returns when `stop` is cancelled.
    pub fn start(&mut self, name: &'static str, task: impl Future<Output = Result<(), E>> + Send + 'static) {
        self.set.spawn(async move { (name, task.await) });
    }

    /// Starts a task that never returns; it is dropped when `stop` is cancelled.
    pub fn start_endless(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.start_until_stop(name, async {
            task.await;
            Ok(())
        });
    }

    /// Starts a task that returns only an error; it is dropped when `stop` is cancelled.
    pub fn start_until_stop(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let (stop, task) = (self.stop.clone(), Box::pin(task));
        self.start(name, async move { stop.run_until_cancelled(task).await.unwrap_or(Ok(())) });
    }

    /// Waits until `shutdown` completes. Returns an error if a task ends earlier.
    pub async fn run_until(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), E> {
        tokio::select! {
            () = shutdown => Ok(()),
            ended = self.set.join_next() => Err(match ended {
                Some(Ok((task, Err(e)))) => {
                    error!(task, error = %error_chain(&e), "task failed, stopping the daemon");
                    e
                }
                Some(Ok((task, Ok(())))) => TaskEnded { task, source: None }.into(),
                Some(Err(e)) => TaskEnded { task: "(unknown)", source: Some(Box::new(e)) }.into(),
                None => TaskEnded { task: "(all)", source: None }.into(),
            }),
        }
    }

    /// Cancels `stop` and waits until all tasks have ended.
    pub async fn stop_all(mut self) {
        self.stop.cancel();
        while self.set.join_next().await.is_some() {}
    }
}

/// Completes on SIGTERM or SIGINT.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn task_that_ends_or_panics_stops_the_daemon() {
        let mut tasks = TaskSet::<TaskEnded>::default();
        tasks.start_endless("brief", async {});
        let ended = tasks.run_until(pending()).await.unwrap_err();
        assert!(matches!(ended, TaskEnded { task: "brief", source: None }), "{ended:?}");

        let mut tasks = TaskSet::<TaskEnded>::default();
        tasks.start_endless("broken", async { panic!("on purpose") });
        let ended = tasks.run_until(pending()).await.unwrap_err();
        assert!(matches!(ended, TaskEnded { source: Some(_), .. }), "{ended:?}");
    }

    #[tokio::test]
    async fn all_tasks_end_on_shutdown() {
        let mut tasks = TaskSet::<TaskEnded>::default();
        tasks.start_endless("endless", pending());
        let stop = tasks.stop.clone();
        tasks.start("patient", async move {
            stop.cancelled().await;
            Ok(())
        });
        tasks.run_until(async {}).await.unwrap();
        tasks.stop_all().await;
    }
}
