//! The table of keys: dispatch, help and footer read the same rows.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Screen that a key works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// On every screen.
    Any,
    /// The list of sessions: letters belong to the query.
    List,
    /// A conversation.
    Reader,
    /// The tree of a session.
    Tree,
    /// The cost report.
    Cost,
    /// The saved files of a session.
    Files,
    /// The versions of a file, and its diffs.
    Diff,
    /// Running agents.
    Live,
    /// Damage.
    Check,
}

/// Action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    First,
    Last,
    Enter,
    Back,
    Quit,
    Suspend,
    Help,
    Redraw,
    Refresh,
    Mouse,
    Command,
    NextScope,
    PreviousScope,
    ClearQuery,
    DeleteWord,
    Tree,
    Cost,
    Live,
    Check,
    Files,
    Fork,
    Resume,
    CopyId,
    CopyMessage,
    Trash,
    NextMessage,
    PreviousMessage,
    NextPrompt,
    PreviousPrompt,
    Find,
    FindNext,
    FindPrevious,
    Tools,
    Thinking,
    NextBranch,
    Agents,
    Parent,
    Follow,
    CostColumn,
    Export,
    Pager,
    Regroup,
    Diff,
    NextVersion,
    PreviousVersion,
    Restore,
    OwnWords,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// Screens that it works on.
    pub(crate) context: Context,
    /// The keys, as [`name`] writes them.
    pub(crate) keys: &'static [&'static str],
    /// Their action.
    pub(crate) action: Action,
    /// Text in the help.
    pub(crate) help: &'static str,
    /// Text in the footer; empty if the key is only in the help.
    pub(crate) footer: &'static str,
    /// Whether it writes, and is absent with `--read-only`.
    pub(crate) writes: bool,
}

const fn key(
    context: Context,
    keys: &'static [&'static str],
    action: Action,
    help: &'static str,
    footer: &'static str,
) -> Binding {
    Binding {
        context,
        keys,
        action,
        help,
        footer,
        writes: false,
    }
}

const fn write(binding: Binding) -> Binding {
    Binding {
        writes: true,
        ..binding
    }
}

use Action as A;
use Context as C;

/// All keys. A screen's own rows come before those of every screen.
pub(crate) const KEYS: &[Binding] = &[
    key(C::List, &["enter"], A::Enter, "read the session", "read"),
    key(
        C::List,
        &["tab"],
        A::NextScope,
        "next scope: all, here, live, archived",
        "scope",
    ),
    key(
        C::List,
        &["shift-tab"],
        A::PreviousScope,
        "previous scope",
        "",
    ),
    key(C::List, &["up", "ctrl-p"], A::Up, "up", ""),
    key(C::List, &["down", "ctrl-n"], A::Down, "down", ""),
    key(C::List, &["pageup"], A::PageUp, "page up", ""),
    key(C::List, &["pagedown"], A::PageDown, "page down", ""),
    key(C::List, &["home"], A::First, "first session", ""),
    key(C::List, &["end"], A::Last, "last session", ""),
    key(
        C::List,
        &["ctrl-g"],
        A::OwnWords,
        "only what people typed: role:human",
        "",
    ),
    key(
        C::List,
        &[":"],
        A::Command,
        "on an empty query: a command that only looks",
        "",
    ),
    key(C::List, &["ctrl-u"], A::ClearQuery, "clear the query", ""),
    key(
        C::List,
        &["ctrl-w"],
        A::DeleteWord,
        "delete the last word",
        "",
    ),
    key(
        C::List,
        &["ctrl-t"],
        A::Tree,
        "branches and sub-agents",
        "tree",
    ),
    key(
        C::List,
        &["ctrl-o"],
        A::Cost,
        "cost of all sessions",
        "cost",
    ),
    key(
        C::List,
        &["ctrl-v"],
        A::Live,
        "what all agents do now",
        "live",
    ),
    key(
        C::List,
        &["ctrl-e"],
        A::Files,
        "files that the session changed",
        "",
    ),
    key(C::List, &["ctrl-k"], A::Check, "look for damage", ""),
    key(
        C::List,
        &["ctrl-r"],
        A::Resume,
        "go on in the agent's own program",
        "resume",
    ),
    write(key(
        C::List,
        &["ctrl-f"],
        A::Fork,
        "copy into a new session",
        "",
    )),
    key(C::List, &["ctrl-y"], A::CopyId, "copy the session's id", ""),
    write(key(
        C::List,
        &["ctrl-x", "delete"],
        A::Trash,
        "move to the trash",
        "",
    )),
    key(C::List, &["f5"], A::Refresh, "read the list again", ""),
    key(C::List, &["alt-m"], A::Mouse, "mouse on and off", ""),
    key(C::List, &["?", "f1"], A::Help, "the keys", "keys"),
    key(
        C::List,
        &["esc"],
        A::Back,
        "clear the query, or quit",
        "quit",
    ),
    //
    key(C::Reader, &["j", "down"], A::Down, "scroll down", ""),
    key(C::Reader, &["k", "up"], A::Up, "scroll up", ""),
    key(C::Reader, &["ctrl-d"], A::HalfDown, "half a page down", ""),
    key(C::Reader, &["ctrl-u"], A::HalfUp, "half a page up", ""),
    key(
        C::Reader,
        &["]", "right"],
        A::NextMessage,
        "next message",
        "[ ] message",
    ),
    key(
        C::Reader,
        &["[", "left"],
        A::PreviousMessage,
        "previous message",
        "",
    ),
    key(
        C::Reader,
        &["}", "tab"],
        A::NextPrompt,
        "next prompt",
        "{ } prompt",
    ),
    key(
        C::Reader,
        &["{", "shift-tab"],
        A::PreviousPrompt,
        "previous prompt",
        "",
    ),
    key(
        C::Reader,
        &["/", "ctrl-f"],
        A::Find,
        "find text in the conversation",
        "find",
    ),
    key(C::Reader, &["n"], A::FindNext, "next place", ""),
    key(C::Reader, &["N"], A::FindPrevious, "previous place", ""),
    key(
        C::Reader,
        &["t"],
        A::Tools,
        "tools: none, line, cut, whole",
        "tools",
    ),
    key(
        C::Reader,
        &["T"],
        A::Thinking,
        "show and hide thinking",
        "thinking",
    ),
    key(C::Reader, &["b"], A::NextBranch, "next branch", "branch"),
    key(
        C::Reader,
        &["s", "enter"],
        A::Agents,
        "open the sub-agent of this message",
        "",
    ),
    key(
        C::Reader,
        &["P"],
        A::Parent,
        "back to the agent that called",
        "",
    ),
    key(
        C::Reader,
        &["w"],
        A::Follow,
        "follow what is written",
        "follow",
    ),
    key(C::Reader, &["c"], A::CostColumn, "cost of each message", ""),
    key(
        C::Reader,
        &["v", "ctrl-t"],
        A::Tree,
        "branches and sub-agents",
        "tree",
    ),
    key(
        C::Reader,
        &["F", "ctrl-e"],
        A::Files,
        "files that the session changed",
        "",
    ),
    key(
        C::Reader,
        &["r", "ctrl-r"],
        A::Resume,
        "go on in the agent's own program",
        "resume",
    ),
    write(key(
        C::Reader,
        &["f"],
        A::Fork,
        "copy up to this message into a new session",
        "fork",
    )),
    key(C::Reader, &["y"], A::CopyMessage, "copy the message", ""),
    key(C::Reader, &["Y", "ctrl-y"], A::CopyId, "copy its id", ""),
    key(
        C::Reader,
        &["e"],
        A::Export,
        "export to a file in this directory",
        "",
    ),
    key(
        C::Reader,
        &["o"],
        A::Pager,
        "the whole message in the pager",
        "",
    ),
    write(key(
        C::Reader,
        &["ctrl-x", "delete"],
        A::Trash,
        "move to the trash",
        "",
    )),
    //
    key(C::Tree, &["enter", "right"], A::Enter, "read there", "read"),
    key(
        C::Tree,
        &["r", "ctrl-r"],
        A::Resume,
        "go on in the agent's own program",
        "resume",
    ),
    write(key(
        C::Tree,
        &["f"],
        A::Fork,
        "copy up to here into a new session",
        "fork",
    )),
    key(
        C::Tree,
        &["F", "ctrl-e"],
        A::Files,
        "files that the session changed",
        "files",
    ),
    key(C::Tree, &["d"], A::Diff, "the change of a file", ""),
    key(C::Tree, &["Y", "ctrl-y"], A::CopyId, "copy the id", ""),
    //
    key(
        C::Cost,
        &["enter", "right"],
        A::Enter,
        "go down: days, sessions, read",
        "go down",
    ),
    key(
        C::Cost,
        &["g", "tab"],
        A::Regroup,
        "group by day, week, month, project, model, session",
        "regroup",
    ),
    //
    key(
        C::Files,
        &["enter", "right", "d"],
        A::Enter,
        "versions and diff",
        "diff",
    ),
    key(
        C::Diff,
        &["]", "right", "n"],
        A::NextVersion,
        "next version",
        "[ ] version",
    ),
    key(
        C::Diff,
        &["[", "p"],
        A::PreviousVersion,
        "previous version",
        "",
    ),
    write(key(
        C::Diff,
        &["R", "ctrl-r"],
        A::Restore,
        "write this version to its file",
        "restore",
    )),
    //
    key(
        C::Live,
        &["enter", "right"],
        A::Enter,
        "read the session",
        "read",
    ),
    //
    key(
        C::Check,
        &["enter", "y"],
        A::CopyMessage,
        "copy the command that repairs it",
        "copy the command",
    ),
    key(C::Check, &["f5"], A::Refresh, "check again", ""),
    //
    key(C::Any, &["down", "j"], A::Down, "down", ""),
    key(C::Any, &["up", "k"], A::Up, "up", ""),
    key(
        C::Any,
        &["pagedown", "space", "ctrl-d"],
        A::PageDown,
        "page down",
        "",
    ),
    key(C::Any, &["pageup", "ctrl-u"], A::PageUp, "page up", ""),
    key(C::Any, &["home", "g"], A::First, "to the beginning", ""),
    key(C::Any, &["end", "G"], A::Last, "to the end", ""),
    key(
        C::Any,
        &[":"],
        A::Command,
        "run another command of annals that only looks",
        "",
    ),
    key(C::Any, &["m", "alt-m"], A::Mouse, "mouse on and off", ""),
    key(C::Any, &["ctrl-l"], A::Redraw, "draw again", ""),
    key(C::Any, &["?", "f1"], A::Help, "the keys", "keys"),
    key(
        C::Any,
        &["esc", "q", "h", "backspace"],
        A::Back,
        "back",
        "back",
    ),
    key(C::Any, &["ctrl-c", "ctrl-q"], A::Quit, "quit", ""),
    key(C::Any, &["ctrl-z"], A::Suspend, "suspend; `fg` goes on", ""),
];

/// Returns the rows that work on a screen, its own first.
pub(crate) fn bindings_in(
    context: Context,
    read_only: bool,
) -> impl Iterator<Item = &'static Binding> {
    let own = move |row: &&Binding| row.context == context;
    let is_own = move |action: Action| KEYS.iter().filter(own).any(|row| row.action == action);
    let any = KEYS.iter().filter(|row| row.context == Context::Any);
    // In the list, letters belong to the query.
    let any = any.filter(move |row| {
        let has_name = row.keys.iter().any(|key| key.len() > 1);
        (context != Context::List || has_name) && !is_own(row.action)
    });
    KEYS.iter()
        .filter(own)
        .chain(any)
        .filter(move |row| !(read_only && row.writes))
}

/// Returns what a key does on a screen.
pub(crate) fn action(context: Context, key: &str, read_only: bool) -> Option<Action> {
    let is_letter = key.chars().count() == 1 && key != "?";
    if context == Context::List && (is_letter || key == "space" || key == "backspace") {
        return None;
    }
    let row = bindings_in(context, read_only).find(|row| row.keys.contains(&key));
    row.map(|row| row.action)
}

/// Returns the name of a key, such as `ctrl-t`, `shift-tab` or `N`.
pub(crate) fn name(key: &KeyEvent) -> String {
    let base = match key.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Enter => "enter".to_owned(),
        KeyCode::Esc => "esc".to_owned(),
        KeyCode::Tab => "tab".to_owned(),
        KeyCode::BackTab => return "shift-tab".to_owned(),
        KeyCode::Backspace => "backspace".to_owned(),
        KeyCode::Delete => "delete".to_owned(),
        KeyCode::Up => "up".to_owned(),
        KeyCode::Down => "down".to_owned(),
        KeyCode::Left => "left".to_owned(),
        KeyCode::Right => "right".to_owned(),
        KeyCode::Home => "home".to_owned(),
        KeyCode::End => "end".to_owned(),
        KeyCode::PageUp => "pageup".to_owned(),
        KeyCode::PageDown => "pagedown".to_owned(),
        KeyCode::F(number) => format!("f{number}"),
        _ => return String::new(),
    };
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return format!("ctrl-{}", base.to_lowercase());
    }
    match key.modifiers.contains(KeyModifiers::ALT) {
        true => format!("alt-{base}"),
        false => base,
    }
}

/// Returns a key as the footer and the help write it.
pub(crate) fn label(key: &str) -> String {
    match key {
        "enter" => "↵".to_owned(),
        "up" => "↑".to_owned(),
        "down" => "↓".to_owned(),
        "left" => "←".to_owned(),
        "right" => "→".to_owned(),
        "pageup" => "PgUp".to_owned(),
        "pagedown" => "PgDn".to_owned(),
        "home" => "Home".to_owned(),
        "end" => "End".to_owned(),
        "delete" => "Del".to_owned(),
        "shift-tab" => "⇧tab".to_owned(),
        key => match key.strip_prefix("ctrl-") {
            Some(letter) => format!("^{letter}"),
            None => key.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREENS: [Context; 8] = [
        C::List,
        C::Reader,
        C::Tree,
        C::Cost,
        C::Files,
        C::Diff,
        C::Live,
        C::Check,
    ];

    /// A key that two rows of one screen name would do only the first.
    #[test]
    fn a_screen_uses_each_key_once() {
        for context in SCREENS {
            let mut seen = std::collections::BTreeSet::new();
            for row in KEYS.iter().filter(|row| row.context == context) {
                for key in row.keys {
                    assert!(seen.insert(*key), "{context:?}: {key}");
                }
            }
        }
    }

    /// Keys that some terminals cannot send, or that arrive as others.
    #[test]
    fn keys_can_be_typed() {
        for row in KEYS {
            for key in row.keys {
                assert!(
                    !["ctrl-i", "ctrl-m", "ctrl-h", "ctrl-s"].contains(key),
                    "{key}"
                );
            }
        }
    }

    /// Somebody without vi, and somebody without arrow keys, can use every screen.
    #[test]
    fn every_action_of_a_letter_outside_of_the_list_is_listed() {
        for context in SCREENS {
            for wanted in [A::Back, A::Help, A::Up, A::Down, A::Quit] {
                let known = bindings_in(context, true).any(|row| row.action == wanted);
                assert!(known, "{context:?} {wanted:?}");
            }
        }
    }

    #[test]
    fn letters_of_the_list_belong_to_the_query() {
        for key in ["q", "j", ":", "m", "space", "backspace", "日"] {
            assert_eq!(action(C::List, key, false), None, "{key}");
        }
        assert_eq!(action(C::List, "ctrl-c", false), Some(A::Quit));
    }

    #[test]
    fn read_only_has_no_key_that_writes() {
        assert_eq!(action(C::Reader, "f", false), Some(A::Fork));
        assert_eq!(action(C::Reader, "f", true), None);
        assert_eq!(action(C::List, "ctrl-x", true), None);
    }
}
