//! The daemon's tasks, and how they end.

use crate::chain;
use futures::future::BoxFuture;
use std::{error::Error, future::Future};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// A task that ended without being asked to.
#[derive(Debug, thiserror::Error)]
#[error("{task} ended")]
pub struct Ended {
    /// Which.
    pub task: &'static str,
    /// Why, when it is known.
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

/// Tasks that live as long as the daemon. If one ends before it is told to, or panics, the daemon ends: half a
/// daemon would look alive and serve nobody.
pub struct Tasks<E> {
    set: JoinSet<(&'static str, Result<(), E>)>,
    /// Tells every task to end.
    pub stop: CancellationToken,
}

impl<E> Default for Tasks<E> {
    fn default() -> Self {
        Self { set: JoinSet::new(), stop: CancellationToken::new() }
    }
}

impl<E: Error + From<Ended> + Send + 'static> Tasks<E> {
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
    pub async fn until(&mut self, asked: impl Future<Output = ()>) -> Result<(), E> {
        tokio::select! {
            () = asked => Ok(()),
            ended = self.set.join_next() => Err(match ended {
                Some(Ok((task, Err(e)))) => {
                    error!(task, error = %chain(&e), "failed");
                    e
                }
                Some(Ok((task, Ok(())))) => Ended { task, source: None }.into(),
                Some(Err(e)) => Ended { task: "a task", source: Some(Box::new(e)) }.into(),
                None => Ended { task: "every task", source: None }.into(),
            }),
        }
    }

    /// End them all and wait.
    pub async fn end(mut self) {
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
        let mut tasks = Tasks::<Ended>::default();
        tasks.start_endless("brief", async {});
        let ended = tasks.until(pending()).await.unwrap_err();
        assert!(matches!(ended, Ended { task: "brief", source: None }), "{ended:?}");

        let mut tasks = Tasks::<Ended>::default();
        tasks.start_endless("broken", async { panic!("on purpose") });
        let ended = tasks.until(pending()).await.unwrap_err();
        assert!(matches!(ended, Ended { source: Some(_), .. }), "{ended:?}");
    }

    #[tokio::test]
    async fn asked_to_stop_every_task_ends() {
        let mut tasks = Tasks::<Ended>::default();
        tasks.start_endless("endless", pending());
        let stop = tasks.stop.clone();
        tasks.start("patient", async move {
            stop.cancelled().await;
            Ok(())
        });
        tasks.until(async {}).await.unwrap();
        tasks.end().await;
    }
}
