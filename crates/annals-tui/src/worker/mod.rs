//! Threads that ask the library; their answers are events.
//!
//! One thread searches, so that it can be stopped; one answers everything else, in order, without
//! questions that a later one makes useless; one waits for what agents write, while that is wanted.

mod conversation;
mod follow;
mod questions;
mod search;
mod sessions;
mod tree;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use annals::layout::Env;
use annals::service::Service;

use crate::protocol::{Answer, Effect, SearchQuestion};
pub(crate) use questions::Worker;
pub(crate) use search::Searcher;

/// Settings of the workers.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) service: Service,
    /// The environment, for commands that open a session.
    pub(crate) env: Env,
    /// The user's commands that open a session, by layout.
    pub(crate) resume: BTreeMap<String, Vec<String>>,
    /// The program, with the options that name its roots.
    pub(crate) program: Vec<OsString>,
}

/// Sends answers, and wakes the loop.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    sender: Sender<Answer>,
    waker: Arc<Mutex<UnixStream>>,
}

impl Answers {
    /// Creates the sender; `waker` gets a byte for each answer.
    pub(crate) fn new(waker: UnixStream) -> std::io::Result<(Self, Receiver<Answer>)> {
        // If nobody reads, the loop is awake already.
        waker.set_nonblocking(true)?;
        let (sender, receiver) = channel();
        let answers = Answers {
            sender,
            waker: Arc::new(Mutex::new(waker)),
        };
        Ok((answers, receiver))
    }

    fn send(&self, answer: Answer) {
        // Nobody listens any more when the program ends.
        if self.sender.send(answer).is_ok()
            && let Ok(mut waker) = self.waker.lock()
        {
            _ = waker.write(&[0]);
        }
    }
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Workers {
    context: Arc<Context>,
    answers: Answers,
    questions: Sender<Effect>,
    searches: Sender<SearchQuestion>,
    /// Number of the newest search: older ones stop.
    newest: Arc<AtomicU64>,
    follower: Option<annals::watch::Stopper>,
    /// Whether the loop was told that something was written, and has not read it yet.
    is_written: Arc<AtomicBool>,
}

impl Workers {
    /// Starts the threads.
    pub(crate) fn start(context: Context, answers: Answers) -> std::io::Result<Self> {
        let context = Arc::new(context);
        let newest = Arc::new(AtomicU64::new(0));
        let is_written = Arc::new(AtomicBool::new(false));
        let (questions, waiting) = channel();
        let worker = Worker::new(
            Arc::clone(&context),
            answers.clone(),
            Arc::clone(&is_written),
        );
        let threads = std::thread::Builder::new().name("questions".to_owned());
        threads.spawn(move || answer_all(worker, &waiting))?;
        let (searches, waiting) = channel();
        let searcher = Searcher {
            context: Arc::clone(&context),
            answers: answers.clone(),
            newest: Arc::clone(&newest),
        };
        let threads = std::thread::Builder::new().name("search".to_owned());
        threads.spawn(move || searcher.run(&waiting))?;
        Ok(Workers {
            context,
            answers,
            questions,
            searches,
            newest,
            follower: None,
            is_written,
        })
    }

    /// Passes on a question.
    pub(crate) fn ask(&mut self, effect: Effect) {
        match effect {
            Effect::Search(question) => {
                self.newest.store(question.generation, Ordering::Relaxed);
                _ = self.searches.send(question);
            }
            Effect::StopSearch => self.stop_search(),
            Effect::Follow(followed) => {
                self.stop_following();
                self.is_written.store(false, Ordering::Relaxed);
                let context = Arc::clone(&self.context);
                let answers = self.answers.clone();
                let is_written = Arc::clone(&self.is_written);
                match follow::start(context, followed, answers, is_written) {
                    Ok(stopper) => self.follower = Some(stopper),
                    Err(error) => self.answers.send(Answer::Failed(error.to_string())),
                }
            }
            Effect::StopFollowing => self.stop_following(),
            effect => _ = self.questions.send(effect),
        }
    }

    /// The program, with the options that name its roots.
    pub(crate) fn program(&self) -> &[OsString] {
        &self.context.program
    }

    fn stop_search(&self) {
        self.newest.fetch_add(1, Ordering::Relaxed);
    }

    fn stop_following(&mut self) {
        if let Some(follower) = self.follower.take() {
            follower.stop();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop_search();
        self.stop_following();
    }
}

/// Answers questions until nobody asks any more.
fn answer_all(mut worker: Worker, waiting: &Receiver<Effect>) {
    let mut queue = VecDeque::new();
    loop {
        if queue.is_empty() {
            match waiting.recv() {
                Ok(effect) => queue.push_back(effect),
                Err(_) => return,
            }
        }
        queue.extend(waiting.try_iter());
        let Some(effect) = queue.pop_front() else {
            continue;
        };
        if !queue.iter().any(|later| supersedes(later, &effect)) {
            worker.answer(effect);
        }
    }
}

/// Returns whether a later question makes an earlier one useless.
fn supersedes(later: &Effect, earlier: &Effect) -> bool {
    match (later, earlier) {
        (Effect::Open(later), Effect::Open(earlier)) => later.preview && earlier.preview,
        (Effect::ListSessions, Effect::ListSessions) => true,
        (Effect::Grow(later), Effect::Grow(earlier)) => later.reader == earlier.reader,
        (Effect::Cost(_), Effect::Cost(_)) => true,
        _ => false,
    }
}

/// Runs a question. A panic in it is an answer, too: the program goes on.
fn guarded(answers: &Answers, ask: impl FnOnce() -> Vec<Answer>) {
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask));
    match answered {
        Ok(all) => all.into_iter().for_each(|answer| answers.send(answer)),
        Err(_) => answers.send(Answer::Failed(
            "this could not be read because of a bug in annals".to_owned(),
        )),
    }
}
