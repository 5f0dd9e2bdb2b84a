//! Applies answers of the workers to the state.

use std::path::PathBuf;

use annals::service::SessionRow;

use crate::protocol::{Answer, Effect, Followed};
use crate::screens::{Dialog, Question};
use crate::state::{Exit, Screen, State};

/// What shows whether a session has grown: its file, and the length.
fn seen(row: &SessionRow) -> (PathBuf, u64) {
    (row.info.file.clone(), row.info.bytes)
}

/// Applies an answer of the workers.
pub(super) fn apply(state: &mut State, answer: Answer) -> Vec<Effect> {
    let clock = state.clock.clone();
    match answer {
        Answer::Sessions { rows, here, total } => {
            let is_first = !state.list.is_whole();
            let before = state.list.selected().map(seen);
            state.list.all = total;
            state.list.take_sessions(rows, here, &clock);
            let mut effects = Vec::new();
            if is_first && state.list.is_whole() && !state.is_time_fixed {
                effects.push(Effect::Follow(Followed::List));
            }
            let after = state.list.selected().map(seen);
            let grew = before
                .zip(after)
                .is_some_and(|(before, after)| before.0 == after.0 && before.1 != after.1);
            if let Some(preview) = state.list.preview.as_ref().filter(|_| grew) {
                effects.push(Effect::Open(preview.question(true)));
            }
            return effects;
        }
        // Other screens are read again when they are left.
        Answer::ListChanged if state.screens.is_empty() => return vec![Effect::ListSessions],
        Answer::ListChanged => {}
        Answer::Stale { reader } => {
            let question = state
                .reader_by_id(reader)
                .map(|reader| reader.question(false));
            return question.map(Effect::Open).into_iter().collect();
        }
        Answer::Hits(hits) => _ = state.list.take_hits(hits, &clock),
        Answer::Opened {
            reader,
            conversation,
        } => {
            return state
                .reader_by_id(reader)
                .map_or_else(Vec::new, |reader| reader.take(*conversation));
        }
        Answer::Loaded {
            reader,
            stamp,
            entries,
        } => {
            if let Some(reader) = state.reader_by_id(reader) {
                reader.take_entries(stamp, entries);
            }
        }
        Answer::Found {
            reader,
            stamp,
            text,
            items,
        } => {
            if let Some(reader) = state.reader_by_id(reader) {
                reader.take_found(stamp, &text, &items);
                if items.is_empty() {
                    state.say(format!("not found: {text}"));
                }
            }
        }
        Answer::Written => {
            let questions = state.screens.iter().filter_map(|screen| match screen {
                Screen::Reader(reader) if reader.following => Some(reader.question(false)),
                _ => None,
            });
            return questions.map(Effect::Grow).collect();
        }
        Answer::Tree { session, rows } => {
            for screen in &mut state.screens {
                if let Screen::Tree(tree) = screen
                    && tree.session == session
                    && tree.rows.is_none()
                {
                    tree.take(rows);
                    break;
                }
            }
        }
        Answer::Files { session, files } => {
            for screen in &mut state.screens {
                if let Screen::Files(shown) = screen
                    && shown.session == session
                {
                    shown.files = Some(files);
                    break;
                }
            }
        }
        Answer::Diff { path, new, text } => {
            if let Some(Screen::Diff(diff)) = state.screens.last_mut() {
                diff.take(&path, new, &text);
            }
        }
        Answer::RestorePlanned { restore, replaced } => {
            state.dialog = Some(Dialog::Question(Question::restore(restore, replaced)));
        }
        Answer::Cost { question, report } => {
            for screen in &mut state.screens {
                if let Screen::Cost(cost) = screen {
                    cost.take(&question, (*report).clone());
                }
            }
        }
        Answer::Check(found) => {
            if let Some(Screen::Check(check)) = state.screens.last_mut() {
                check.found = Some(found);
            }
        }
        Answer::Live(line) => {
            let mut line = *line;
            let known = state.list.name(&line.session.id);
            line.session = known;
            for screen in &mut state.screens {
                if let Screen::Live(live) = screen {
                    live.take(line);
                    break;
                }
            }
        }
        Answer::Forked { session } => {
            state.dialog = Some(Dialog::Question(Question {
                title: "copied into a new session",
                lines: vec![session.id.clone()],
                answers: vec![
                    (
                        'r',
                        "go on in its agent",
                        Some(Effect::Resume(session.clone())),
                    ),
                    ('y', "copy the id", Some(super::copy_id(session.id))),
                ],
                is_transient: true,
            }));
            return vec![Effect::ListSessions];
        }
        Answer::Trashed { id, title } => {
            // Nothing of it is on the screen any more.
            state.screens.clear();
            state.list.preview = None;
            state.dialog = Some(Dialog::Question(Question {
                title: "moved to the trash",
                lines: vec![title.clone()],
                answers: vec![('u', "undo", Some(Effect::Undelete { id, title }))],
                is_transient: true,
            }));
            return vec![Effect::ListSessions];
        }
        Answer::Restored { title } => {
            state.say(format!("restored: {title}"));
            return vec![Effect::ListSessions];
        }
        Answer::Exported(path) => state.say(format!("exported to {}", path.display())),
        Answer::Resume(command) => state.exit = Some(Exit::Resume(command)),
        Answer::Notice(text) => state.say(text),
        Answer::ReaderFailed { reader, why } => match state.reader_by_id(reader) {
            Some(reader) if !reader.is_open => reader.error = Some(why),
            // The text that was read before stays on the screen.
            Some(_) => state.fail(why),
            None => {}
        },
        Answer::Failed(why) => state.fail(why),
    }
    Vec::new()
}
