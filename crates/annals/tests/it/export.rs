//! Exports of every fixture: JSON loses nothing, Markdown and HTML execute nothing, and exports can
//! be imported.

use std::collections::BTreeMap;

use annals::convert::{ExportSource, ImportOptions, Imported, Importer};
use annals::export::{
    ExportOptions, ExportPart, ExportProblem, Exporter, Format, read_entry, write_entry,
};
use annals::layout::NewSession;
use annals::model::{ArtifactKind, Block, Body, Draft, Entry, Message, Role, Span};
use annals::store::{Root, Session, Store};

use crate::support::{QUICK, case, cases};

fn export(session: &Session, part: &ExportPart, options: ExportOptions) -> String {
    let mut out = Vec::new();
    let mut exporter = Exporter::begin(options, None, &mut out).unwrap();
    exporter.session(session, part).unwrap();
    exporter.finish().unwrap();
    String::from_utf8(out).unwrap()
}

/// Reads an export as a root.
fn read_back(text: &str) -> (ExportSource, Vec<Session>) {
    let source = ExportSource::read(text.as_bytes(), "test").unwrap();
    let inventory = Store::new(vec![source.root()]).inventory();
    assert!(inventory.errors.is_empty(), "{:?}", inventory.errors);
    let sessions = inventory.sessions.into_iter();
    let sessions = sessions
        .map(|files| Session::read(files).unwrap())
        .collect();
    (source, sessions)
}

/// Returns the entries of an exported session, without those of its heads.
fn exported_entries(session: &Session) -> Vec<Entry> {
    let mut entries = entries_of(session);
    entries.retain(|entry| {
        let is_list = matches!(entry.body, Body::Todos(_));
        !annals::layout::export_file::is_head(entry) && !is_list
    });
    entries
}

/// Visits every session of every fixture.
fn each_session(mut visit: impl FnMut(&str, &Session)) {
    for case in cases() {
        for files in case.sessions() {
            visit(&case.name, &Session::read(files).unwrap());
        }
    }
}

fn entries_of(session: &Session) -> Vec<Entry> {
    let mut entries = Vec::new();
    for log in 0..session.logs.len() {
        let all: Vec<usize> = (0..session.logs[log].outlines.len()).collect();
        session
            .each_entry_of_log(log, &all, |mut entry| {
                entry.span = Span::default();
                entry.derived_id = false;
                entries.push(entry);
                Ok(true)
            })
            .unwrap();
    }
    entries
}

#[derive(serde::Deserialize)]
struct Kind {
    kind: String,
}

#[test]
fn every_entry_of_every_fixture_round_trips_through_json() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases() {
        for file in case.files() {
            for mut entry in case.root().entries(&file).unwrap() {
                // A session list is not an entry of a log and is not exported.
                if matches!(entry.body, Body::SessionList(_)) {
                    continue;
                }
                let mut json = Vec::new();
                write_entry(&entry, &mut json).unwrap();
                let json = String::from_utf8(json).unwrap();
                entry.span = Span::default();
                entry.derived_id = false;
                assert_eq!(read_entry(&json).unwrap(), entry, "{}: {json}", case.name);
                // Not parsed as a value: lone surrogates must be preserved as written.
                let kind: Kind = serde_json::from_str(&json).unwrap();
                *kinds.entry(kind.kind).or_default() += 1;
            }
        }
    }
    // The fixtures must cover these kinds.
    for kind in [
        "message",
        "summary",
        "compaction",
        "system",
        "attachment",
        "title",
        "tag",
        "resume",
        "todos",
        "files",
        "typed",
        "settings",
        "agent",
        "opaque",
    ] {
        assert!(
            kinds.contains_key(kind),
            "no fixture has an entry of the kind {kind}"
        );
    }
}

#[test]
fn json_and_jsonl_contain_every_entry_once() {
    each_session(|name, session| {
        let sort = |mut entries: Vec<Entry>| {
            entries.sort_by_key(|entry| format!("{entry:?}"));
            entries
        };
        // The session is that of the head.
        let mut expected = entries_of(session);
        if session.root().layout.root_is_file() {
            expected = exported_entries(session);
        }
        expected.iter_mut().for_each(|entry| entry.session = None);
        let expected = sort(expected);
        for format in [Format::Json, Format::Jsonl] {
            let text = export(session, &ExportPart::Whole, ExportOptions::new(format));
            let (_source, mut sessions) = read_back(&text);
            assert_eq!(sessions.len(), 1, "{name}");
            let exported = sessions.remove(0);
            assert_eq!(exported.files.id, session.files.id);
            assert!(
                exported.logs.iter().all(|scan| scan.flaws.is_empty()),
                "{name}"
            );
            let layout = session.root().layout.name().to_owned();
            let attributes = exported.info(None).attributes;
            assert_eq!(attributes.get("exported_from"), Some(&layout), "{name}");
            // The lists of the head are not entries.
            let mut found = entries_of(&exported);
            found.retain(|entry| {
                let is_list = matches!(entry.body, Body::Todos(_));
                !annals::layout::export_file::is_head(entry)
                    && (!is_list || expected.contains(entry))
            });
            // What is stored outside of the logs follows the entries of the main log.
            let lost = expected.iter().filter(|entry| !found.contains(entry));
            assert_eq!(lost.collect::<Vec<_>>(), Vec::<&Entry>::new(), "{name}");
            let beside = found.len() - expected.len();
            let kinds = ["title", "note", "tag", "summary", "opaque"];
            found.retain(|entry| expected.contains(entry) || !kinds.contains(&entry.body.kind()));
            assert_eq!(sort(found), expected, "{name} {format}");
            let mut files = session.files.files();
            let has_data = files.any(|file| file.artifact.kind == ArtifactKind::Notes)
                || session
                    .files
                    .list_rows
                    .iter()
                    .any(|row| row.title.is_some());
            assert!(beside == 0 || has_data, "{name} {format} {beside}");
        }
    });
}

#[test]
fn json_and_jsonl_exports_are_equal() {
    each_session(|name, session| {
        let read = |format| {
            let text = export(session, &ExportPart::Whole, ExportOptions::new(format));
            let (_source, sessions) = read_back(&text);
            let read = sessions.iter().map(|session| {
                let title = session.title().map(|title| title.text);
                (exported_entries(session), title, session.todos().unwrap())
            });
            read.collect::<Vec<_>>()
        };
        assert_eq!(read(Format::Json), read(Format::Jsonl), "{name}");
    });
}

#[test]
fn pages_contain_no_control_characters_or_foreign_elements() {
    each_session(|name, session| {
        let markdown = export(
            session,
            &ExportPart::Whole,
            ExportOptions::new(Format::Markdown).redact(false),
        );
        let html = export(
            session,
            &ExportPart::Whole,
            ExportOptions::new(Format::Html).redact(false),
        );
        for (format, page) in [("Markdown", &markdown), ("HTML", &html)] {
            let hostile = page.chars().find(|c| {
                (c.is_control() && !matches!(c, '\n' | '\t'))
                    || matches!(*c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            });
            assert_eq!(hostile, None, "{name} {format}");
        }
        check_html(name, &html);
    });
}

/// Checks that the page has only our elements, balanced, and only attributes that no text could
/// inject.
fn check_html(name: &str, html: &str) {
    let body = &html[html.find("<body>").unwrap()..html.find("<script>").unwrap()];
    let mut open: Vec<&str> = Vec::new();
    for part in body.split('<').skip(1) {
        let tag = part
            .split_once('>')
            .unwrap_or_else(|| panic!("{name}: <{part}"))
            .0;
        let (element, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        match element {
            "br" | "hr" | "img" => {}
            _ if element.starts_with('/') => {
                assert_eq!(open.pop(), Some(&element[1..]), "{name}: <{tag}>");
            }
            _ => open.push(element),
        }
        for attribute in attributes.split("\" ").filter(|text| !text.is_empty()) {
            let known = [
                "id=\"",
                "class=\"",
                "href=\"",
                "title=\"",
                "rel=\"",
                "datetime=\"",
                "start=\"",
                "alt=\"",
                "src=\"data:image/",
                "type=\"button",
                "hidden",
                "open",
            ];
            assert!(
                known.iter().any(|known| attribute.starts_with(known)),
                "{name}: <{tag}>"
            );
        }
    }
    assert_eq!(open, ["body"], "{name}");
    let scripts = html.matches("<script").count();
    assert_eq!(scripts, 1, "{name}");
    let ids: Vec<&str> = body
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{name}: an anchor stands twice");
    for target in body
        .split("href=\"#")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
    {
        assert!(ids.contains(&target), "{name}: #{target} leads nowhere");
    }
}

#[test]
#[should_panic(expected = "onerror")]
fn control_html_check_rejects_foreign_elements() {
    check_html(
        "control",
        "<body><p><img src=\"data:image/png\" onerror=\"x\"></p><main><script>",
    );
}

/// Creates a session with hostile texts.
fn hostile() -> (tempfile::TempDir, Session) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let writer = store
        .begin("/home/me/\"><script>alert(0)</script>")
        .unwrap();
    let nasty = "</script></title></pre>\"><img src=x onerror=alert(1)> \u{202e}\u{1b}[31m [x](javascript:alert(2)) ![y](http://evil.example/y.png) <!-- ``` \n# User\n";
    writer.append(Draft::user(nasty)).unwrap();
    let blocks = [
        Block::Thinking {
            text: nasty.to_owned(),
            signature: None,
        },
        Block::Text(nasty.to_owned()),
        Block::ToolUse {
            id: "t1".to_owned(),
            name: nasty.to_owned(),
            input: serde_json::json!({ nasty: nasty, "b": [nasty] }).to_string(),
        },
    ];
    let reply = Draft::assistant(blocks).model("\"><b>model</b>");
    writer.append(reply).unwrap();
    let results = vec![Block::ToolResult {
        call: "t1".to_owned(),
        output: vec![
            Block::Text(format!("{nasty}\n````\n")),
            Block::Image {
                media_type: "image/png".to_owned(),
                data: "x\" onerror=\"alert(1)".to_owned(),
            },
            Block::Image {
                media_type: "image/svg+xml".to_owned(),
                data: "PHN2Zz4=".to_owned(),
            },
        ],
        is_error: true,
    }];
    let results = Message::new(Role::User, results);
    writer.append(Draft::new(Body::Message(results))).unwrap();
    writer.retitle(nasty).unwrap();
    writer.tag(nasty).unwrap();
    writer.append(Draft::note(nasty)).unwrap();
    let session = store.session(writer.session().as_str()).unwrap();
    (dir, session)
}

#[test]
fn hostile_text_is_escaped_in_markdown_and_html() {
    let (_dir, session) = hostile();
    let html = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Html),
    );
    check_html("hostile", &html);
    assert!(
        !html.contains("<img") && !html.contains("<b>model"),
        "{html}"
    );
    assert!(
        !html.contains("href=\"javascript") && !html.contains("<!--"),
        "{html}"
    );
    let policy = "content=\"default-src 'none'; img-src data:; style-src 'sha256-";
    assert!(html.contains(policy), "{html}");
    for address in ["http://", "https://", "//"] {
        let quoted = format!("src=\"{address}");
        assert!(!html.contains(&quoted), "{html}");
    }
    let markdown = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Markdown),
    );
    let options = pulldown_cmark::Options::ENABLE_TABLES;
    for event in pulldown_cmark::Parser::new_ext(&markdown, options) {
        use pulldown_cmark::{Event, Tag};
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                let ours = html.starts_with("<a id=\"s1-")
                    || html.starts_with("<a id=\"m-")
                    || html.trim() == "</a>";
                assert!(ours, "{html} in {markdown}");
            }
            Event::Start(Tag::Image { dest_url, .. }) => panic!("{dest_url} in {markdown}"),
            Event::Start(Tag::Link { dest_url, .. }) => {
                assert!(!dest_url.starts_with("javascript"), "{markdown}");
            }
            _ => {}
        }
    }
    let forged = markdown
        .lines()
        .filter(|line| line.starts_with("### User"))
        .count();
    assert_eq!(forged, 1, "{markdown}");
}

/// Creates a session with an edit, a command with coloured output, and two prompts.
fn worked() -> (tempfile::TempDir, Session) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let writer = store.begin("/home/me/app").unwrap();
    writer.append(Draft::user("Fix the <b>bug</b>")).unwrap();
    let call = |id: &str, name: &str, input: serde_json::Value| {
        let call = Block::ToolUse {
            id: id.to_owned(),
            name: name.to_owned(),
            input: input.to_string(),
        };
        writer.append(Draft::assistant([call])).unwrap();
    };
    let edit = serde_json::json!({
        "file_path": "src/a.rs",
        "old_string": "let a = 1;\nkeep <b>\n",
        "new_string": "let a = 2;\nkeep <b>\n",
        "replace_all": false,
    });
    call("t1", "Edit", edit);
    let command = serde_json::json!({ "command": "cargo test", "description": "Run the tests" });
    call("t2", "Bash", command);
    let output = "\u{1b}[32mall tests pass\u{1b}[0m\n\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}\n10 %\r100 %\n";
    writer.append(Draft::tool_result("t1", "updated")).unwrap();
    writer.append(Draft::tool_result("t2", output)).unwrap();
    let token = format!("ghp_{}", "q7Xb2LmZ9kTf4RwY6hNc8VdJ3sGp5AeU1234");
    writer
        .append(Draft::user(format!("Now the token {token}")))
        .unwrap();
    let session = store.session(writer.session().as_str()).unwrap();
    (dir, session)
}

/// Asserts that texts occur in a page in this order.
fn assert_in_order(page: &str, texts: &[&str]) {
    let mut rest = page;
    for text in texts {
        let Some((_, after)) = rest.split_once(text) else {
            panic!("{text} does not follow in {page}");
        };
        rest = after;
    }
}

#[test]
fn html_shows_subjects_diffs_and_results_below_their_calls() {
    let (_dir, session) = worked();
    let html = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Html),
    );
    check_html("worked", &html);
    assert_in_order(
        &html,
        &[
            "<details class=\"tool\" open><summary><b>Edit</b> <code>src/a.rs</code></summary><pre class=\"diff\">\n",
            "<del>- let a = 1;</del>\n<ins>+ let a = 2;</ins>\n  keep &lt;b&gt;\n</pre></details>",
            "<b>Result</b> of Edit <code>updated</code>",
            "<details class=\"tool\"><summary><b>Bash</b> <code>cargo test</code> <small>Run the tests</small></summary>",
            "<b>Result</b> of Bash <code>all tests pass</code>",
            "<pre>\nall tests pass\nlink\n100 %</pre>",
        ],
    );
    let markdown = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Markdown),
    );
    assert_in_order(
        &markdown,
        &[
            "**Call** of `Edit`: `src/a.rs`\n\n```diff\n-let a = 1;\n+let a = 2;\n keep <b>\n```\n",
            "**Result** of `Edit`\n\n```\nupdated\n```\n",
            "**Call** of `Bash`: `cargo test`\n\n- description: `Run the tests`\n",
            "**Result** of `Bash`\n\n```\nall tests pass\nlink\n100 %\n```\n",
        ],
    );
    for page in [&html, &markdown] {
        assert!(!page.contains('␛') && !page.contains("http://x"), "{page}");
    }
}

#[test]
fn html_outline_links_to_masked_prompts_and_messages_have_addresses() {
    let (_dir, session) = worked();
    let html = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Html),
    );
    let entries = entries_of(&session);
    let prompts: Vec<&str> = entries
        .iter()
        .filter(|entry| matches!(&entry.body, Body::Message(message) if message.human))
        .filter_map(|entry| Some(entry.id.as_ref()?.as_str()))
        .collect();
    let [first, second] = prompts[..] else {
        panic!("{prompts:?}");
    };
    assert_in_order(
        &html,
        &[
            "<nav class=\"outline\"><ol>\n",
            &format!("<li><a href=\"#m-{first}\">Fix the &lt;b&gt;bug&lt;/b&gt;</a></li>\n"),
            &format!("<li><a href=\"#m-{second}\">Now the token ghp_[redacted:github-token]</a>"),
            "</ol></nav>",
            &format!(
                "<a class=\"address\" href=\"#m-{first}\" title=\"{}@{first}\">#</a></h3>\n<div id=\"m-{first}\">",
                session.files.id
            ),
        ],
    );
}

#[test]
fn outline_of_many_prompts_is_folded_and_addresses_are_unique() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path());
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::unnamed("/home/me/app").unwrap();
    let writer = store.create(&root, &new, QUICK).unwrap();
    for number in 0..201 {
        let prompt = Draft::user(format!("prompt {number}"));
        writer.append(prompt).unwrap();
    }
    let session = store.session(writer.session().as_str()).unwrap();
    let mut out = Vec::new();
    let options = ExportOptions::new(Format::Html);
    let cover = annals::export::Cover {
        title: "Two".to_owned(),
        sessions: vec!["a".to_owned(), "b".to_owned()],
    };
    let mut exporter = Exporter::begin(options, Some(&cover), &mut out).unwrap();
    // The same session twice has every id twice.
    for _ in 0..2 {
        exporter.session(&session, &ExportPart::Whole).unwrap();
    }
    exporter.finish().unwrap();
    let html = String::from_utf8(out).unwrap();
    check_html("twice", &html);
    assert_in_order(
        &html,
        &[
            "<details><summary>201 prompts</summary><ol>\n<li><a href=\"#m-",
            "<details><summary>201 prompts</summary><ol>\n<li><a href=\"#s2-m-",
        ],
    );
}

#[test]
fn secrets_are_masked_in_every_member() {
    let token = format!("ghp_{}", "q7Xb2LmZ9kTf4RwY6hNc8VdJ3sGp5AeU1234");
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let writer = store.begin(&format!("/home/me/{token}")).unwrap();
    writer.append(Draft::user(format!("use {token}"))).unwrap();
    let blocks = [
        Block::Thinking {
            text: format!("a {token}"),
            signature: Some("sealed".to_owned()),
        },
        Block::ToolUse {
            id: "t1".to_owned(),
            name: "Bash".to_owned(),
            input: serde_json::json!({ "command": format!("x\n\"{token}\"") }).to_string(),
        },
    ];
    writer.append(Draft::assistant(blocks)).unwrap();
    writer
        .append(Draft::tool_result("t1", format!("{token}\n")))
        .unwrap();
    writer.retitle(&format!("About {token}")).unwrap();
    writer.append(Draft::note(format!("note {token}"))).unwrap();
    let mut todo = annals::model::Todo::pending(format!("revoke {token}"));
    todo.active_form = Some(token.clone());
    writer.set_todos(&[todo]).unwrap();
    let session = store.session(writer.session().as_str()).unwrap();
    for format in [Format::Markdown, Format::Html, Format::Json, Format::Jsonl] {
        let shown = export(
            &session,
            &ExportPart::Whole,
            ExportOptions::new(format).redact(false),
        );
        assert!(shown.matches(&token).count() >= 7, "{format}: {shown}");
        let masked = export(
            &session,
            &ExportPart::Whole,
            ExportOptions::new(format).redact(true),
        );
        assert!(!masked.contains(&token), "{format}: {masked}");
        assert!(
            masked.contains("ghp_[redacted:github-token]") || masked.contains("redacted:github"),
            "{masked}"
        );
    }
    // Formats for sharing mask secrets by default; formats for storage do not.
    let by_default =
        |format| export(&session, &ExportPart::Whole, ExportOptions::new(format)).contains(&token);
    assert!(!by_default(Format::Markdown) && !by_default(Format::Html));
    assert!(by_default(Format::Json) && by_default(Format::Jsonl));
}

#[test]
fn titles_are_masked_before_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let root = annals::store::Root::claude_code(dir.path());
    let store = annals::store::Store::new(vec![root]);
    let writer = store.begin("/home/dev/app").unwrap();
    // The title is truncated within the secret, which is then too short for its rule.
    let hook = "hooks.slack.com/services/T0/B0/q7Xb2LmZ9kTf4RwY6hNc is gone";
    let prompt = format!("{}{hook}", "word ".repeat(192));
    writer.append(Draft::user(prompt)).unwrap();
    let session = store.session(writer.session().as_str()).unwrap();
    let title = session.title().unwrap().text;
    assert!(title.ends_with("q7Xb2LmZ9…"), "{title}");
    for format in [Format::Markdown, Format::Html, Format::Json, Format::Jsonl] {
        let masked = export(
            &session,
            &ExportPart::Whole,
            ExportOptions::new(format).redact(true),
        );
        assert!(!masked.contains("q7X"), "{format}: {masked}");
    }

    let writer = store.begin("/home/dev/app").unwrap();
    let prompt = format!(
        "Deploy it, the token is ghp_{}.",
        "q7Xb2LmZ9kTf4RwY6hNc8VdJ3sGp5AeUq7Xb"
    );
    writer.append(Draft::user(prompt)).unwrap();
    let session = store.session(writer.session().as_str()).unwrap();
    let shown = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Markdown).redact(false),
    );
    assert!(
        shown.starts_with("# Deploy it, the token is ghp_q7Xb"),
        "{shown}"
    );
    for format in [Format::Markdown, Format::Html, Format::Json, Format::Jsonl] {
        let masked = export(
            &session,
            &ExportPart::Whole,
            ExportOptions::new(format).redact(true),
        );
        assert!(!masked.contains("q7Xb"), "{format}: {masked}");
    }
}

#[test]
fn one_conversation_is_exported_alone() {
    let case = crate::support::case("branch-nested");
    let session = case.only();
    for conversation in session.conversations() {
        let part = ExportPart::for_message(&session, &conversation.leaf).unwrap();
        let text = export(&session, &part, ExportOptions::new(Format::Jsonl));
        let (_source, exported) = read_back(&text);
        assert_eq!(exported_entries(&exported[0]).len(), conversation.messages);
        let page = export(&session, &part, ExportOptions::new(Format::Markdown));
        assert!(!page.contains("conversation branches"), "{page}");
    }
    assert!(ExportPart::for_message(&session, "ffffffff").is_err());
}

#[test]
fn conversation_export_includes_only_the_sub_agents_it_called() {
    let session = crate::support::case("2.1.325-s04-agent").session("3dfa");
    let logs = |part: &ExportPart| {
        let text = export(&session, part, ExportOptions::new(Format::Json));
        let (_source, exported) = read_back(&text);
        exported[0].logs.len()
    };
    assert_eq!(logs(&ExportPart::Whole), 4);
    let first = entries_of(&session)
        .into_iter()
        .find(|entry| crate::support::says(entry).starts_with("Agent finished"));
    let first = first.and_then(|entry| entry.id).unwrap();
    assert_eq!(
        logs(&ExportPart::for_message(&session, first.as_str()).unwrap()),
        2
    );
}

/// Standard output cannot be withdrawn, so what was written before must be valid.
#[test]
fn export_is_valid_json_after_a_failed_read() {
    for format in [Format::Json, Format::Jsonl] {
        let copy = case("2.1.325-s04-agent").copy();
        let session = copy.read("3dfa");
        // Nobody can read a link: it is not followed.
        let lost = &session.files.agents[0].path;
        std::fs::remove_file(lost).unwrap();
        std::os::unix::fs::symlink("elsewhere", lost).unwrap();
        let mut out = Vec::new();
        let mut exporter = Exporter::begin(ExportOptions::new(format), None, &mut out).unwrap();
        let error = exporter.session(&session, &ExportPart::Whole).unwrap_err();
        exporter.add_problem(ExportProblem::from(&error));
        exporter.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            !exported_entries(&read_back(&text).1[0]).is_empty(),
            "{text}"
        );
        let problem = match format {
            Format::Json => {
                let document: serde_json::Value = serde_json::from_str(&text).unwrap();
                document["problems"][0].clone()
            }
            _ => serde_json::from_str(text.lines().last().unwrap()).unwrap(),
        };
        assert!(
            problem["error"]
                .as_str()
                .unwrap()
                .contains(lost.to_str().unwrap()),
            "{problem}"
        );
        let exported = ExportSource::read(text.as_bytes(), "test").unwrap();
        let contents = exported.read_contents().unwrap();
        assert_eq!(contents.problems, [ExportProblem::from(&error)]);
    }
}

#[test]
fn complete_export_has_no_problems() {
    let session = case("2.1.325-s04-agent").session("3dfa");
    for format in [Format::Json, Format::Jsonl] {
        let text = export(&session, &ExportPart::Whole, ExportOptions::new(format));
        let exported = ExportSource::read(text.as_bytes(), "test").unwrap();
        assert_eq!(exported.read_contents().unwrap().problems, []);
    }
}

/// Imports a session into its own root and reads it.
fn import(text: &str) -> (tempfile::TempDir, Imported, Session) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::claude_code(dir.path().join("root"));
    let store = Store::new(vec![root.clone()]);
    let importer = Importer::new(&store, root, ImportOptions::default()).unwrap();
    let source = ExportSource::read(text.as_bytes(), "test").unwrap();
    let contents = source.read_contents().unwrap();
    let mut imported = importer.run(&source, &contents).unwrap();
    let imported = imported.remove(0);
    let session = store.session(imported.session.as_str()).unwrap();
    (dir, imported, session)
}

/// Returns the role and blocks of a message, without its response and line data.
fn said(message: &Message) -> (Role, Vec<Block>) {
    let mut blocks = message.blocks.clone();
    for block in &mut blocks {
        // A missing signature is written as an empty one.
        if let Block::Thinking { signature, .. } = block
            && signature.as_deref() == Some("")
        {
            *signature = None;
        }
    }
    (message.role, blocks)
}

/// Returns the blocks of each conversation with their roles.
fn conversations(session: &Session) -> Vec<Vec<(Role, Block)>> {
    let Some(tree) = session.tree() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for conversation in &tree.conversations {
        let mut path = Vec::new();
        session
            .each_entry(conversation, |entry| {
                if let Body::Message(message) = &entry.body {
                    let (role, blocks) = said(message);
                    path.extend(blocks.into_iter().map(|block| (role, block)));
                }
                Ok(true)
            })
            .unwrap();
        all.push(path);
    }
    all.sort_by_key(|path| format!("{path:?}"));
    all
}

/// Returns the ids, times and parents of messages.
fn links(session: &Session) -> BTreeMap<String, (String, Option<String>)> {
    let mut links = BTreeMap::new();
    for entry in entries_of(session) {
        if let (Body::Message(message), Some(id), Some(time)) = (&entry.body, &entry.id, entry.time)
            && !message.compact_summary
        {
            let parent = entry.parent.map(|parent| parent.to_string());
            links.insert(id.to_string(), (format!("{time:.3}"), parent));
        }
    }
    links
}

/// Fixtures with a session without a record or with bytes that are not text, with ids that follow from the
/// offset, or with data that annals keeps beside the log: some of their records are written again.
const OTHER_RECORDS: [&str; 72] = [
    "claude-code/2.0.77-s01-multiturn",
    "claude-code/2.0.77-s04-agent",
    "claude-code/2.0.77-s06-compact",
    "claude-code/2.0.77-s10-kill9",
    "claude-code/empty-file",
    "claude-code/invalid-utf8",
    "claude-code/only-noise",
    "claude-code/subagents-without-session",
    "chorus/chorus-calls-with-blocks",
    "chorus/chorus-document",
    "chorus/chorus-every-type",
    "chorus/chorus-odd-json",
    "clog/bytes-that-are-no-text",
    "clog/names-by-hand",
    "clog/nothing-written",
    "clog/torn-header",
    "orchestrator/across-midnight",
    "orchestrator/annex",
    "orchestrator/blank-lines",
    "orchestrator/branches",
    "orchestrator/calls-without-ids",
    "orchestrator/directories",
    "orchestrator/duplicate-ids",
    "orchestrator/empty-file",
    "orchestrator/hostile-text",
    "orchestrator/invalid-utf8",
    "orchestrator/long-break",
    "orchestrator/odd-spellings",
    "orchestrator/only-noise",
    "orchestrator/role-for-type",
    "orchestrator/sub-agent",
    "orchestrator/two-sessions-one-log",
    "orchestrator/unknown-types",
    "orchestrator/usage-absurd",
    "orchestrator/wrong-types",
    // Exports of these layouts have lines that are derived from the records, and pi has logs of older versions.
    "gemini/document-interrupt",
    "gemini/document-qa",
    "gemini/made-by-annals",
    "gemini/made-damage",
    "gemini/made-document-tools",
    "gemini/made-sub-agent",
    "gemini/patches-killed",
    "gemini/patches-resume",
    "gemini/patches-rewind",
    "gemini/patches-summaries",
    "gemini/patches-tools",
    "codex/0.166-s02-tools",
    "codex/0.166-s03-fork",
    "codex/0.166-s05-compact",
    "codex/0.166-s08-errors",
    "codex/0.166-s12-tui",
    "codex/0.80-s01-qa",
    "codex/0.80-s06-interrupt",
    "codex/0.80-s09-unicode",
    "codex/made-copied-fork",
    "codex/made-odd",
    "codex/made-rollback",
    "codex/made-sub-agent",
    "pi/made-branches",
    "pi/made-odd",
    "copilot/1.0-s01-qa",
    "copilot/1.0-s04-subagent",
    "copilot/1.0-s08-errors",
    "copilot/1.0-s09-unicode",
    "copilot/made-odd",
    "copilot/made-totals",
    "qwen/0.24-s01-qa",
    "qwen/0.24-s02-tools",
    "qwen/0.24-s06-interrupt",
    "qwen/made-by-annals",
    "qwen/made-odd",
    "qwen/made-sub-agent",
];

#[test]
fn every_exported_fixture_can_be_imported() {
    let mut linked = 0;
    let mut partly: Vec<String> = Vec::new();
    each_session(|name, session| {
        let text = export(
            session,
            &ExportPart::Whole,
            ExportOptions::new(Format::Jsonl),
        );
        let (_dir, imported, copy) = import(&text);
        // Another layout may not fit; it is enough that the import succeeds.
        if session.root().layout.name() != "claude-code" {
            return;
        }
        // A message without an id is in no conversation, and gets an id when it is written again.
        if name.starts_with("agentpool-") {
            return;
        }
        let lost = ["message", "root", "compaction", "agent"]
            .iter()
            .any(|kind| imported.left_out.contains_key(*kind));
        if lost {
            return partly.push(name.to_owned());
        }
        let left_out = &imported.left_out;
        assert_eq!(
            conversations(&copy),
            conversations(session),
            "{name} {left_out:?}"
        );
        assert_eq!(copy.agents.len(), session.agents.len(), "{name}");
        let called = |session: &Session| -> Vec<bool> {
            let agents = session.agents.iter();
            let mut called: Vec<bool> = agents.map(|agent| agent.call.is_some()).collect();
            called.sort_unstable();
            called
        };
        assert_eq!(called(&copy), called(session), "{name}");
        // A message in one line becomes several, and a child of an omitted entry gets that entry's
        // parent.
        let plain = entries_of(session).iter().all(|entry| match &entry.body {
            Body::Message(message) => message.blocks.len() == 1 && entry.time.is_some(),
            _ => entry.id.is_none(),
        });
        if plain && session.flaws().next().is_none() {
            linked += 1;
            assert_eq!(links(&copy), links(session), "{name}");
        }
    });
    assert!(partly.is_empty(), "{partly:?}");
    // The test must compare enough sessions.
    assert!(linked > 100, "{linked} compared by their links");
}

/// Returns the records of each log.
fn records(session: &Session) -> Vec<Vec<Vec<u8>>> {
    let logs = session.logs.iter().enumerate().map(|(log, scan)| {
        let mut first: Vec<usize> = (0..scan.outlines.len()).collect();
        first.dedup_by_key(|at| (scan.outlines[*at].volume, scan.outlines[*at].span));
        let records = session.raw_records(log, &first).unwrap();
        records.map(Result::unwrap).collect()
    });
    let mut logs: Vec<Vec<Vec<u8>>> = logs.collect();
    logs.sort();
    logs
}

#[test]
fn import_into_the_layout_of_the_export_writes_the_same_records() {
    let mut same = 0;
    let mut different: Vec<String> = Vec::new();
    for case in crate::support::writable_cases() {
        for files in case.sessions() {
            if files.logs().next().is_none() {
                continue;
            }
            let session = Session::read(files).unwrap();
            let options = ExportOptions::new(Format::Jsonl);
            let text = export(&session, &ExportPart::Whole, options);
            let dir = tempfile::tempdir().unwrap();
            let root = Root::new(case.layout.name(), dir.path().join("root")).unwrap();
            let store = Store::new(vec![root.clone()]);
            let importer = Importer::new(&store, root, ImportOptions::default()).unwrap();
            let source = ExportSource::read(text.as_bytes(), "test").unwrap();
            let contents = source.read_contents().unwrap();
            let imported = importer.run(&source, &contents).unwrap();
            let copies = store.inventory().sessions.into_iter();
            let mut copies = copies.filter(|files| files.id == imported[0].session);
            let copy = copies
                .next()
                .map(|files| records(&Session::read(files).unwrap()));
            match copy.unwrap_or_default() == records(&session) {
                true => same += 1,
                false => different.push(format!("{}/{}", case.layout.name(), case.name)),
            }
        }
    }
    different.dedup();
    assert_eq!(different, OTHER_RECORDS, "{same}");
    assert!(same > 200, "{same}");
}

#[test]
fn import_preserves_compaction_ids_times_and_links() {
    for name in ["compaction", "compaction-twice"] {
        let session = Session::read(case(name).sessions().remove(0)).unwrap();
        let text = export(
            &session,
            &ExportPart::Whole,
            ExportOptions::new(Format::Jsonl),
        );
        let (_dir, imported, copy) = import(&text);
        assert!(!imported.left_out.contains_key("compaction"), "{name}");
        let boundaries = |session: &Session| -> Vec<_> {
            let entries = entries_of(session).into_iter();
            let compactions = entries.filter(|entry| matches!(entry.body, Body::Compaction { .. }));
            compactions
                .map(|entry| (entry.id, entry.time, entry.parent))
                .collect()
        };
        assert!(!boundaries(&session).is_empty(), "{name}");
        assert_eq!(boundaries(&copy), boundaries(&session), "{name}");
    }
}

#[test]
fn imported_api_errors_are_not_replies() {
    let fresh = tempfile::tempdir().unwrap();
    let root = Root::claude_code(fresh.path().join("root"));
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::unnamed("/home/dev/w").unwrap();
    let writer = store.create(&root, &new, QUICK).unwrap();
    let mut error = Message::new(Role::Assistant, vec![Block::Text("API Error: 500".into())]);
    error.api_error = true;
    let drafts = vec![Draft::user("Ask."), Draft::new(Body::Message(error))];
    writer.append_all(drafts).unwrap();
    let session = Session::read(store.inventory().sessions.remove(0)).unwrap();
    let text = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Jsonl),
    );
    let (_dir, _, copy) = import(&text);
    let log = std::fs::read_to_string(copy.files.main_path()).unwrap();
    let line = log.lines().find(|line| line.contains("API Error")).unwrap();
    assert!(line.contains(r#""isApiErrorMessage":true"#), "{line}");
    assert!(line.contains(r#""model":"<synthetic>""#), "{line}");
    let prompt = log.lines().find(|line| line.contains("Ask.")).unwrap();
    assert!(!prompt.contains("isApiErrorMessage"), "{prompt}");
}

#[test]
fn import_preserves_titles_tags_notes_summaries_and_todos() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let writer = store.begin("/home/me/app").unwrap();
    writer.append(Draft::user("one")).unwrap();
    let answer = writer
        .append(Draft::assistant([Block::Text("two".to_owned())]))
        .unwrap();
    writer.compact("so far", None).unwrap();
    writer.append(Draft::user("three")).unwrap();
    writer.retitle("Mine").unwrap();
    writer.tag("kept").unwrap();
    writer.append(Draft::note("look")).unwrap();
    let summary = Body::Summary {
        text: "short".to_owned(),
        leaf: answer.id,
    };
    writer.append_all(vec![Draft::new(summary)]).unwrap();
    let todos = [annals::model::Todo::pending("ship")];
    writer.set_todos(&todos).unwrap();
    let session = store.session(writer.session().as_str()).unwrap();
    let text = export(
        &session,
        &ExportPart::Whole,
        ExportOptions::new(Format::Json),
    );
    let (_dir, imported, copy) = import(&text);
    assert_eq!(copy.title(), session.title());
    assert_eq!(copy.tag(), session.tag());
    assert_eq!(copy.todos().unwrap(), session.todos().unwrap());
    assert_eq!(conversations(&copy), conversations(&session));
    let notes = |session: &Session| -> Vec<Body> {
        let entries = entries_of(session).into_iter().map(|entry| entry.body);
        entries
            .filter(|body| matches!(body, Body::Note { .. } | Body::Summary { .. }))
            .collect()
    };
    assert_eq!(notes(&copy), notes(&session));
    assert!(imported.left_out.is_empty(), "{:?}", imported.left_out);
}

#[test]
fn invalid_export_file_is_reported_by_line() {
    let head = r#"{"type":"session","annals":1,"layout":"claude-code","id":"a1"}"#;
    for (text, why) in [
        ("", "the file is empty"),
        ("  \n", "the file is empty"),
        ("{\"a\":1}", "not an annals export"),
        ("[1]", "not an annals export"),
        ("{\"type\":", "not JSON: it ends too early (column 8)"),
        ("{\"type\":\"song\"}", "line 1: unknown type `song`"),
        (
            "{\"type\":\"entry\",\"kind\":\"tag\",\"text\":\"a\"}",
            "line 1: no session for this line",
        ),
        (
            &format!("{head}\n\n{{\"type\":\"entry\",\"kind\":\"tag\"}}\n"),
            "line 3: an entry of kind tag needs `text`",
        ),
        (
            &format!("{head}\n{{\"type\":\"entry\""),
            "line 2: not JSON: it ends too early",
        ),
        (
            "{\"type\":\"session\",\"annals\":2,\"id\":\"a\"}",
            "line 1: unsupported format version 2",
        ),
        (
            "{\"annals\":2,\"sessions\":[]}",
            "unsupported format version 2",
        ),
        (
            "{\"type\":\"session\",\"annals\":1}",
            "line 1: a session needs `id`",
        ),
        (
            "{\"annals\":1,\"sessions\":[{\"id\":\"a\",\"logs\":[{\"entries\":[{\"kind\":\"tag\"}]}]}]}",
            "log 1, entry 1: an entry of kind tag needs `text`",
        ),
        (
            "{\"annals\":1,\"sessions\":[]} x",
            "more text after the end",
        ),
    ] {
        let read =
            ExportSource::read(text.as_bytes(), "test").and_then(|archive| archive.read_contents());
        let error = read.unwrap_err().to_string();
        assert!(
            error.starts_with("test: ") && error.contains(why),
            "{text:?}: {error}"
        );
    }
    let fine = ExportSource::read(format!("{head}\n").as_bytes(), "test").unwrap();
    assert_eq!(fine.read_contents().unwrap().sessions, ["a1"]);
}

/// Returns the peak resident memory so far; each test runs in its own process.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn html_and_markdown_export_memory_is_bounded_by_the_longest_message() {
    const SIZE: usize = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(vec![Root::claude_code(dir.path())]);
    let mut grown = Vec::new();
    // The first two make a Markdown parser hold state for every byte or two; the last is an escape.
    for unit in ["a\n", "[", r"\n"] {
        let writer = store.begin("/home/me/app").unwrap();
        let text = unit.repeat(SIZE / unit.len());
        writer.append(Draft::user(text)).unwrap();
        let session = store.session(writer.session().as_str()).unwrap();
        let before = peak_kib();
        for format in [Format::Html, Format::Markdown] {
            let out = &mut std::io::sink();
            let mut exporter = Exporter::begin(ExportOptions::new(format), None, out).unwrap();
            exporter.session(&session, &ExportPart::Whole).unwrap();
            exporter.finish().unwrap();
        }
        grown.push((unit, (peak_kib() - before) / (SIZE as u64 >> 10)));
    }
    assert!(grown.iter().all(|(_, times)| *times <= 12), "{grown:?}");
}

/// Citations, cache markers and other members that an append accepts.
#[test]
fn further_members_of_blocks_survive_an_export_and_an_import() {
    let fresh = tempfile::tempdir().unwrap();
    let root = Root::claude_code(fresh.path().join("root"));
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::unnamed("/home/dev/w").unwrap();
    let writer = store.create(&root, &new, QUICK).unwrap();
    let mut ask = Draft::user("Ask.");
    let json = r#"{"type":"text","text":"Ask.","cache_control":{"type":"ephemeral"}}"#;
    ask.raw_blocks.insert(0, json.to_owned());
    let mut reply = Draft::assistant([
        Block::Thinking {
            text: "Hm.".to_owned(),
            signature: Some("seal".to_owned()),
        },
        Block::Text("So.".to_owned()),
        Block::ToolUse {
            id: "t1".to_owned(),
            name: "Read".to_owned(),
            input: "{}".to_owned(),
        },
    ]);
    let json = r#"{"type":"text","text":"So.","citations":[{"cited_text":"x"}]}"#;
    reply.raw_blocks.insert(1, json.to_owned());
    let mut result = Draft::tool_result("t1", "Done.");
    let json = r#"{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"Done.","cache_control":{"type":"ephemeral"}}]}"#;
    result.raw_blocks.insert(0, json.to_owned());
    writer.append_all(vec![ask, reply, result]).unwrap();
    let session = Session::read(store.inventory().sessions.remove(0)).unwrap();
    for format in [Format::Json, Format::Jsonl] {
        let text = export(&session, &ExportPart::Whole, ExportOptions::new(format));
        let (_dir, imported, copy) = import(&text);
        assert!(!imported.left_out.contains_key("message"), "{format}");
        let log = std::fs::read_to_string(copy.files.main_path()).unwrap();
        for kept in [
            r#""citations":[{"cited_text":"x"}]"#,
            r#""signature":"seal""#,
        ] {
            assert!(log.contains(kept), "{format} {kept}: {log}");
        }
        assert_eq!(log.matches("cache_control").count(), 2, "{format}: {log}");
        let members = |session: &Session| -> Vec<_> {
            let entries = entries_of(session).into_iter();
            let messages = entries.filter(|entry| matches!(entry.body, Body::Message(_)));
            messages.map(|entry| entry.block_members).collect()
        };
        assert_eq!(members(&copy), members(&session), "{format}");
    }
}
