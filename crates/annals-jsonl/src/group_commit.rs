//! Group commit: one sync for many appends.
//!
//! Each writer takes a ticket. The first writer that needs a sync leads a round that covers every
//! ticket issued before it began. Later writers wait for the next round, which one of them leads. A
//! single append leads at once and never blocks.
//!
//! A failed round poisons the group: after an `fsync` error the kernel reports success on the next
//! call although the data is lost, so no later round could be trusted.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The syncs of one open file.
#[derive(Debug, Default)]
pub(crate) struct GroupCommit {
    state: Mutex<State>,
    /// Waiters for a round use the condvar of its parity, so that the end of a round wakes only the
    /// covered waiters and one new leader.
    waiting: [Condvar; 2],
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    synced: u64,
    /// The number of the current or last round, and the last ticket it covers.
    round: u64,
    covers: u64,
    leading: bool,
    failed: Option<Option<i32>>,
}

/// Proof of a write that is not yet durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

/// Reason why a ticket could not be made durable.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// The sync that covered it failed.
    Failed(io::Error),
    /// A sync before it failed.
    Poisoned,
}

impl GroupCommit {
    /// Issues the ticket of a completed write.
    pub(crate) fn ticket(&self) -> Ticket {
        let mut state = self.state();
        state.written += 1;
        Ticket(state.written)
    }

    /// Returns once the write is durable, through this `sync` or another caller's.
    pub(crate) fn wait(
        &self,
        Ticket(ticket): Ticket,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), SyncError> {
        let mut state = self.state();
        while state.synced < ticket {
            if let Some(code) = state.failed {
                return Err(if ticket <= state.covers {
                    SyncError::Failed(
                        code.map_or(io::ErrorKind::Other.into(), io::Error::from_raw_os_error),
                    )
                } else {
                    SyncError::Poisoned
                });
            }
            if !state.leading {
                return self.lead(state, sync);
            }
            let round = state.round + u64::from(ticket > state.covers);
            state = self
                .condvar(round)
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn lead(
        &self,
        mut state: MutexGuard<'_, State>,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), SyncError> {
        state.leading = true;
        state.round += 1;
        state.covers = state.written;
        drop(state);

        let outcome = sync();

        let mut state = self.state();
        state.leading = false;
        match &outcome {
            Ok(()) => state.synced = state.covers,
            Err(error) => state.failed = Some(error.raw_os_error()),
        }
        let round = state.round;
        drop(state);
        self.condvar(round).notify_all();
        match outcome {
            Ok(()) => {
                self.condvar(round + 1).notify_one();
                Ok(())
            }
            Err(error) => {
                self.condvar(round + 1).notify_all();
                Err(SyncError::Failed(error))
            }
        }
    }

    fn condvar(&self, round: u64) -> &Condvar {
        let [even, odd] = &self.waiting;
        if round.is_multiple_of(2) { even } else { odd }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn failed_sync_reports_error_to_covered_and_poisons_later_tickets() {
        for _ in 0..50 {
            let group = GroupCommit::default();
            let (leader, covered) = (group.ticket(), group.ticket());
            let (started, has_started) = channel();
            let (release, is_released) = channel();
            let outcomes = thread::scope(|scope| {
                let group = &group;
                let lead = scope.spawn(move || {
                    group.wait(leader, || {
                        started.send(()).unwrap();
                        is_released.recv().unwrap();
                        Err(io::Error::from_raw_os_error(5))
                    })
                });
                has_started.recv().unwrap();
                let late = group.ticket();
                let never = || -> io::Result<()> { panic!("synced again after a failure") };
                let others =
                    [covered, late].map(|ticket| scope.spawn(move || group.wait(ticket, never)));
                thread::yield_now();
                release.send(()).unwrap();
                let [covered, late] = others.map(|other| other.join().unwrap());
                [lead.join().unwrap(), covered, late]
            });
            let [
                Err(SyncError::Failed(first)),
                Err(SyncError::Failed(heard)),
                Err(SyncError::Poisoned),
            ] = outcomes
            else {
                panic!("{outcomes:?}");
            };
            assert_eq!(
                (first.raw_os_error(), heard.raw_os_error()),
                (Some(5), Some(5))
            );
        }
    }

    /// Joins threads that might sleep forever.
    fn all_end(threads: impl Iterator<Item = thread::JoinHandle<()>>) {
        let (done, is_done) = channel();
        let threads: Vec<_> = threads.collect();
        thread::spawn(move || {
            let ends = threads.into_iter().map(thread::JoinHandle::join);
            done.send(ends.into_iter().all(|end| end.is_ok()))
        });
        let ended = is_done.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(ended, Ok(true));
    }

    #[test]
    fn sync_wakes_all_covered_waiters_without_later_ticket() {
        use std::sync::Arc;
        let group = Arc::new(GroupCommit::default());
        for _ in 0..40 {
            let (started, has_started) = channel();
            let (release, is_released) = channel();
            let first = group.ticket();
            let covered = [(); 4].map(|()| group.ticket());
            let lead = thread::spawn({
                let group = Arc::clone(&group);
                move || {
                    let sync = || {
                        started.send(()).unwrap();
                        is_released.recv().unwrap();
                        Ok(())
                    };
                    group.wait(first, sync).unwrap();
                }
            });
            has_started.recv().unwrap();
            let wait = |ticket| {
                let group = Arc::clone(&group);
                thread::spawn(move || {
                    let never = || -> io::Result<()> { panic!("synced twice") };
                    group.wait(ticket, never).unwrap();
                })
            };
            let others: Vec<_> = covered.into_iter().map(wait).collect();
            (0..50).for_each(|_| thread::yield_now());
            release.send(()).unwrap();
            all_end(others.into_iter().chain([lead]));
        }
    }

    #[test]
    fn one_sync_covers_earlier_tickets_and_a_second_all_later_ones() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        let group = Arc::new(GroupCommit::default());
        for turn in 1..=60 {
            let syncs = Arc::new(AtomicUsize::new(0));
            let (started, has_started) = channel();
            let (release, is_released) = channel();
            let first = group.ticket();
            let covered = [(); 3].map(|()| group.ticket());
            let lead = thread::spawn({
                let (group, syncs) = (Arc::clone(&group), Arc::clone(&syncs));
                move || {
                    let sync = || {
                        syncs.fetch_add(1, Ordering::Relaxed);
                        started.send(()).unwrap();
                        is_released.recv().unwrap();
                        Ok(())
                    };
                    group.wait(first, sync).unwrap();
                }
            });
            has_started.recv().unwrap();
            let late = [(); 3].map(|()| group.ticket());
            let wait = |ticket| {
                let (group, syncs) = (Arc::clone(&group), Arc::clone(&syncs));
                thread::spawn(move || {
                    let sync = || {
                        syncs.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    };
                    group.wait(ticket, sync).unwrap();
                })
            };
            let others: Vec<_> = covered.into_iter().chain(late).map(wait).collect();
            // Gives most of them time to sleep; the rest is an easier case.
            (0..50).for_each(|_| thread::yield_now());
            release.send(()).unwrap();
            all_end(others.into_iter().chain([lead]));
            assert_eq!(syncs.load(Ordering::Relaxed), 2, "{turn}");
            // A durable ticket is not synced again.
            let never = || -> io::Result<()> { panic!("synced twice") };
            group.wait(late[2], never).unwrap();
        }
    }
}
