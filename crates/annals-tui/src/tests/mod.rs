//! The screens over fixtures: what keys do, and how it looks.

mod driver;

use insta::assert_snapshot;

use crate::protocol::{Effect, Event, Followed};
use crate::state::{Exit, Mode};
use driver::{Driver, Home, all_keys};

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (140, 40);

/// Sessions with branches, sub-agents, saved files, compactions, damage and hostile text.
fn home() -> Home {
    Home::new(&[
        "branch-three-way",
        "2.1.325-s04-agent",
        "2.1.325-s02-tools",
        "file-history",
        "compaction",
        "hostile-text",
        "invalid-utf8",
    ])
}

/// Both sizes of a screen.
macro_rules! assert_screen {
    ($name:literal, $home:expr, $keys:expr) => {
        for (size, suffix) in [(SMALL, "80x24"), (LARGE, "140x40")] {
            let home = $home;
            let mut driver = Driver::new(home, size);
            let keys: fn(&mut Driver) = $keys;
            keys(&mut driver);
            // Names of temporary directories.
            insta::with_settings!({ filters => [(r"\.tmp\w{6}", ".tmp------")] }, {
                assert_snapshot!(format!("{}_{suffix}", $name), driver.screen());
            });
        }
    };
}

/// Selects the first session that a word finds, and clears the query.
fn open(driver: &mut Driver, word: &str) {
    driver.type_text(word).press("enter");
}

#[test]
fn list() {
    assert_screen!("list", &home(), |_| {});
}

#[test]
fn list_of_hits() {
    assert_screen!("hits", &home(), |driver| {
        driver.type_text("the file");
    });
}

#[test]
fn list_of_an_invalid_query() {
    assert_screen!("invalid_query", &home(), |driver| {
        driver.type_text("role:nobody \"open");
    });
}

#[test]
fn list_of_an_empty_home() {
    assert_screen!("empty", &Home::new(&[]), |_| {});
}

#[test]
fn list_without_results() {
    assert_screen!("no_results", &home(), |driver| {
        driver.type_text("zzzzzz");
    });
}

#[test]
fn help() {
    assert_screen!("help_list", &home(), |driver| {
        driver.press("?");
    });
    assert_screen!("help_reader", &home(), |driver| {
        open(driver, "branch-three-way");
        driver.press("?");
    });
}

#[test]
fn reader() {
    assert_screen!("reader", &home(), |driver| {
        open(driver, "branch-three-way");
    });
}

#[test]
fn reader_of_tools() {
    for (times, name) in ["line", "cut", "whole", "none"].iter().enumerate() {
        let home = home();
        let mut driver = Driver::new(&home, SMALL);
        open(&mut driver, "s02-tools");
        driver.press("g");
        for _ in 0..times {
            driver.press("t");
        }
        driver.press("T c j k");
        assert_snapshot!(format!("tools_{name}"), driver.screen());
    }
}

#[test]
fn reader_finds_text() {
    assert_screen!("find", &home(), |driver| {
        open(driver, "s02-tools");
        driver.press("/").type_text("file").press("enter n");
    });
}

#[test]
fn reader_of_a_compacted_session() {
    assert_screen!("compaction", &home(), |driver| {
        open(driver, "work/compaction");
        driver.press("g");
    });
}

#[test]
fn tree() {
    assert_screen!("tree", &home(), |driver| {
        driver.type_text("branch-three-way").press("ctrl-t");
    });
    assert_screen!("tree_of_agents", &home(), |driver| {
        driver.type_text("s04-agent").press("ctrl-t");
    });
    let home = Home::new(&["file-history"]);
    assert_screen!("tree_of_files", &home, |driver| {
        driver.press("ctrl-t");
    });
    // Each row of a file leads to the change that its message made.
    assert_screen!("tree_of_files_diff", &home, |driver| {
        driver.press("ctrl-t g j j d");
    });
}

#[test]
fn sub_agent() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    open(&mut driver, "s04-agent");
    driver.press("g ] s");
    assert_snapshot!("sub_agent", driver.screen());
    let of_agent = driver.state.screens.len();
    driver.press("P");
    assert_eq!(driver.state.screens.len() + 1, of_agent);
}

#[test]
fn branches() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    open(&mut driver, "branch-three-way");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let reader = driver.state.reader().unwrap();
        assert!(reader.conversation.is_whole);
        seen.insert(reader.conversation.branch.unwrap());
        driver.press("b");
    }
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        [(1, 3), (2, 3), (3, 3)]
    );
}

#[test]
fn cost() {
    assert_screen!("cost", &home(), |driver| {
        driver.press("ctrl-o");
    });
    assert_screen!("cost_by_project", &home(), |driver| {
        driver.press("ctrl-o g g g");
    });
    assert_screen!("cost_of_a_day", &home(), |driver| {
        driver.press("ctrl-o enter");
    });
}

#[test]
fn files_and_diffs() {
    assert_screen!("files", &home(), |driver| {
        driver.type_text("file-history").press("ctrl-e");
    });
    assert_screen!("diff", &home(), |driver| {
        driver.type_text("file-history").press("ctrl-e enter");
    });
}

#[test]
fn check() {
    assert_screen!("check", &home(), |driver| {
        driver.press("ctrl-k");
    });
}

#[test]
fn live_without_agents() {
    assert_screen!("live", &home(), |driver| {
        driver.press("ctrl-v");
    });
}

#[test]
fn trash_asks_and_undoes() {
    let home = home();
    let before = home.files();
    let mut driver = Driver::new(&home, SMALL);
    driver.type_text("branch-three-way").press("ctrl-x");
    assert_snapshot!("trash", driver.screen());
    driver.press("n");
    assert_eq!(home.files(), before);
    driver.press("ctrl-x y");
    assert!(home.files().len() < before.len());
    assert_snapshot!("trashed", driver.screen());
    driver.press("u");
    assert_eq!(home.files(), before);
}

#[test]
fn fork_and_resume() {
    let home = home();
    let before = home.files();
    let mut driver = Driver::new(&home, SMALL);
    open(&mut driver, "branch-three-way");
    driver.press("g f");
    let after = home.files();
    assert_eq!(after.len(), before.len() + 1);
    assert!(
        before
            .iter()
            .all(|(path, bytes)| after.get(path) == Some(bytes))
    );
    // Another key closes the question, and is used.
    assert!(driver.screen().contains("copied into a new session"));
    driver.press("?");
    assert!(!driver.screen().contains("copied into a new session"));
}

#[test]
fn resume_needs_the_directory() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    driver.type_text("branch-three-way").press("ctrl-r");
    assert_eq!(driver.state.exit, None);
    assert!(
        driver.screen().contains("does not exist"),
        "{}",
        driver.screen()
    );
}

#[test]
fn pick_ends_with_the_id() {
    let home = home();
    let mode = Mode {
        pick: true,
        read_only: true,
    };
    let mut driver = Driver::with_mode(&home, SMALL, mode);
    driver.type_text("branch-three").press("enter");
    let id = "2ca37bcf-f63b-41f2-80a2-ad71db5557a7".to_owned();
    assert_eq!(driver.state.exit, Some(Exit::Picked(id)));
}

#[test]
fn ids_and_messages_are_copied() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    open(&mut driver, "branch-three-way");
    driver.press("g y Y");
    let copied: Vec<String> = (driver.done.iter())
        .filter_map(|effect| match effect {
            Effect::Copy { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert_snapshot!(copied.join("\n"));
}

/// No key without a question or a fork changes a byte, on any screen.
#[test]
fn looking_changes_nothing() {
    let home = Home::new(&["branch-three-way", "file-history"]);
    let before = home.files();
    let mode = Mode {
        pick: false,
        read_only: true,
    };
    for path in [
        "",
        "enter",
        "ctrl-t",
        "ctrl-o",
        "ctrl-e",
        "ctrl-e enter",
        "ctrl-v",
        "ctrl-k",
    ] {
        let mut driver = Driver::with_mode(&home, SMALL, mode);
        driver.press(path);
        let depth = driver.state.screens.len();
        for key in all_keys() {
            driver.event(Event::Key(key));
            driver.screen();
            // Back to the screen that is tested.
            driver.state.dialog = None;
            if driver.state.screens.len() != depth {
                driver = Driver::with_mode(&home, SMALL, mode);
                driver.press(path);
            }
        }
    }
    assert_eq!(home.files(), before);
    assert!(!home.root().join("../state/undo").exists());
}

/// No size, not even one without a line, causes a panic.
#[test]
fn every_size_is_drawn() {
    let home = home();
    for path in [
        "",
        "?",
        "enter",
        "enter ?",
        "enter /",
        "ctrl-t",
        "ctrl-o",
        "ctrl-e enter",
        "ctrl-v",
        "ctrl-k",
        "ctrl-x",
    ] {
        let mut driver = Driver::new(&home, LARGE);
        driver.press(path);
        for (width, height) in [
            (1, 1),
            (19, 5),
            (20, 4),
            (20, 5),
            (40, 8),
            (100, 10),
            (300, 90),
        ] {
            driver.resize(width, height);
            let screen = driver.screen();
            assert_eq!(screen.split('\n').count(), usize::from(height));
            driver.press("down down up");
        }
    }
}

#[test]
fn a_small_terminal_says_so() {
    let home = home();
    let mut driver = Driver::new(&home, (20, 5));
    assert_snapshot!("size_20x5", driver.screen());
    driver.resize(19, 5);
    assert!(driver.screen().starts_with("19x5 is too small"));
}

/// Escape sequences, control and bidirectional characters of titles and messages are made visible.
#[test]
fn hostile_text_is_harmless() {
    assert_screen!("hostile", &home(), |driver| {
        open(driver, "hostile");
        driver.press("g");
        let screen = driver.screen();
        let is_hostile = |c: char| c != '\n' && annals_render::text::is_hostile(c);
        assert!(!screen.contains(is_hostile), "{screen:?}");
    });
}

#[test]
fn a_session_that_is_gone_is_reported() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    driver.type_text("branch-three-way");
    std::fs::remove_dir_all(home.root().join("projects")).unwrap();
    driver.press("enter");
    assert!(
        driver.screen().contains("could not be read"),
        "{}",
        driver.screen()
    );
    driver.press("esc esc esc");
    assert!(
        driver.screen().contains("No sessions yet"),
        "{}",
        driver.screen()
    );
}

/// Answers to questions that are no longer asked change nothing.
#[test]
fn stale_answers_are_dropped() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    driver.type_text("zzzz");
    let generation = driver.state.list.generation;
    let old = crate::protocol::Hits {
        generation: generation - 1,
        total: 99,
        done: true,
        ..crate::protocol::Hits::default()
    };
    driver.event(Event::Answer(crate::protocol::Answer::Hits(old)));
    assert_eq!(driver.state.list.total, 0);
    let why = "an old error".to_owned();
    let gone = crate::protocol::Answer::ReaderFailed { reader: 9_999, why };
    driver.event(Event::Answer(gone));
    assert!(!driver.screen().contains("an old error"));
}

/// The end is shown while the log grows, and the place is kept elsewhere.
#[test]
fn a_growing_log_is_followed() {
    let home = home();
    let mut driver = Driver::new(&home, (80, 12));
    open(&mut driver, "branch-three-way");
    driver.press("w");
    assert!(matches!(
        driver.done.last(),
        Some(Effect::Follow(Followed::Session(_)))
    ));
    let id = driver
        .state
        .reader()
        .unwrap()
        .conversation
        .session
        .id
        .clone();
    let append = |text: &str| {
        let service = home.service();
        let writer = service
            .resume(&id, annals::store::WriteOptions::default())
            .unwrap();
        writer.append(annals::model::Draft::user(text)).unwrap();
    };
    append("Written while it is read.");
    driver.event(Event::Answer(crate::protocol::Answer::Written));
    assert!(
        driver.screen().contains("Written while it is read."),
        "{}",
        driver.screen()
    );
    driver.press("g");
    let top = driver
        .screen()
        .lines()
        .take(11)
        .collect::<Vec<_>>()
        .join("\n");
    append("Written below.");
    driver.event(Event::Answer(crate::protocol::Answer::Written));
    let now = driver
        .screen()
        .lines()
        .take(11)
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(now, top);
}

/// A restored version is written only after a question that says what is lost.
#[test]
fn a_version_is_restored_after_a_question() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    driver
        .type_text("file-history")
        .press("ctrl-e down enter [ R");
    let shown = driver.screen();
    assert!(shown.contains("There is no such file now."), "{shown}");
    driver.press("esc");
    assert!(!driver.screen().contains("write it"), "{}", driver.screen());
    // A version whose copy is missing says so, and is not restored.
    driver.press("] R");
    let shown = driver.screen();
    assert!(
        shown.contains("copy missing") && !shown.contains("comparing"),
        "{shown}"
    );
    assert!(shown.contains("no stored content"), "{shown}");
    let mode = Mode {
        read_only: true,
        ..Mode::default()
    };
    let mut driver = Driver::with_mode(&home, SMALL, mode);
    driver
        .type_text("file-history")
        .press("ctrl-e down enter [ R");
    assert!(!driver.screen().contains("write it"), "{}", driver.screen());
}

/// Terminals send Alt as Escape and the key: Escape and a key that arrive together are two keys.
#[test]
fn escape_and_a_key_at_once_are_both_taken() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    open(&mut driver, "branch-three-way");
    driver.press("? alt-v");
    assert!(
        driver.screen().contains("resumes here"),
        "{}",
        driver.screen()
    );
    // In the list, Alt and a letter neither leave nor change the query.
    let mut driver = Driver::new(&home, SMALL);
    driver.press("alt-x");
    assert!(driver.state.exit.is_none() && driver.state.list.query.is_empty());
}

/// Sessions that were written to come up without a key, and the selection stays on its session.
#[test]
fn the_list_grows_while_it_is_shown() {
    let home = home();
    let mut driver = Driver::new(&home, LARGE);
    let selected = driver.state.list.selected().unwrap().info.id.clone();
    let service = home.service();
    let writer = service.store().begin("/home/me/new").unwrap();
    writer
        .append(annals::model::Draft::user("A new session."))
        .unwrap();
    driver.event(Event::Answer(crate::protocol::Answer::ListChanged));
    assert!(
        driver.screen().contains("A new session."),
        "{}",
        driver.screen()
    );
    assert_eq!(driver.state.list.selected().unwrap().info.id, selected);
    // Nothing is read again while another screen is shown.
    driver.press("enter");
    writer.append(annals::model::Draft::user("More.")).unwrap();
    let before = driver.state.list.rows.clone();
    driver.event(Event::Answer(crate::protocol::Answer::ListChanged));
    assert_eq!(driver.state.list.rows.len(), before.len());
}

#[test]
fn a_key_shows_only_what_people_typed() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    driver.type_text("answer").press("ctrl-g");
    assert_eq!(driver.state.list.query, "role:human answer");
    assert!(driver.state.list.hits.is_empty());
    driver.press("ctrl-g");
    assert_eq!(driver.state.list.query, "answer");
    assert!(!driver.state.list.hits.is_empty());
}

#[test]
fn a_colon_on_an_empty_query_takes_a_command() {
    let home = home();
    let mut driver = Driver::new(&home, SMALL);
    driver.type_text(":cost --by model").press("enter");
    assert_eq!(
        driver.done.last(),
        Some(&Effect::Run(
            ["cost", "--by", "model"].map(str::to_owned).to_vec()
        ))
    );
    driver.type_text("role:user");
    assert_eq!(driver.state.list.query, "role:user");
}
