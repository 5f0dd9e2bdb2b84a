//! The browser without a terminal and without threads: questions are answered at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use annals::layout::Env;
use annals::service::Service;
use annals::store::{Root, Store};
use annals_render::time::Clock;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::draw::draw;
use crate::protocol::{Answer, Effect, Event};
use crate::state::{Mode, State};
use crate::update::{arrange, update};
use crate::worker::{Answers, Context, Searcher, Worker};

/// A copy of fixtures in one root.
pub(super) struct Home {
    dir: tempfile::TempDir,
}

/// The time of the tests.
const NOW: &str = "2026-11-18T12:00:00Z";

impl Home {
    pub(super) fn new(fixtures: &[&str]) -> Self {
        let home = Home {
            dir: tempfile::tempdir().unwrap(),
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-code");
        std::fs::create_dir_all(home.root().join("projects")).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(home.root(), private).unwrap();
        for name in fixtures {
            copy(&source.join(name), &home.root());
        }
        home
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().join(".claude")
    }

    pub(super) fn service(&self) -> Service {
        let store = Store::new(vec![Root::claude_code(self.root())]);
        let store = store.with_state(self.dir.path().join("state"));
        Service::new(store)
            .with_now(NOW.parse().unwrap())
            .with_zone(TimeZone::UTC)
    }

    /// Every file of the root with its content.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut pending = vec![self.root()];
        while let Some(dir) = pending.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => pending.push(path),
                    false => _ = files.insert(path.clone(), std::fs::read(path).unwrap()),
                }
            }
        }
        files
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        // About the fixture, and no part of it.
        if path.ends_with("NOTES.md") {
            continue;
        }
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => _ = std::fs::copy(&path, &target).unwrap(),
        }
    }
}

/// The browser.
pub(super) struct Driver {
    pub(super) state: State,
    worker: Worker,
    searcher: Searcher,
    newest: Arc<AtomicU64>,
    answers: Receiver<Answer>,
    /// What was not answered by a worker.
    pub(super) done: Vec<Effect>,
}

impl Driver {
    pub(super) fn new(home: &Home, size: (u16, u16)) -> Self {
        Driver::with_mode(home, size, Mode::default())
    }

    pub(super) fn with_mode(home: &Home, size: (u16, u16), mode: Mode) -> Self {
        let (_, waker) = std::os::unix::net::UnixStream::pair().unwrap();
        let (sender, answers) = Answers::new(waker).unwrap();
        let echo = ["echo", "{id}"].map(str::to_owned).to_vec();
        let context = Arc::new(Context {
            service: home.service(),
            env: Env {
                home: None,
                cwd: None,
                vars: BTreeMap::new(),
            },
            resume: BTreeMap::from([("claude-code".to_owned(), echo)]),
            program: Vec::new(),
        });
        let newest = Arc::new(AtomicU64::new(0));
        let clock = Clock {
            now: NOW.parse().unwrap(),
            zone: TimeZone::UTC,
        };
        let (state, effects) = State::new(mode, clock, size, String::new(), false);
        let mut driver = Driver {
            state,
            worker: Worker::new(
                Arc::clone(&context),
                sender.clone(),
                Arc::new(AtomicBool::new(false)),
            ),
            searcher: Searcher {
                context,
                answers: sender,
                newest: Arc::clone(&newest),
            },
            newest,
            answers,
            done: Vec::new(),
        };
        driver.run(effects);
        driver
    }

    fn run(&mut self, effects: Vec<Effect>) {
        let mut pending: std::collections::VecDeque<Effect> = effects.into();
        loop {
            while let Some(effect) = pending.pop_front() {
                match effect {
                    Effect::Search(question) => {
                        self.newest.store(question.generation, Ordering::Relaxed);
                        self.searcher.search_now(&question);
                    }
                    Effect::Follow(_)
                    | Effect::StopFollowing
                    | Effect::StopSearch
                    | Effect::Copy { .. }
                    | Effect::Run(_)
                    | Effect::Mouse(_)
                    | Effect::Suspend
                    | Effect::Redraw => self.done.push(effect),
                    effect => self.worker.answer(effect),
                }
            }
            let waiting: Vec<Answer> = self.answers.try_iter().collect();
            for answer in waiting {
                pending.extend(update(&mut self.state, Event::Answer(answer)));
            }
            pending.extend(arrange(&mut self.state));
            if pending.is_empty() {
                return;
            }
        }
    }

    /// Presses keys, named as in the table.
    pub(super) fn press(&mut self, keys: &str) -> &mut Self {
        for key in keys.split_whitespace() {
            let effects = update(&mut self.state, Event::Key(event(key)));
            self.run(effects);
        }
        self
    }

    /// Types text.
    pub(super) fn type_text(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
            let effects = update(&mut self.state, Event::Key(key));
            self.run(effects);
        }
        self
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        let effects = update(&mut self.state, Event::Resize(width, height));
        self.run(effects);
        self
    }

    pub(super) fn event(&mut self, event: Event) -> &mut Self {
        let effects = update(&mut self.state, event);
        self.run(effects);
        self
    }

    /// The screen as text.
    pub(super) fn screen(&self) -> String {
        let backend = TestBackend::new(self.state.width, self.state.height);
        let mut terminal = Terminal::new(backend).unwrap();
        terminal.draw(|frame| draw(&self.state, frame)).unwrap();
        let shown = terminal.backend().to_string();
        let lines = shown.lines().map(|line| line.trim_matches('"').trim_end());
        lines.collect::<Vec<&str>>().join("\n")
    }
}

/// Returns the event of a key that is named as in the table.
fn event(name: &str) -> KeyEvent {
    let (modifiers, base) = match name.split_once('-') {
        Some(("ctrl", base)) => (KeyModifiers::CONTROL, base),
        Some(("alt", base)) => (KeyModifiers::ALT, base),
        _ => (KeyModifiers::NONE, name),
    };
    let code = match base {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "shift-tab" => KeyCode::BackTab,
        "backspace" => KeyCode::Backspace,
        "delete" => KeyCode::Delete,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "space" => KeyCode::Char(' '),
        "f1" => KeyCode::F(1),
        "f5" => KeyCode::F(5),
        letter => KeyCode::Char(letter.chars().next().unwrap()),
    };
    let event = KeyEvent::new(code, modifiers);
    assert_eq!(crate::keys::name(&event), name);
    event
}

/// Every key of the table.
pub(super) fn all_keys() -> Vec<KeyEvent> {
    let rows = crate::keys::KEYS.iter();
    let keys = rows.flat_map(|row| row.keys);
    keys.map(|key| event(key)).collect()
}
