//! Progress of a long scan, as one line on standard error.
//!
//! Prints nothing unless standard error is a terminal and the work has taken a while; the line is
//! cleared at the end. The reporting threads draw it; there is no separate thread. Drop it before
//! writing to the same terminal.

use annals_render::size::count;
use annals_render::text::safe;
use annals_render::width::truncate_end;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A progress line that is cleared on drop.
pub(crate) struct Progress {
    label: String,
    started: Instant,
    done: AtomicU64,
    total: AtomicU64,
    /// Earliest time of the next draw, in milliseconds since the start.
    next: AtomicU64,
    line: Option<Mutex<Line>>,
}

impl Progress {
    /// Starts the clock.
    pub(crate) fn new(label: &str) -> Progress {
        let stderr = io::stderr();
        let columns =
            terminal_size::terminal_size_of(&stderr).map_or(80, |(width, _)| usize::from(width.0));
        let sink: Option<Box<dyn Write + Send>> = if stderr.is_terminal() {
            Some(Box::new(stderr))
        } else {
            None
        };
        Progress::with_sink(sink, columns, label, DELAY)
    }

    fn with_sink(
        sink: Option<Box<dyn Write + Send>>,
        columns: usize,
        label: &str,
        delay: Duration,
    ) -> Progress {
        Progress {
            label: safe(label).into(),
            started: Instant::now(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            next: AtomicU64::new(delay.as_millis() as u64),
            line: sink.map(|sink| {
                Mutex::new(Line {
                    sink,
                    columns,
                    drawn: false,
                })
            }),
        }
    }

    /// Reports `done` of `total`. A `total` of 0 means unknown.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.done.store(done, Relaxed);
        self.total.store(total, Relaxed);
        self.draw();
    }

    fn draw(&self) {
        let Some(line) = &self.line else {
            return;
        };
        let elapsed = self.started.elapsed().as_millis() as u64;
        let next = self.next.load(Relaxed);
        let turn = elapsed >= next
            && self
                .next
                .compare_exchange(next, elapsed + INTERVAL, Relaxed, Relaxed)
                .is_ok();
        // If another thread is drawing, this one does not need to.
        if turn && let Ok(mut line) = line.try_lock() {
            line.draw(&self.text());
        }
    }

    fn text(&self) -> String {
        let (done, total) = (self.done.load(Relaxed), self.total.load(Relaxed));
        match (u128::from(done) * 100).checked_div(u128::from(total)) {
            Some(percent) => format!(
                "{} {}/{} ({}%)",
                self.label,
                count(done),
                count(total),
                percent.min(100)
            ),
            None => format!("{} {}", self.label, count(done)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(Ok(line)) = self.line.as_mut().map(Mutex::get_mut) {
            line.clear();
        }
    }
}

struct Line {
    sink: Box<dyn Write + Send>,
    columns: usize,
    drawn: bool,
}

impl Line {
    fn draw(&mut self, text: &str) {
        // One column is left free: a full line would wrap and could not be cleared.
        let text = truncate_end(text, self.columns.saturating_sub(1));
        self.drawn = true;
        _ = write!(self.sink, "{CLEAR}{text}").and_then(|()| self.sink.flush());
    }

    fn clear(&mut self) {
        if self.drawn {
            _ = write!(self.sink, "{CLEAR}").and_then(|()| self.sink.flush());
        }
    }
}

const DELAY: Duration = Duration::from_millis(300);
const INTERVAL: u64 = 100;
const CLEAR: &str = "\r\x1b[K";

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn run(delay: Duration, columns: usize, work: impl FnOnce(&Progress)) -> String {
        let sink = Sink::default();
        let progress =
            Progress::with_sink(Some(Box::new(sink.clone())), columns, "scanning\x1b", delay);
        work(&progress);
        drop(progress);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn short_work_draws_nothing() {
        assert_eq!(
            run(Duration::from_secs(60), 80, |progress| progress.set(1, 2)),
            ""
        );
    }

    #[test]
    fn long_work_is_drawn_once_per_interval_and_cleared() {
        let drawn = run(Duration::ZERO, 80, |progress| {
            (1000..2000).for_each(|n| progress.set(n, 2000))
        });
        assert!(
            drawn.starts_with("\r\x1b[Kscanning␛ 1,000/2,000 (50%)"),
            "{drawn:?}"
        );
        assert!(drawn.ends_with("\r\x1b[K"));
        assert!(
            drawn.matches('\r').count() < 100,
            "a thousand reports must not be a thousand lines"
        );
    }

    #[test]
    fn a_line_never_wraps_and_odd_totals_do_not_panic() {
        let drawn = run(Duration::ZERO, 10, |progress| progress.set(u64::MAX, 1));
        assert_eq!(drawn, "\r\x1b[Kscanning…\r\x1b[K");
        assert!(run(Duration::ZERO, 80, |progress| progress.set(5, 0)).contains("scanning␛ 5"));
    }
}
