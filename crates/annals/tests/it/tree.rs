//! Conversations, titles, flaws, agents: what readers must make of each fixture, as its NOTES.md says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use annals::layout::LAYOUTS;
use annals::model::{Body, Entry, FlawKind, TitleSource};
use annals::store::{ProjectInfo, Session, SessionInfo, Store};

use crate::support::{Case, case, cases, conversations, fixtures, says};

/// All that a reader makes of a fixture, in a few lines.
fn dump(case: &Case) -> String {
    let mut out = format!("## {}\n", case.name);
    let store = Store::new(vec![case.root()]);
    let inventory = store.inventory();
    let rows: Vec<SessionInfo> = store
        .sessions(&inventory, &|_, _| {})
        .into_iter()
        .map(Result::unwrap)
        .collect();
    for project in ProjectInfo::of(rows.iter()) {
        let guessed = if project.guessed { " (guessed)" } else { "" };
        let path: String = project.path.chars().take(60).collect();
        writeln!(
            out,
            "project {path}{guessed}: {} sessions",
            project.sessions
        )
        .unwrap();
    }
    for (row, files) in rows.iter().zip(&inventory.sessions) {
        let mut session = Session::read(files.clone()).unwrap();
        session.find_summaries(inventory.sessions.iter());
        describe(&mut out, row, &session);
    }
    for (_, file) in &inventory.others {
        let path = file.path.strip_prefix(&case.path).unwrap();
        writeln!(out, "other {:?} {}", file.artifact.kind, path.display()).unwrap();
    }
    for report in annals::check::all(&inventory, &|_, _| {}) {
        let report = report.unwrap();
        let path = report.path.strip_prefix(&case.path).unwrap();
        for flaw in report.flaws {
            let (kind, line) = (flaw.kind.as_str(), flaw.span.line);
            let detail: String = flaw.detail.chars().take(90).collect();
            writeln!(
                out,
                "flaw {kind} line {line}: {detail} [{}]",
                path.display()
            )
            .unwrap();
        }
    }
    out
}

fn describe(out: &mut String, row: &SessionInfo, session: &Session) {
    let title = row.title.as_ref();
    let title = title.map_or("–".to_owned(), |title| {
        format!("{:?} ({:?})", title.text, title.source)
    });
    let id: String = row.id.as_str().chars().take(8).collect();
    let usage = row.usage;
    writeln!(
        out,
        "session {id} {title}: {} entries, {} messages, {} in {} out",
        row.entries, row.messages, usage.input, usage.output
    )
    .unwrap();
    if let Some(tag) = &row.tag {
        writeln!(out, "  tag {tag:?}").unwrap();
    }
    if !row.other_directories.is_empty() {
        writeln!(out, "  also {:?}", row.other_directories).unwrap();
    }
    let infos = session.conversations();
    for (said, info) in conversations(session).iter().zip(infos) {
        let mark = if info.resumes { "*" } else { "-" };
        let title = info.title.map(|title| title.text).unwrap_or_default();
        let said: Vec<String> = said
            .iter()
            .map(|text| text.chars().take(28).collect())
            .collect();
        writeln!(out, "  {mark} {title:?} {said:?}").unwrap();
    }
    for agent in &session.agents {
        let call = agent.call.map(|call| {
            let outline = &session.logs[call.log].outlines[call.entry];
            outline
                .calls()
                .iter()
                .position(|key| *key == call.key)
                .expect("a call of that entry")
        });
        let place = agent
            .strand
            .map_or("log".to_owned(), |strand| format!("strand {strand}"));
        writeln!(
            out,
            "  agent {:?} {place} {:?} {:?}: {} messages, call {}",
            agent.id,
            agent.kind,
            agent.description,
            agent.messages,
            call.map_or("–".to_owned(), |at| format!("{at} of its entry"))
        )
        .unwrap();
    }
    for (agent, todos) in session.todos().unwrap() {
        let agent: String = agent.chars().take(8).collect();
        for todo in todos {
            writeln!(out, "  todo {agent} {:?} {:?}", todo.status, todo.content).unwrap();
        }
    }
    for file in session.saved_files().unwrap() {
        let versions: Vec<String> = file
            .versions
            .iter()
            .map(
                |version| match (&version.stored, version.absent, &version.operation) {
                    (Some(_), ..) => {
                        format!("{}: {} bytes", version.version, version.bytes.unwrap())
                    }
                    (None, true, _) => format!("{}: absent", version.version),
                    (None, false, Some(operation)) => format!("{}: {operation}", version.version),
                    (None, false, None) => format!("{}: gone", version.version),
                },
            )
            .collect();
        writeln!(out, "  saved {} {versions:?}", file.path).unwrap();
    }
    for file in &session.files.beside {
        let name = file.path.file_name().unwrap().to_string_lossy();
        writeln!(out, "  beside {:?} {name}", file.artifact.kind).unwrap();
    }
}

#[test]
fn every_fixture_as_a_reader_sees_it() {
    for layout in LAYOUTS {
        let of_layout = cases()
            .into_iter()
            .filter(|case| case.layout.name() == layout.name());
        let dumps: Vec<String> = of_layout.map(|case| dump(&case)).collect();
        insta::assert_snapshot!(layout.name(), dumps.join("\n"));
    }
}
