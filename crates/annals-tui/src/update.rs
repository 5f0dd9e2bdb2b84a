//! Applies events to the state, and returns questions for the workers.

mod answers;
mod mouse;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::command_line;
use crate::draw::Areas;
use crate::keys::{self, Action, Context};
use crate::protocol::{ConversationRef, Effect, Event, Followed, SessionName, TreeRow};
use crate::reader::entry_text;
use crate::screens::{
    CheckScreen, CostScreen, Dialog, DiffScreen, FilesScreen, Help, Input, LiveScreen, Purpose,
    Question, TreeScreen,
};
use crate::state::{Exit, Screen, State};

/// The condition for what people typed.
const OWN_WORDS: &str = "role:human";

/// Applies an event.
pub(crate) fn update(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        Event::Key(key) => press(state, &key),
        Event::Paste(text) => paste(state, &text),
        Event::Mouse(event) => mouse::apply(state, event),
        Event::Resize(width, height) => {
            (state.width, state.height) = (width, height);
            Vec::new()
        }
        Event::Answer(answer) => answers::apply(state, answer),
        Event::Now(now) => {
            state.clock.now = now;
            Vec::new()
        }
    }
}

/// Lays out what is on the screen, before a frame. Returns what has to be loaded for it.
pub(crate) fn arrange(state: &mut State) -> Vec<Effect> {
    let mut effects: Vec<Effect> = state.update_preview().into_iter().collect();
    let areas = Areas::new(state);
    let clock = state.clock.clone();
    let (width, height) = (
        usize::from(areas.body.width),
        usize::from(areas.body.height),
    );
    let text = width.saturating_sub(crate::reader::GUTTER);
    match state.screens.last_mut() {
        None => {
            state.list.arrange(usize::from(areas.list.height));
            if let (Some(reader), Some(area)) = (&mut state.list.preview, areas.preview) {
                let text = usize::from(area.width).saturating_sub(crate::reader::GUTTER);
                effects.extend(reader.arrange(text, usize::from(area.height), &clock));
            }
        }
        Some(Screen::Reader(reader)) => effects.extend(reader.arrange(text, height, &clock)),
        Some(Screen::Tree(tree)) => tree.cursor.arrange(tree.count(), height, |_| 1),
        Some(Screen::Cost(cost)) => cost.cursor.arrange(cost.count(), height, |_| 1),
        Some(Screen::Files(files)) => files.cursor.arrange(files.count(), height, |_| 1),
        Some(Screen::Diff(diff)) => diff.arrange(height),
        Some(Screen::Live(live)) => live.arrange(height),
        Some(Screen::Check(check)) => check.arrange(height),
    }
    effects
}

fn press(state: &mut State, key: &KeyEvent) -> Vec<Effect> {
    let name = keys::name(key);
    state.notice = None;
    let context = state.context();
    let is_bound = keys::action(context, &name, state.mode.read_only).is_some();
    let leaves = state.dialog.is_some() || context != Context::List;
    // Terminals send Alt as Escape and the key, so these may be two keys that arrived together.
    if key.modifiers.contains(KeyModifiers::ALT) && leaves && !is_bound {
        let mut effects = press(state, &KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        let modifiers = key.modifiers - KeyModifiers::ALT;
        effects.extend(press(state, &KeyEvent::new(key.code, modifiers)));
        return effects;
    }
    if let Some(dialog) = state.dialog.take() {
        return press_in_dialog(state, dialog, key, &name);
    }
    if let Some(action) = keys::action(context, &name, state.mode.read_only) {
        return act(state, context, action);
    }
    match context {
        // No condition begins with a colon.
        Context::List if name == ":" && state.list.query.is_empty() => {
            act(state, context, Action::Command)
        }
        Context::List => type_query(state, key, &name),
        _ => Vec::new(),
    }
}

fn type_query(state: &mut State, key: &KeyEvent, name: &str) -> Vec<Effect> {
    match (name, key.code) {
        ("backspace", _) => {
            let mut clusters: Vec<&str> =
                annals_render::width::clusters(&state.list.query).collect();
            if clusters.pop().is_none() {
                return Vec::new();
            }
            state.list.query = clusters.concat();
        }
        ("space", _) if state.list.query.is_empty() => return Vec::new(),
        ("space", _) => state.list.query.push(' '),
        (name, KeyCode::Char(c)) if name.chars().count() == 1 => state.list.query.push(c),
        _ => return Vec::new(),
    }
    changed_query(state)
}

fn changed_query(state: &mut State) -> Vec<Effect> {
    match state.list.change_query(&state.clock) {
        Some(question) => vec![Effect::Search(question)],
        None => vec![Effect::StopSearch],
    }
}

fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    // A query is one line, and a pasted page is no query.
    let line: String = text
        .lines()
        .take(1)
        .flat_map(|line| line.chars().take(500))
        .collect();
    let context = state.context();
    match (&mut state.dialog, context) {
        (Some(Dialog::Input(input)), _) => input.text.push_str(&line),
        (None, Context::List) => {
            state.list.query.push_str(&line);
            return changed_query(state);
        }
        _ => {}
    }
    Vec::new()
}

fn press_in_dialog(state: &mut State, dialog: Dialog, key: &KeyEvent, name: &str) -> Vec<Effect> {
    if matches!(name, "ctrl-c" | "ctrl-q") {
        return Vec::new();
    }
    match dialog {
        Dialog::Help(mut help) => {
            let height = usize::from(state.height);
            let page = height.saturating_sub(5) as isize;
            let lines = match name {
                "j" | "down" => 1,
                "k" | "up" => -1,
                "pagedown" | "space" | "ctrl-d" => page,
                "pageup" | "ctrl-u" => -page,
                _ => return Vec::new(),
            };
            help.scroll(lines, height, state.mode.read_only);
            state.dialog = Some(Dialog::Help(help));
            Vec::new()
        }
        Dialog::Question(question) => {
            let mut answers = question.answers.iter();
            let chosen = answers.find(|(answer, ..)| key.code == KeyCode::Char(*answer));
            match chosen {
                Some((_, _, effect)) => effect.iter().cloned().collect(),
                None if name == "esc" => Vec::new(),
                None if question.is_transient => press(state, key),
                None => {
                    state.dialog = Some(Dialog::Question(question));
                    Vec::new()
                }
            }
        }
        Dialog::Input(mut input) => {
            match (name, key.code) {
                ("esc", _) => return Vec::new(),
                ("enter", _) => return finish_input(state, &input),
                ("backspace", _) => _ = input.text.pop(),
                ("ctrl-u", _) => input.text.clear(),
                ("space", _) => input.text.push(' '),
                (name, KeyCode::Char(c)) if name.chars().count() == 1 => input.text.push(c),
                _ => {}
            }
            state.dialog = Some(Dialog::Input(input));
            Vec::new()
        }
    }
}

fn finish_input(state: &mut State, input: &Input) -> Vec<Effect> {
    let text = input.text.trim();
    if text.is_empty() {
        if let Some(reader) = state.reader() {
            reader.find = None;
        }
        return Vec::new();
    }
    match input.purpose {
        Purpose::Find => {
            let effect = state
                .reader()
                .map(|reader| reader.find_text(text.to_owned()));
            effect.into_iter().collect()
        }
        Purpose::Command => {
            match command_line::parse(text) {
                Ok(words) => return vec![Effect::Run(words)],
                Err(why) => state.fail(why),
            }
            Vec::new()
        }
    }
}

fn act(state: &mut State, context: Context, action: Action) -> Vec<Effect> {
    match action {
        Action::Quit => {
            state.exit = Some(Exit::Quit);
            return Vec::new();
        }
        Action::Suspend => return vec![Effect::Suspend],
        Action::Redraw => return vec![Effect::Redraw],
        Action::Help => {
            state.dialog = Some(Dialog::Help(Help { context, top: 0 }));
            return Vec::new();
        }
        Action::Mouse => {
            state.has_mouse = !state.has_mouse;
            state.say(match state.has_mouse {
                true => "the mouse scrolls and selects; m releases it",
                false => "the mouse belongs to the terminal again",
            });
            return vec![Effect::Mouse(state.has_mouse)];
        }
        Action::Command => {
            state.dialog = Some(Dialog::Input(Input {
                purpose: Purpose::Command,
                text: String::new(),
            }));
            return Vec::new();
        }
        Action::Back if context != Context::List => return back(state),
        _ => {}
    }
    match state.screens.last_mut() {
        None => act_in_list(state, action),
        Some(Screen::Reader(_)) => act_in_reader(state, action),
        Some(Screen::Tree(tree)) => {
            let count = tree.count();
            if tree.cursor.act(action, count) {
                return Vec::new();
            }
            let session = tree.session.clone();
            let row = tree.selected().cloned();
            match (action, row) {
                (
                    Action::Enter | Action::Diff,
                    Some(TreeRow {
                        file: Some((file, version)),
                        ..
                    }),
                ) => {
                    let diff = DiffScreen::at(session, file, version);
                    let effect = diff.question();
                    state.screens.push(Screen::Diff(diff));
                    effect.into_iter().collect()
                }
                (Action::Enter, Some(row)) => {
                    let at = row
                        .message
                        .filter(|_| row.which != ConversationRef::Resumed);
                    state.open(session, row.which, at)
                }
                (Action::Fork, Some(row)) => vec![Effect::Fork {
                    session,
                    message: row.message,
                }],
                (Action::CopyId, Some(row)) => {
                    let id = row.message.map(|id| format!("{}@{id}", session.id));
                    vec![copy_id(id.unwrap_or(session.id))]
                }
                _ => act_on_session(state, action, session),
            }
        }
        Some(Screen::Cost(cost)) => {
            let count = cost.count();
            if cost.cursor.act(action, count) {
                return Vec::new();
            }
            match action {
                Action::Regroup => {
                    cost.regroup();
                    vec![Effect::Cost(cost.question.clone())]
                }
                Action::Enter => match cost.down() {
                    Some(down) => {
                        let effect = Effect::Cost(down.question.clone());
                        state.screens.push(Screen::Cost(down));
                        vec![effect]
                    }
                    None => {
                        let id = cost.selected().map(|row| row.key.clone());
                        let name = id.map(|id| state.list.name(&id));
                        name.map_or_else(Vec::new, |name| {
                            state.open(name, ConversationRef::Resumed, None)
                        })
                    }
                },
                _ => Vec::new(),
            }
        }
        Some(Screen::Files(files)) => {
            let count = files.count();
            if files.cursor.act(action, count) || action != Action::Enter {
                return Vec::new();
            }
            let Some(file) = files.selected().cloned() else {
                return Vec::new();
            };
            let diff = DiffScreen::last(files.session.clone(), file);
            let effect = diff.question();
            state.screens.push(Screen::Diff(diff));
            effect.into_iter().collect()
        }
        Some(Screen::Diff(diff)) => match action {
            Action::NextVersion => diff.step(true).into_iter().collect(),
            Action::PreviousVersion => diff.step(false).into_iter().collect(),
            Action::Restore => match diff.restorable() {
                Some(restore) => vec![Effect::PlanRestore(restore)],
                None => {
                    state.say("this version has no stored content, or its file no path");
                    Vec::new()
                }
            },
            action => {
                diff.act(action);
                Vec::new()
            }
        },
        Some(Screen::Live(live)) => {
            let count = live.agents.len();
            if live.cursor.act(action, count) || action != Action::Enter {
                return Vec::new();
            }
            let session = live.selected().map(|agent| agent.session.clone());
            session.map_or_else(Vec::new, |session| {
                let mut effects = state.open(session, ConversationRef::Resumed, None);
                effects.extend(follow(state));
                effects
            })
        }
        Some(Screen::Check(check)) => {
            let count = check.count();
            if check.cursor.act(action, count) {
                return Vec::new();
            }
            match action {
                Action::Refresh => {
                    check.found = None;
                    vec![Effect::Check]
                }
                Action::CopyMessage => {
                    let command = check.selected().and_then(|row| row.command.clone());
                    match command {
                        Some(text) => vec![Effect::Copy {
                            text,
                            what: "the command",
                        }],
                        None => {
                            state.say("no command repairs this; the advice says what to do");
                            Vec::new()
                        }
                    }
                }
                _ => Vec::new(),
            }
        }
    }
}

/// Leaves a screen.
fn back(state: &mut State) -> Vec<Effect> {
    if let Some(reader) = state.reader()
        && reader.find.take().is_some()
    {
        return Vec::new();
    }
    let mut effects = Vec::new();
    match state.screens.pop() {
        Some(Screen::Reader(reader)) if reader.following => effects.push(Effect::StopFollowing),
        Some(Screen::Live(_)) => effects.push(Effect::StopFollowing),
        _ => {}
    }
    // Logs have grown meanwhile.
    if state.screens.is_empty() {
        effects.extend([Effect::ListSessions, Effect::Follow(Followed::List)]);
    }
    if let Some(Screen::Live(_)) = state.screens.last() {
        effects.push(Effect::Follow(Followed::All));
    }
    effects
}

fn act_in_list(state: &mut State, action: Action) -> Vec<Effect> {
    let count = state.list.shown.len();
    if state.list.cursor.act(action, count) {
        state.list.has_moved = true;
        return Vec::new();
    }
    match action {
        Action::NextScope | Action::PreviousScope => {
            let before = state.list.scope;
            state.list.scope = before.step(action == Action::NextScope);
            state.list.cursor.selected = 0;
            changed_query(state)
        }
        Action::ClearQuery => {
            state.list.query.clear();
            changed_query(state)
        }
        Action::OwnWords => {
            state.list.toggle_condition(OWN_WORDS);
            changed_query(state)
        }
        Action::DeleteWord => {
            let query = state.list.query.trim_end();
            let end = query.rfind(' ').map_or(0, |at| at + 1);
            state.list.query.truncate(end);
            changed_query(state)
        }
        Action::Back if !state.list.query.is_empty() => {
            state.list.query.clear();
            changed_query(state)
        }
        Action::Back => {
            state.exit = Some(Exit::Quit);
            Vec::new()
        }
        Action::Refresh => vec![Effect::ListSessions],
        Action::Cost => {
            let cost = CostScreen::by_day();
            let effect = Effect::Cost(cost.question.clone());
            state.screens.push(Screen::Cost(cost));
            vec![effect]
        }
        Action::Live => {
            state.screens.push(Screen::Live(LiveScreen::default()));
            vec![Effect::Follow(Followed::All)]
        }
        Action::Check => {
            state.screens.push(Screen::Check(CheckScreen::default()));
            vec![Effect::Check]
        }
        action => {
            let Some(session) = state.list.selected_name() else {
                return Vec::new();
            };
            match action {
                Action::Enter if state.mode.pick => {
                    state.exit = Some(Exit::Picked(session.id));
                    Vec::new()
                }
                Action::Enter => {
                    let hit = state.list.selected_hit();
                    let which = hit
                        .clone()
                        .map_or(ConversationRef::Resumed, ConversationRef::Through);
                    state.open(session, which, hit)
                }
                Action::Fork => vec![Effect::Fork {
                    session,
                    message: None,
                }],
                Action::CopyId => vec![copy_id(session.id)],
                action => act_on_session(state, action, session),
            }
        }
    }
}

/// Actions that several screens have for a session.
fn act_on_session(state: &mut State, action: Action, session: SessionName) -> Vec<Effect> {
    match action {
        Action::Tree => {
            state.screens.push(Screen::Tree(TreeScreen {
                session: session.clone(),
                ..TreeScreen::default()
            }));
            vec![Effect::Tree(session)]
        }
        Action::Files => {
            state.screens.push(Screen::Files(FilesScreen {
                session: session.clone(),
                ..FilesScreen::default()
            }));
            vec![Effect::Files(session)]
        }
        Action::Resume => vec![Effect::Resume(session)],
        Action::Trash => {
            state.dialog = Some(Dialog::Question(Question::trash(session)));
            Vec::new()
        }
        Action::Export => vec![Effect::Export(session)],
        _ => Vec::new(),
    }
}

fn act_in_reader(state: &mut State, action: Action) -> Vec<Effect> {
    let clock = state.clock.clone();
    let Some(reader) = state.reader() else {
        return Vec::new();
    };
    let session = reader.conversation.session.clone();
    match action {
        Action::Up => reader.scroll(-1, &clock),
        Action::Down => reader.scroll(1, &clock),
        Action::HalfUp => reader.page(-0.5, &clock),
        Action::HalfDown => reader.page(0.5, &clock),
        Action::PageUp => reader.page(-1.0, &clock),
        Action::PageDown => reader.page(1.0, &clock),
        Action::First => reader.first(),
        Action::Last => reader.last(),
        Action::NextMessage => reader.step(true),
        Action::PreviousMessage => reader.step(false),
        Action::NextPrompt => reader.step_prompt(true),
        Action::PreviousPrompt => reader.step_prompt(false),
        Action::FindNext => reader.find_next(true),
        Action::FindPrevious => reader.find_next(false),
        Action::Thinking => reader.thinking = !reader.thinking,
        Action::CostColumn => reader.costs = !reader.costs,
        Action::Tools => {
            reader.tools = reader.tools.next();
            let text = format!("tools: {}", reader.tools.name());
            state.say(text);
        }
        Action::Find => {
            state.dialog = Some(Dialog::Input(Input {
                purpose: Purpose::Find,
                text: String::new(),
            }));
        }
        Action::NextBranch => return next_branch(state),
        Action::Agents => return open_agent(state),
        Action::Parent => match reader.conversation.which {
            ConversationRef::Agent(_) => return back(state),
            _ => state.say("this is the main agent"),
        },
        Action::Follow => return follow(state),
        Action::Fork => match reader.current_id() {
            Some(message) => {
                return vec![Effect::Fork {
                    session,
                    message: Some(message),
                }];
            }
            None => state.say("this message has no id to fork at"),
        },
        Action::CopyMessage => {
            let text = reader.current_entry().map(entry_text);
            return match text {
                Some(text) => vec![Effect::Copy {
                    text,
                    what: "the message",
                }],
                None => Vec::new(),
            };
        }
        Action::CopyId => {
            let id = reader.current_id();
            let id = id.map(|id| format!("{}@{id}", session.id));
            return vec![copy_id(id.unwrap_or(session.id))];
        }
        Action::Pager => {
            let id = reader.current_id();
            let id = id.map_or_else(|| session.key.clone(), |id| format!("{}@{id}", session.key));
            return vec![Effect::Run(vec![
                "show".to_owned(),
                "--full".to_owned(),
                id,
            ])];
        }
        action => return act_on_session(state, action, session),
    }
    Vec::new()
}

fn next_branch(state: &mut State) -> Vec<Effect> {
    let Some(reader) = state.reader() else {
        return Vec::new();
    };
    match reader.conversation.branch {
        Some((number, count)) if count > 1 => {
            // Numbers are from 1.
            reader.conversation.which = ConversationRef::Branch(number % count);
            reader.at_end = false;
            vec![Effect::Open(reader.question(false))]
        }
        _ => {
            state.say("this conversation has no other branch");
            Vec::new()
        }
    }
}

fn open_agent(state: &mut State) -> Vec<Effect> {
    let Some(reader) = state.reader() else {
        return Vec::new();
    };
    let session = reader.conversation.session.clone();
    match reader.current_agent() {
        Some(agent) => state.open(session, ConversationRef::Agent(agent), None),
        None => {
            let count = reader.conversation.agents.len();
            state.say(match count {
                0 => "this session has no sub-agents",
                _ => "this message calls no sub-agent; v lists them",
            });
            Vec::new()
        }
    }
}

/// Starts or stops following the conversation.
fn follow(state: &mut State) -> Vec<Effect> {
    let Some(reader) = state.reader() else {
        return Vec::new();
    };
    reader.following = !reader.following;
    if !reader.following {
        return vec![Effect::StopFollowing];
    }
    reader.last();
    let session = reader.conversation.session.clone();
    state.say("following: what is written appears at the end");
    vec![Effect::Follow(Followed::Session(session))]
}

fn copy_id(text: String) -> Effect {
    Effect::Copy {
        text,
        what: "the id",
    }
}
