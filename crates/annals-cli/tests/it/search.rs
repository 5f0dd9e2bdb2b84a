//! Search, and pages of a long conversation.

use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::Stage;

#[test]
fn a_text_is_found_in_every_layout() {
    let stage = Stage::of("branch-nested");
    assert_snapshot!("search", stage.annals(&["search", "QUESTION"]));
    assert_snapshot!(
        "search_json",
        stage.annals(&["search", "question", "--limit", "1", "--json"])
    );
    assert_snapshot!(
        "search_limit",
        stage.annals(&["search", "question", "-n", "2"])
    );
    assert_snapshot!("search_none", stage.annals(&["search", "nowhere"]));
    assert_snapshot!(
        "search_none_json",
        stage.annals(&["search", "nowhere", "--json"])
    );
    assert_snapshot!("search_empty", stage.refused(&["search", ""], ""));
    let run = stage.annals(&["search", "question", "--since", "1d"]);
    assert_eq!(run.code, 1, "{run}");
    let run = stage.annals(&["search", "question", "--project", "elsewhere"]);
    assert_eq!(run.code, 1, "{run}");
    let stage = Stage::of_layout("clog", "every-role-and-channel");
    assert_snapshot!("search_clog", stage.annals(&["search", "a"]));
    assert_snapshot!(
        "search_clog_colour",
        stage.annals(&["search", "tomorrow", "--color", "always"])
    );
}

#[test]
fn a_thread_is_searched_whole() {
    let stage = Stage::of_layout("clog", "same-thread-twice");
    let hits = |session: &str| {
        let run = stage.annals(&["search", "question", "--session", session, "--json"]);
        run.json()["total"].as_u64()
    };
    assert_eq!(hits("Thread_X"), Some(3));
    assert_eq!(hits("2026-03-26"), Some(2));
    assert_eq!(hits("2026-03-27T01-32-20-418Z-thread_x"), Some(1));
    assert_snapshot!(
        "search_session_unknown",
        stage.refused(&["search", "x", "--session", "nobody"], "")
    );
}

/// Opens every record of every fixture of a layout that a search finds, by the id that it prints.
fn open_all(layout: &'static str) -> usize {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut names: Vec<String> = std::fs::read_dir(fixtures.join(layout))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    let mut opened = 0;
    for name in names {
        let stage = Stage::of_layout(layout, &name);
        let root = format!("{layout}:{}", stage.root.display());
        let run = |args: &[&str]| {
            let mut command = stage.command();
            let output = command.args(["--root", &root]).args(args).output().unwrap();
            let code = output.status.code();
            (code, String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let everything = ["search", "-e", "(?s)\\S", "-n", "100000"];
        let (_, found) = run(&[&everything[..], &["--json"]].concat());
        let found: Value = serde_json::from_str(&found).unwrap();
        let hits = found["hits"].as_array().unwrap();
        for hit in hits {
            let id = hit["id"].as_str().unwrap();
            let (code, shown) = run(&["show", id, "--json"]);
            assert_eq!(code, Some(0), "{layout} {name} {id}");
            // Inputs of tools are passed on as they stand, half characters included.
            let shown = shown.replace("\\ud", "\\\\ud");
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let entries = shown["entries"].as_array().unwrap();
            let place = |entry: &Value| {
                let at = |key: &str| entry[key].as_u64();
                (at("line"), at("offset"))
            };
            let is_it = |entry: &&Value| place(entry) == place(hit);
            assert!(
                entries.iter().any(|entry| is_it(&entry)),
                "{layout} {name} {id}: {hit}"
            );
            let at = shown["at"].as_u64().unwrap();
            let marked = &entries[usize::try_from(at).unwrap()];
            let same = hit["entry"].is_string() && marked["id"] == hit["entry"];
            assert!(same || is_it(&marked), "{layout} {name} {id}: {marked}");
            opened += 1;
        }
        // The same for people: every line with an id names one that `show` opens.
        let (_, listed) = run(&everything);
        let ids = listed
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let ids: Vec<&str> = ids.filter_map(|line| line.split("  ").last()).collect();
        assert_eq!(ids.len(), hits.len(), "{layout} {name}: {listed}");
        let mut snippets = listed.lines().filter(|line| line.starts_with("    "));
        for id in ids {
            let snippet = snippets.next().unwrap();
            let (code, shown) = run(&["show", id, "-C", "0"]);
            assert_eq!(code, Some(0), "{layout} {name} {id}");
            let words = snippet.split(|c: char| !c.is_ascii_alphanumeric());
            let word = words.max_by_key(|word| word.len()).unwrap();
            assert!(
                shown.contains(word),
                "{layout} {name} {id}: no {word} in {shown}"
            );
            assert!(shown.contains("▶ "), "{layout} {name} {id}: {shown}");
        }
    }
    opened
}

#[test]
fn show_opens_whatever_search_finds_in_claude_code() {
    assert!(open_all("claude-code") > 400);
}

#[test]
fn show_opens_whatever_search_finds_in_chorus() {
    assert!(open_all("chorus") > 50);
}

#[test]
fn show_opens_whatever_search_finds_in_clog() {
    assert!(open_all("clog") > 50);
}

#[test]
fn show_opens_whatever_search_finds_in_the_orchestrator() {
    assert!(open_all("orchestrator") > 50);
}

#[test]
fn long_conversations_come_in_pages() {
    let stage = Stage::of_layout("clog", "every-role-and-channel");
    let show = |args: &[&str]| {
        let mut all = vec!["show", "thread_abc123"];
        all.extend(args);
        stage.annals(&all)
    };
    assert_snapshot!("page", show(&["--offset", "2", "--limit", "2"]));
    assert_snapshot!("page_newest", show(&["--budget", "8"]));
    let page = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let run = show(&args);
        let page: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let texts: Vec<String> = page["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let blocks = entry["blocks"].as_array().unwrap();
                blocks.last().unwrap()["text"].as_str().unwrap().to_owned()
            })
            .collect();
        let at = |key: &str| page[key].as_u64();
        let more = page["has_more"].as_bool();
        (
            texts,
            at("offset"),
            at("total"),
            more,
            at("next_offset"),
            run.code,
        )
    };
    let all = [
        "You are an operator.",
        "What is the load?",
        "The load is 0.5.",
        "And from the web?",
        "Still 0.5.",
        "Danke, café 😀",
    ];
    let texts = |range: std::ops::Range<usize>| -> Vec<String> {
        all[range].iter().map(|text| (*text).to_owned()).collect()
    };
    for (args, range, next) in [
        (&["--limit", "2"][..], 0..2, Some(2)),
        (&["--limit", "2", "--offset", "4"], 4..6, None),
        (&["--offset", "5"], 5..6, None),
        (&["--limit", "99"], 0..6, None),
        // 20, 17, 40 (with its reasoning), 17, 10 and 17 bytes; 4 bytes a token, rounded up.
        (&["--budget", "8"], 4..6, Some(2)),
        (&["--budget", "7"], 5..6, Some(4)),
        (&["--budget", "0"], 5..6, Some(4)),
        (&["--budget", "10000"], 0..6, None),
        (&["--budget", "10000", "--limit", "1"], 5..6, Some(4)),
        (&["--budget", "10", "--offset", "0"], 0..2, Some(2)),
        (&["--budget", "9", "--offset", "0"], 0..1, Some(1)),
    ] {
        let offset = Some(range.start as u64);
        let wanted = (texts(range), offset, Some(6), Some(next.is_some()), next, 0);
        assert_eq!(page(args), wanted, "{args:?}");
    }
    let beyond = page(&["--offset", "6"]);
    assert_eq!(beyond, (vec![], Some(6), Some(6), Some(false), None, 1));
    let whole = show(&["--json"]).json();
    assert!(whole.get("has_more").is_none(), "{whole}");
    let run = show(&["--last", "1", "--limit", "1"]);
    assert_eq!(run.code, 2, "{run}");
}
