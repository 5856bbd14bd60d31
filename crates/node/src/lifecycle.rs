//! The daemon's tasks, and how they end.

use crate::{Error, error::chain};
use futures::future::BoxFuture;
use std::future::Future;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Tasks that live as long as the daemon. If one ends before it is told to, or panics, the daemon ends: half a
/// daemon would look alive and serve nobody.
#[derive(Default)]
pub struct Tasks {
    set: JoinSet<(&'static str, Result<(), Error>)>,
    /// Tells every task to end.
    pub stop: CancellationToken,
}

impl Tasks {
    /// Start a task that ends itself when `stop` is given.
    pub fn start(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), Error>> + Send + 'static,
    ) {
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
    pub async fn until(&mut self, asked: impl Future<Output = ()>) -> Result<(), Error> {
        tokio::select! {
            () = asked => Ok(()),
            ended = self.set.join_next() => Err(match ended {
                Some(Ok((task, Err(e)))) => {
                    error!(task, error = %chain(&e), "failed");
                    e
                }
                Some(Ok((task, Ok(())))) => Error::Task { task, source: None },
                Some(Err(e)) => Error::Task { task: "a task", source: Some(Box::new(e)) },
                None => Error::Task { task: "every task", source: None },
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
        let mut tasks = Tasks::default();
        tasks.start_endless("brief", async {});
        let ended = tasks.until(pending()).await.unwrap_err();
        assert!(matches!(ended, Error::Task { task: "brief", source: None }), "{ended:?}");

        let mut tasks = Tasks::default();
        tasks.start_endless("broken", async { panic!("on purpose") });
        let ended = tasks.until(pending()).await.unwrap_err();
        assert!(matches!(ended, Error::Task { source: Some(_), .. }), "{ended:?}");
    }

    #[tokio::test]
    async fn asked_to_stop_every_task_ends() {
        let mut tasks = Tasks::default();
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
