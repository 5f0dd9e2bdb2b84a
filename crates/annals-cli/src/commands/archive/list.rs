//! `annals archive --list`

use std::path::{Path, PathBuf};

use annals::archive::{ArchivedSession, Damage, FileLocator, Member, ROOT_ID};
use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use super::{print_damage, warn_unread};
use crate::commands::Outcome;
use crate::context::Context;
use annals::view::ShortIds;
use annals_render::command::styled_command;
use annals_render::size;
use annals_render::style::{BOLD, DIM, ID, PATH, paint};
use annals_render::table::{Cell, Column, Table};

#[derive(Serialize)]
struct ArchiveListJson<'a> {
    archived: Vec<ArchivedJson<'a>>,
    damaged: &'a [Damage],
}

#[derive(Serialize)]
struct ArchivedJson<'a> {
    /// Empty for files that belong to no session.
    sessions: Vec<&'a str>,
    layout: &'a str,
    root: &'a Path,
    /// The compressed main log, or the directory of the root's archive.
    pack: &'a Path,
    archived: Timestamp,
    generation: u64,
    files: usize,
    bytes: u64,
    packed: u64,
    /// Number of earlier versions of files that were replaced or truncated.
    earlier: usize,
    /// True if the main log is still in its root.
    source: bool,
    /// Number of files that are still in the root.
    there: usize,
    /// True if the folder of the files was renamed within the root.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    renamed: bool,
    /// Its files, if a session was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<VersionJson<'a>>>,
    /// Earlier versions, oldest first, if a session was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<VersionJson<'a>>>,
}

#[derive(Serialize)]
struct VersionJson<'a> {
    /// Argument of `restore --earlier`; none for the newest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    path: &'a Path,
    bytes: u64,
    modified: Option<Timestamp>,
    /// Time when the replacement was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// True if the file is still in its root; none for earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    there: Option<bool>,
}

impl<'a> VersionJson<'a> {
    /// Builds the row of a file's newest version.
    fn newest(member: &'a Member, place: Option<&PathBuf>) -> Self {
        VersionJson {
            there: Some(place.is_some()),
            ..VersionJson::new(None, member)
        }
    }

    fn new(number: Option<usize>, member: &'a Member) -> Self {
        VersionJson {
            there: None,
            number,
            path: &member.path,
            bytes: member.len,
            modified: Timestamp::from_nanosecond(member.mtime_ns.into()).ok(),
            until: member.until,
        }
    }
}

/// Lists the archive, or the files of the named sessions.
pub(super) fn run(named: &[String], context: &mut Context) -> Result<Outcome> {
    if !named.is_empty() {
        return list_versions(named, context);
    }
    let archive = context.store.archive()?;
    let (mut sessions, mut damaged) = archive.sessions_in(context.only_roots())?;
    damaged.extend(sessions.iter().flat_map(ArchivedSession::missing_data));
    warn_unread(&damaged, context);
    sessions.sort_by(|a, b| {
        let newest = b.archived().cmp(&a.archived());
        newest.then_with(|| a.path.cmp(&b.path))
    });
    let mut whereabouts = FileLocator::reporting_to(context.store.failures());
    let places = sessions.iter().map(|it| whereabouts.locate(it));
    let places: Vec<FilePaths> = places.collect();
    let rows = sessions.iter().zip(&places);
    let rows = rows.map(|(session, places)| archived_json(session, places));
    let rows: Vec<ArchivedJson<'_>> = rows.collect();
    if context.json {
        context.out.json(&ArchiveListJson {
            archived: rows,
            damaged: &damaged,
        })?;
    } else if rows.is_empty() && damaged.is_empty() {
        context.out.line("The archive is empty.")?;
    } else {
        let short = ShortIds::new(rows.iter().flat_map(|row| row.sessions.iter().copied()));
        let mut table = Table::new([
            Column::new("SESSION").style(ID),
            Column::new("ARCHIVED").style(DIM),
            Column::new("FILES").right(),
            Column::new("SIZE").right(),
            Column::new("PACKED").right(),
            Column::new("SOURCE"),
            Column::new("ROOT").min(8).cut_middle().style(PATH),
        ]);
        for (row, session) in rows.iter().zip(&sessions) {
            let names: Vec<&str> = row.sessions.iter().map(|id| short.get(id)).collect();
            // A copied session is archived several times; the tag after its id selects one.
            let again = |other: &&ArchivedJson<'_>| {
                other.root == row.root && other.sessions == row.sessions
            };
            let tag = session
                .tag()
                .filter(|_| rows.iter().filter(again).count() > 1);
            table.row([
                Cell::new(match tag {
                    None => session_label(&names),
                    Some(tag) => format!("{}.{tag}", session_label(&names)),
                }),
                Cell::new(context.clock.ago(row.archived)),
                Cell::new(size::count(row.files as u64)),
                Cell::new(size::bytes(row.bytes)),
                Cell::new(size::bytes(row.packed)),
                Cell::new(source_status(row)),
                Cell::new(row.root.display().to_string()),
            ]);
        }
        context.out.text(table.render(context.out.width()))?;
        print_damage(&damaged, context)?;
    }
    Ok(match sessions.is_empty() || !damaged.is_empty() {
        true => Outcome::NotFound,
        false => Outcome::Ok,
    })
}

/// Label of what is archived together: its sessions, or `ROOT_ID` if it has none.
pub(super) fn session_label(sessions: &[&str]) -> String {
    match sessions.is_empty() {
        true => ROOT_ID.to_owned(),
        false => sessions.join(", "),
    }
}

/// Label that says how many of its files are in the root.
fn source_status(row: &ArchivedJson<'_>) -> String {
    let mut state = match row.there {
        0 => "missing".to_owned(),
        there if there == row.files => "present".to_owned(),
        there => {
            let (there, files) = (size::count(there as u64), size::count(row.files as u64));
            format!("{there} of {files} present")
        }
    };
    if row.renamed {
        state.push_str(", renamed");
    } else if !row.source && row.there > 0 && !row.sessions.is_empty() {
        state.push_str(", log missing");
    }
    state
}

/// Current path of each file of an archived session.
type FilePaths = Vec<Option<PathBuf>>;

fn archived_json<'a>(session: &'a ArchivedSession, places: &FilePaths) -> ArchivedJson<'a> {
    let main = session.main_log();
    let mut found = session.members.iter().zip(places);
    let source = found.find(|(member, _)| main.is_some_and(|main| main.path == member.path));
    let source = source.and_then(|(member, place)| Some((member, place.as_ref()?)));
    let is_moved = |(member, place): (&Member, &PathBuf)| *place != session.root.join(&member.path);
    ArchivedJson {
        sessions: session.sessions.iter().map(|it| it.id.as_str()).collect(),
        layout: session.layout,
        root: &session.root,
        pack: &session.path,
        archived: session.archived(),
        generation: session.generation(),
        files: session.members.len(),
        bytes: session.members.iter().map(|member| member.len).sum(),
        packed: session.packed(),
        earlier: session.earlier.len(),
        source: source.is_some(),
        there: places.iter().flatten().count(),
        renamed: source.is_some_and(is_moved),
        members: None,
        versions: None,
    }
}

/// Lists every file of the named sessions, with earlier versions.
fn list_versions(named: &[String], context: &mut Context) -> Result<Outcome> {
    let archive = context.store.archive()?;
    let mut sessions: Vec<ArchivedSession> = Vec::new();
    for id in named {
        let found = archive.find_in(id, context.only_roots())?;
        if sessions.iter().all(|known| known.path != found.path) {
            sessions.push(found);
        }
    }
    let mut whereabouts = FileLocator::reporting_to(context.store.failures());
    let mut rows: Vec<ArchivedJson<'_>> = Vec::new();
    for session in &sessions {
        let places = whereabouts.locate(session);
        let members = session.members.iter().zip(&places);
        let members = members.map(|(it, place)| VersionJson::newest(it, place.as_ref()));
        let earlier = session.earlier.iter().enumerate();
        let earlier = earlier.map(|(at, it)| VersionJson::new(Some(at + 1), it));
        rows.push(ArchivedJson {
            members: Some(members.collect()),
            versions: Some(earlier.collect()),
            ..archived_json(session, &places)
        });
    }
    if context.json {
        context.out.json(&ArchiveListJson {
            archived: rows,
            damaged: &[],
        })?;
        return Ok(Outcome::Ok);
    }
    for row in &rows {
        print_session(row, context)?;
    }
    Ok(Outcome::Ok)
}

fn print_session(row: &ArchivedJson<'_>, context: &mut Context) -> Result<()> {
    let names = session_label(&row.sessions);
    let pack = row.pack.display().to_string();
    context.out.line(format_args!(
        "{} in {}",
        paint(ID, &names),
        paint(PATH, &pack)
    ))?;
    let mut table = Table::new([
        Column::new("EARLIER").right().style(BOLD),
        Column::new("SIZE").right(),
        Column::new("CHANGED").style(DIM),
        Column::new("REPLACED").style(DIM),
        Column::new("SOURCE"),
        Column::new("FILE").min(20).cut_middle().style(PATH),
    ]);
    let all = row.members.iter().chain(&row.versions).flatten();
    for version in all {
        let ago = |time: Option<Timestamp>| time.map(|time| context.clock.ago(time));
        table.row([
            Cell::new(version.number.map(|it| it.to_string()).unwrap_or_default()),
            Cell::new(size::bytes(version.bytes)),
            Cell::new(ago(version.modified).unwrap_or_default()),
            Cell::new(ago(version.until).unwrap_or_default()),
            Cell::new(match version.there {
                None => "",
                Some(true) => "present",
                Some(false) => "missing",
            }),
            Cell::new(version.path.display().to_string()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    context.out.blank()?;
    if row.earlier > 0 {
        context.out.line(format_args!(
            "{} restores an earlier version into another root",
            styled_command(
                "annals restore",
                row.sessions.first().copied().unwrap_or(ROOT_ID),
                "--earlier N --to DIR --apply"
            )
        ))?;
    }
    Ok(())
}
