//! The loop: waits for keys, answers and signals; applies all that wait; draws one frame.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use annals::service::Service;
use annals_render::time::Clock;
use crossterm::event::{self, Event as Input};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;

use crate::protocol::{Answer, Effect, Event};
use crate::state::{Exit, Mode, State};
use crate::terminal::{self, Screen};
use crate::update::{arrange, update};
use crate::worker::{Answers, Context, Workers};

/// Maximum size of a text for the clipboard: terminals ignore longer ones.
const MAX_COPIED: usize = 74_000;

/// Options of the browser.
#[derive(Debug)]
pub struct Options {
    /// Arguments of the program.
    pub mode: Mode,
    /// The query to begin with.
    pub query: String,
    /// Whether to begin with the sessions of this project.
    pub here: bool,
    /// Whether colours are used.
    pub has_colors: bool,
    /// The environment, for commands that open a session.
    pub env: annals::layout::Env,
    /// The user's commands that open a session, by layout.
    pub resume: std::collections::BTreeMap<String, Vec<String>>,
    /// The program, with the options that name its roots.
    pub program: Vec<std::ffi::OsString>,
    /// Whether the time does not go on.
    pub is_time_fixed: bool,
    /// A key that causes a panic, for tests.
    pub panic_key: Option<char>,
}

/// Signals that were received.
struct Signals {
    /// Signals that end the program.
    ends: Vec<(i32, Arc<AtomicBool>)>,
    suspend: Arc<AtomicBool>,
    resume: Arc<AtomicBool>,
    resize: Arc<AtomicBool>,
}

impl Signals {
    fn register(waker: &UnixStream) -> io::Result<Self> {
        let flag = |signal: i32| -> io::Result<Arc<AtomicBool>> {
            let flag = Arc::new(AtomicBool::new(false));
            // Actions run in this order: the loop wakes when the flag is set.
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
            Ok(flag)
        };
        let mut ends = Vec::new();
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            ends.push((signal, flag(signal)?));
        }
        Ok(Signals {
            ends,
            suspend: flag(SIGTSTP)?,
            resume: flag(SIGCONT)?,
            resize: flag(SIGWINCH)?,
        })
    }

    /// The flag of a signal that ends the program.
    fn flag(&self, wanted: i32) -> Arc<AtomicBool> {
        let found = self.ends.iter().find(|(signal, _)| *signal == wanted);
        found.map(|(_, flag)| Arc::clone(flag)).unwrap_or_default()
    }

    fn ended_by(&self) -> Option<i32> {
        let mut ends = self.ends.iter();
        let ended = ends.find(|(_, flag)| flag.load(Ordering::Relaxed));
        ended.map(|(signal, _)| *signal)
    }
}

/// Shows the browser until the user leaves it.
pub fn run(service: Service, options: Options) -> io::Result<Exit> {
    let before = terminal::restore_on_panic();
    let exit = browse(service, options);
    std::panic::set_hook(Box::new(move |info| before(info)));
    exit
}

fn browse(service: Service, options: Options) -> io::Result<Exit> {
    let (mut woken, waker) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    let signals = Signals::register(&waker)?;
    let keys = keyboard()?;
    let clock = Clock {
        now: service.now(),
        zone: service.zone().clone(),
    };
    let (answers, waiting) = Answers::new(waker)?;
    let context = Context {
        service,
        env: options.env,
        resume: options.resume,
        program: options.program,
    };
    // The first answer is on its way while the terminal is prepared.
    let mut workers = Workers::start(context, answers)?;
    let size = crossterm::terminal::size()?;
    let (mut state, effects) = State::new(options.mode, clock, size, options.query, options.here);
    state.is_time_fixed = options.is_time_fixed;
    let mut screen = Screen::enter(size, options.has_colors)?;
    let mut shell = Shell {
        screen: &mut screen,
        workers: &mut workers,
        notice: None,
        resumed: Arc::clone(&signals.resume),
        interrupted: signals.flag(SIGINT),
    };
    for effect in effects {
        shell.run(effect)?;
    }
    loop {
        let effects = arrange(&mut state);
        for effect in effects {
            shell.run(effect)?;
        }
        if let Some(exit) = state.exit.take() {
            return Ok(exit);
        }
        shell.screen.draw(&state)?;
        wait(&keys, &woken)?;
        drain(&mut woken);
        if let Some(signal) = signals.ended_by() {
            shell.screen.leave()?;
            emulate_default_handler(signal)?;
            return Ok(Exit::Quit);
        }
        if signals.suspend.swap(false, Ordering::Relaxed) {
            shell.run(Effect::Suspend)?;
        }
        if signals.resume.swap(false, Ordering::Relaxed) {
            // Stopped by another program: the shell has set modes of its own.
            shell.screen.leave()?;
            shell.screen.resume()?;
        }
        if signals.resize.swap(false, Ordering::Relaxed) {
            let (width, height) = crossterm::terminal::size()?;
            update(&mut state, Event::Resize(width, height));
        }
        let now = current_time(&state);
        update(&mut state, Event::Now(now));
        // All keys that wait are taken before a frame.
        while event::poll(Duration::ZERO)? {
            let input = event::read()?;
            if let (Input::Key(key), Some(panic_key)) = (&input, options.panic_key)
                && key.code == event::KeyCode::Char(panic_key)
            {
                panic!("the key of the test");
            }
            if let Some(event) = convert(input) {
                apply(&mut state, event, &mut shell)?;
            }
        }
        take_answers(&mut state, &waiting, &mut shell)?;
        if let Some(text) = shell.notice.take() {
            state.say(text);
        }
    }
}

/// The current time, unless it is fixed.
fn current_time(state: &State) -> jiff::Timestamp {
    match state.is_time_fixed {
        true => state.clock.now,
        false => jiff::Timestamp::now(),
    }
}

/// Returns the terminal that keys come from, as crossterm chooses it.
fn keyboard() -> io::Result<OwnedFd> {
    match io::stdin().is_terminal() {
        true => Ok(rustix::io::dup(rustix::stdio::stdin())?),
        false => Ok(File::open("/dev/tty")?.into()),
    }
}

/// Waits until a key was pressed, an answer arrived or a signal came; at most a minute, after which
/// the list shows other ages.
fn wait(keys: &OwnedFd, woken: &UnixStream) -> io::Result<()> {
    let mut fds = [
        PollFd::from_borrowed_fd(keys.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
    ];
    let minute = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&minute)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let [keys, _] = fds;
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match keys.revents().intersects(gone) {
        true => Err(io::Error::other("the terminal is gone")),
        false => Ok(()),
    }
}

fn drain(woken: &mut UnixStream) {
    let mut bytes = [0; 256];
    while woken.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

fn convert(input: Input) -> Option<Event> {
    match input {
        Input::Key(key) => Some(Event::Key(key)),
        Input::Paste(text) => Some(Event::Paste(text)),
        Input::Mouse(mouse) => Some(Event::Mouse(mouse)),
        Input::Resize(width, height) => Some(Event::Resize(width, height)),
        _ => None,
    }
}

fn take_answers(
    state: &mut State,
    waiting: &Receiver<Answer>,
    shell: &mut Shell<'_>,
) -> io::Result<()> {
    for answer in waiting.try_iter() {
        apply(state, Event::Answer(answer), shell)?;
    }
    Ok(())
}

fn apply(state: &mut State, event: Event, shell: &mut Shell<'_>) -> io::Result<()> {
    for effect in update(state, event) {
        shell.run(effect)?;
    }
    // A key may depend on the layout after the one before.
    for effect in arrange(state) {
        shell.run(effect)?;
    }
    Ok(())
}

/// Does what the state asks for.
struct Shell<'a> {
    screen: &'a mut Screen,
    workers: &'a mut Workers,
    notice: Option<String>,
    /// Whether SIGCONT was received.
    resumed: Arc<AtomicBool>,
    /// Whether SIGINT was received.
    interrupted: Arc<AtomicBool>,
}

impl Shell<'_> {
    fn run(&mut self, effect: Effect) -> io::Result<()> {
        match effect {
            Effect::Copy { text, .. } if text.len() > MAX_COPIED => {
                self.notice = Some("too long for the clipboard: e exports it".to_owned());
            }
            Effect::Copy { text, what } => {
                self.screen.copy(&text)?;
                self.notice = Some(format!("copied {what}"));
            }
            Effect::Mouse(is_on) => self.screen.set_mouse(is_on)?,
            Effect::Redraw => self.screen.redraw()?,
            Effect::Suspend => {
                self.screen.leave()?;
                // Returns when the program goes on.
                emulate_default_handler(SIGTSTP)?;
                self.resumed.store(false, Ordering::Relaxed);
                self.screen.resume()?;
            }
            Effect::Run(words) => self.run_program(&words)?,
            effect => self.workers.ask(effect),
        }
        Ok(())
    }

    /// Runs a command of the program on the terminal, and waits for a key.
    fn run_program(&mut self, words: &[String]) -> io::Result<()> {
        let mut program = self.workers.program().to_vec();
        if program.is_empty() {
            return Ok(());
        }
        let mut command = Command::new(program.remove(0));
        command.args(program).args(words);
        self.screen.leave()?;
        let ended = command.status();
        // Ctrl-C was for the command.
        self.interrupted.store(false, Ordering::Relaxed);
        match ended {
            Ok(_) => eprint_line("\nany key returns to the browser"),
            Err(error) => eprint_line(&format!("annals could not be started: {error}")),
        }
        crossterm::terminal::enable_raw_mode()?;
        while !matches!(event::read()?, Input::Key(_)) {}
        self.screen.resume()
    }
}

/// Writes to the terminal while the browser is not shown.
fn eprint_line(text: &str) {
    use std::io::Write as _;
    _ = writeln!(io::stderr(), "{text}");
}
