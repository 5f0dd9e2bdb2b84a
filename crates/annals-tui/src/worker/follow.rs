//! Waits for what agents write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals::Result;
use annals::service::FollowRequest;
use annals::watch::{Event, Stopper};
use jiff::SignedDuration;

use super::{Answers, Context, guarded};
use crate::protocol::{Answer, Followed, LiveLine, SessionName};

/// Number of existing entries that the live screen begins with.
const EARLIER: usize = 60;
/// Older entries are not what an agent does now.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// Time in which changes of the list are collected.
const LIST_PAUSE: Duration = Duration::from_secs(2);

/// Starts to follow. Returns what stops it.
pub(super) fn start(
    context: Arc<Context>,
    followed: Followed,
    answers: Answers,
    is_written: Arc<AtomicBool>,
) -> Result<Stopper> {
    let is_all = followed == Followed::All;
    let is_list = followed == Followed::List;
    let request = FollowRequest {
        session: match followed {
            Followed::Session(session) => Some(session.key),
            _ => None,
        },
        last: if is_all { EARLIER } else { 0 },
        ..FollowRequest::default()
    };
    let mut events = context.service.follow(&request)?;
    let stopper = events.stopper();
    let now = context.service.now();
    let run = move || {
        guarded(&answers, || {
            while let Some(event) = events.next_event() {
                match event {
                    Event::CaughtUp => {}
                    _ if is_list && !is_written.swap(true, Ordering::Relaxed) => {
                        refresh_later(answers.clone(), Arc::clone(&is_written));
                    }
                    _ if is_list => {}
                    Event::Entry(written) if is_all => {
                        let time = written.entry.time;
                        let age = time.map(|time| now.duration_since(time));
                        if age.is_some_and(|age| age > RECENT) {
                            continue;
                        }
                        let id = written.session.to_string();
                        answers.send(Answer::Live(Box::new(LiveLine {
                            session: SessionName {
                                key: id.clone(),
                                id,
                                title: String::new(),
                            },
                            project: written.log.project().path,
                            agent: written.agent.map(|agent| agent.to_string()),
                            entry: written.entry,
                        })));
                    }
                    // One answer is enough until it is read.
                    Event::Entry(_) | Event::Reset { .. }
                        if !is_all && !is_written.swap(true, Ordering::Relaxed) =>
                    {
                        answers.send(Answer::Written);
                    }
                    Event::Gone { .. } if !is_all => {
                        answers.send(Answer::Notice("the log was removed".to_owned()));
                    }
                    Event::Error(error) => answers.send(Answer::Notice(error.to_string())),
                    _ => {}
                }
            }
            Vec::new()
        });
    };
    let threads = std::thread::Builder::new().name("follow".to_owned());
    threads
        .spawn(run)
        .map_err(|error| annals::Error::refused(format!("cannot start a thread: {error}")))?;
    Ok(stopper)
}

/// Reports a change of the list, after others had time to happen.
fn refresh_later(answers: Answers, is_written: Arc<AtomicBool>) {
    let threads = std::thread::Builder::new().name("refresh".to_owned());
    // Without a thread, the list is as old as before, and F5 reads it.
    _ = threads.spawn(move || {
        std::thread::sleep(LIST_PAUSE);
        is_written.store(false, Ordering::Relaxed);
        answers.send(Answer::ListChanged);
    });
}
