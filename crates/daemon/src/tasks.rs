//! The daemon's tasks, and how they end.

use crate::error_chain;
use futures::future::BoxFuture;
use std::{error::Error, future::Future};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// A task that ended without being asked to.
#[derive(Debug, thiserror::Error)]
#[error("{task} ended")]
pub struct TaskEnded {
    /// Which.
    pub task: &'static str,
    /// Why, when it is known.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// Tasks that live as long as the daemon. If one ends before it is told to, or panics, the daemon ends: half a
/// daemon would look alive and serve nobody.
pub struct TaskSet<E> {
    set: JoinSet<(&'static str, Result<(), E>)>,
    /// Tells every task to end.
    pub stop: CancellationToken,
}

impl<E> Default for TaskSet<E> {
    fn default() -> Self {
        Self { set: JoinSet::new(), stop: CancellationToken::new() }
    }
}

impl<E: Error + From<TaskEnded> + Send + 'static> TaskSet<E> {
    /// Start a task that ends itself when `stop` is given.
    pub fn start(&mut self, name: &'static str, task: impl Future<Output = Result<(), E>> + Send + 'static) {
        self.set.spawn(async move { (name, task.await) });
    }

    /// Start a task that knows no end; it is dropped when `stop` is given.
    pub fn start_endless(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        let task: BoxFuture<'static, ()> = Box::pin(task);
        self.start(name, async move {
            stop.run_until_cancelled(task).await;
            Ok(())
        });
    }

    /// Wait for `asked` to stop, or for a task that ends by itself, which is the daemon's failure.
    pub async fn run_until(&mut self, asked: impl Future<Output = ()>) -> Result<(), E> {
        tokio::select! {
            () = asked => Ok(()),
            ended = self.set.join_next() => Err(match ended {
                Some(Ok((task, Err(e)))) => {
                    error!(task, error = %error_chain(&e), "failed");
                    e
                }
                Some(Ok((task, Ok(())))) => TaskEnded { task, source: None }.into(),
                Some(Err(e)) => TaskEnded { task: "a task", source: Some(Box::new(e)) }.into(),
                None => TaskEnded { task: "every task", source: None }.into(),
            }),
        }
    }

    /// End them all and wait.
    pub async fn stop_all(mut self) {
        self.stop.cancel();
        while self.set.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn a_task_that_ends_or_panics_ends_the_daemon() {
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
    async fn asked_to_stop_every_task_ends() {
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
