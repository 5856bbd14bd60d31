//! Pauses between the attempts of an activity that fails, and the log of its failures.

use crate::error_chain;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::{
    error::Error,
    hash::{BuildHasher, RandomState},
    time::Duration,
};
use tokio::time;

/// Returns `pause` and a random share of it, up to a half, so that the daemons of all nodes do not act at the same time.
pub fn lengthened(pause: Duration) -> Duration {
    // A new RandomState has random keys, so that its hash of anything is a random number.
    let random = RandomState::new().hash_one(()) % 1024;
    pause + pause.mul_f64(random as f64 / 2048.0)
}

/// Retries of one activity. The pause doubles with each failure and is lengthened by a random share of itself, so that
/// the daemons of all nodes do not call a recovering API server at the same time.
#[derive(Debug)]
pub struct Retry {
    builder: ExponentialBuilder,
    pauses: ExponentialBackoff,
    last_problem: Option<String>,
}

impl Retry {
    /// `min` and `max` limit the pause without its random share.
    pub fn new(min: Duration, max: Duration) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(min)
            .with_max_delay(max)
            .with_factor(2.0)
            .with_jitter()
            .without_max_times();
        Self { builder, pauses: builder.build(), last_problem: None }
    }

    /// Returns the text of `error` if it differs from the previous failure. Only then it is logged, because an outage
    /// may last for hours.
    pub fn news(&mut self, error: &dyn Error) -> Option<String> {
        let problem = error_chain(error);
        if self.last_problem.as_ref() == Some(&problem) {
            return None;
        }
        self.last_problem = Some(problem.clone());
        Some(problem)
    }

    /// Sleeps before the next attempt.
    pub async fn pause(&mut self) {
        time::sleep(self.pauses.next().unwrap_or_default()).await;
    }

    /// Starts again with the shortest pause. Returns whether a failure was recorded before.
    pub fn succeeded(&mut self) -> bool {
        self.pauses = self.builder.build();
        self.last_problem.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fmt, io};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_the_limit_and_differ_between_daemons() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(1));
        let measure = async || {
            let mut retry = Retry::new(min, max);
            let mut pauses = Vec::new();
            for _ in 0..6 {
                let start = Instant::now();
                retry.pause().await;
                pauses.push(start.elapsed());
            }
            pauses
        };
        let (one, other) = (measure().await, measure().await);
        for (number, pause) in one.iter().enumerate() {
            let least = (min * 2_u32.pow(u32::try_from(number).unwrap())).min(max);
            assert!((least..=least * 2 + Duration::from_millis(1)).contains(pause), "{one:?}");
        }
        assert_ne!(one, other);
    }

    #[test]
    fn pauses_of_daemons_are_lengthened_by_different_shares() {
        let pause = Duration::from_secs(600);
        let pauses: Vec<_> = (0..100).map(|_| lengthened(pause)).collect();
        assert!(pauses.iter().all(|longer| (pause..=pause * 3 / 2).contains(longer)), "{pauses:?}");
        assert!(pauses.iter().any(|longer| *longer != pauses[0]));
    }

    #[test]
    fn a_failure_is_news_until_it_is_repeated() {
        let mut retry = Retry::new(Duration::ZERO, Duration::ZERO);
        let mut news = |text: &'static str| retry.news(&io::Error::other(text)).is_some();
        assert_eq!((news("a"), news("a"), news("b")), (true, false, true));
        assert_eq!((retry.succeeded(), retry.succeeded()), (true, false));
        assert!(retry.news(&fmt::Error).is_some());
    }
}
