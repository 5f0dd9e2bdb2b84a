//! The archive and the trash, and the commands that bring sessions back.

use std::collections::HashMap;
use std::sync::Arc;

use annals::service::SessionsRequest;
use annals::text::quoted_command;
use annals::view::TrashRow;
use annals_render::size;
use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::{Frame, ListedSession, html};
use crate::app::{App, blocking};
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "archive_and_trash.html")]
struct RemovedSessions {
    frame: Frame,
    /// Introduction to the list.
    about: &'static str,
    empty: &'static str,
    items: Vec<Item>,
    remarks: Vec<String>,
    is_trash: bool,
}

struct Item {
    /// Its name in the trash.
    id: String,
    title: String,
    /// The page of the session, if it can be read.
    href: String,
    session: String,
    ago: String,
    files: String,
    bytes: String,
    root: String,
    command: String,
}

pub(super) async fn archive(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    blocking(&app, |app, _| {
        let clock = app.clock();
        let archive = app.service.store().archive()?;
        let (mut sessions, damaged) = archive.sessions()?;
        sessions.retain(|session| !session.sessions.is_empty());
        sessions.sort_by_key(|session| std::cmp::Reverse(session.archived()));
        // Nothing is listed for an empty archive.
        let (inventory, rows) = match sessions.is_empty() {
            true => Default::default(),
            false => {
                let inventory = app.service.inventory();
                let rows = app.service.sessions_in(&inventory, &SessionsRequest::default())?.rows;
                (inventory, rows)
            }
        };
        let places = app.places(&inventory);
        let listed = rows.iter().map(|row| ListedSession::new(app, row, places.address(&row.info), &clock));
        let mut known: HashMap<String, ListedSession> = HashMap::new();
        for session in listed {
            let is_archived = session.state == "archived";
            let other = known.get(&session.id);
            if other.is_none_or(|other| is_archived && other.state != "archived") {
                known.insert(session.id.clone(), session);
            }
        }
        let item = |session: &annals::archive::ArchivedSession| {
            let ids = session.sessions.iter().map(|key| key.id.clone());
            let ids: Vec<String> = ids.collect();
            let first = ids.first().map_or("", String::as_str);
            let bytes: u64 = session.members.iter().map(|member| member.len).sum();
            let bytes = format!("{}, packed {}", size::bytes(bytes), size::bytes(session.packed()));
            let known = known.get(first);
            Item {
                title: known.map(|it| it.title.clone()).unwrap_or_default(),
                href: known.map(|it| it.href.clone()).unwrap_or_default(),
                id: String::new(),
                ago: clock.ago(session.archived()),
                files: size::pluralize(session.members.len() as u64, "file"),
                bytes,
                root: app.line(&session.root.display().to_string()),
                command: quoted_command("annals restore", first, "--apply"),
                session: app.line(&ids.join(", ")),
            }
        };
        html(&RemovedSessions {
            frame: Frame::new(app, "archive", "Archive"),
            about: "Sessions that are stored compressed. Archived sessions are found and read like others.",
            empty: "The archive is empty. Run this to copy everything into it:",
            items: sessions.iter().map(item).collect(),
            remarks: damaged.iter().map(|damage| app.line(&format!("{}: {}", damage.pack.display(), damage.detail))).collect(),
            is_trash: false,
        })
    })
    .await
}

pub(super) async fn trash(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    blocking(&app, |app, _| {
        let clock = app.clock();
        let mut rows = TrashRow::list(app.service.store())?;
        rows.sort_by_key(|row| std::cmp::Reverse(row.item.deleted));
        let item = |row: &TrashRow| {
            let item = &row.item;
            Item {
                title: row.title.as_deref().map(|title| app.line(title)).unwrap_or_default(),
                href: String::new(),
                id: item.id.clone(),
                session: app.line(&item.sessions().collect::<Vec<_>>().join(", ")),
                ago: clock.ago(item.deleted),
                files: size::pluralize(item.files.len() as u64, "file"),
                bytes: size::bytes(row.bytes),
                root: app.line(&item.root.display().to_string()),
                command: quoted_command("annals delete --undo", &item.id, ""),
            }
        };
        html(&RemovedSessions {
            frame: Frame::new(app, "trash", "Trash"),
            about: "Deleted sessions. They stay here until you empty the trash on the command line.",
            empty: "The trash is empty.",
            items: rows.iter().map(item).collect(),
            remarks: Vec::new(),
            is_trash: true,
        })
    })
    .await
}
