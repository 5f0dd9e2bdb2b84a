//! `annals archive --list`

use annals::archive::{ArchivedSession, Member, ROOT_ID};
use anyhow::Result;
use jiff::Timestamp;

use super::{print_damage, warn_unread};
use crate::commands::Outcome;
use crate::context::Context;
use annals::view::{ArchiveList, ArchivedRow, ShortIds};
use annals_render::command::styled_command;
use annals_render::size;
use annals_render::style::{BOLD, DIM, ID, PATH, paint};
use annals_render::table::{Cell, Column, Table};

/// Lists the archive, or the files of the named sessions.
pub(super) fn run(named: &[String], context: &mut Context) -> Result<Outcome> {
    if !named.is_empty() {
        return list_versions(named, context);
    }
    let list = ArchiveList::new(&context.store, context.only_roots())?;
    warn_unread(&list.damaged, context);
    let (rows, damaged) = (&list.archived, &list.damaged);
    if context.json {
        context.out.json(&list)?;
    } else if rows.is_empty() && damaged.is_empty() {
        context.out.line("The archive is empty.")?;
    } else {
        let short = ShortIds::new(rows.iter().flat_map(ArchivedRow::ids));
        let mut table = Table::new([
            Column::new("SESSION").style(ID),
            Column::new("ARCHIVED").style(DIM),
            Column::new("FILES").right(),
            Column::new("SIZE").right(),
            Column::new("PACKED").right(),
            Column::new("SOURCE"),
            Column::new("ROOT").min(8).cut_middle().style(PATH),
        ]);
        for row in rows {
            let session = &row.session;
            let ids = row.ids();
            let names: Vec<&str> = ids.iter().map(|id| short.get(id)).collect();
            // A copied session is archived several times; the tag after its id selects one.
            let again =
                |other: &&ArchivedRow| other.session.root == session.root && other.ids() == ids;
            let tag = session
                .tag()
                .filter(|_| rows.iter().filter(again).count() > 1);
            table.row([
                Cell::new(match tag {
                    None => session_label(&names),
                    Some(tag) => format!("{}.{tag}", session_label(&names)),
                }),
                Cell::new(context.clock.ago(session.archived())),
                Cell::new(size::count(session.members.len() as u64)),
                Cell::new(size::bytes(row.bytes())),
                Cell::new(size::bytes(session.packed())),
                Cell::new(source_status(row)),
                Cell::new(session.root.display().to_string()),
            ]);
        }
        context.out.text(table.render(context.out.width()))?;
        print_damage(damaged, context)?;
    }
    Ok(match rows.is_empty() || !damaged.is_empty() {
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
fn source_status(row: &ArchivedRow) -> String {
    let (present, files) = (row.present(), row.session.members.len());
    let mut state = match present {
        0 => "missing".to_owned(),
        _ if present == files => "present".to_owned(),
        _ => {
            let (present, files) = (size::count(present as u64), size::count(files as u64));
            format!("{present} of {files} present")
        }
    };
    if row.is_renamed() {
        state.push_str(", renamed");
    } else if row.log_path().is_none() && present > 0 && !row.session.sessions.is_empty() {
        state.push_str(", log missing");
    }
    state
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
    let list = ArchiveList::with_files(&context.store, sessions);
    if context.json {
        context.out.json(&list)?;
        return Ok(Outcome::Ok);
    }
    for row in &list.archived {
        print_session(row, context)?;
    }
    Ok(Outcome::Ok)
}

fn print_session(row: &ArchivedRow, context: &mut Context) -> Result<()> {
    let ids = row.ids();
    let names = session_label(&ids);
    let pack = row.session.path.display().to_string();
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
    let mut line = |member: &Member, number: Option<usize>, is_present: Option<bool>| {
        let ago = |time: Option<Timestamp>| time.map(|time| context.clock.ago(time));
        let modified = Timestamp::from_nanosecond(member.mtime_ns.into()).ok();
        table.row([
            Cell::new(number.map(|it| it.to_string()).unwrap_or_default()),
            Cell::new(size::bytes(member.len)),
            Cell::new(ago(modified).unwrap_or_default()),
            Cell::new(ago(member.until).unwrap_or_default()),
            Cell::new(match is_present {
                None => "",
                Some(true) => "present",
                Some(false) => "missing",
            }),
            Cell::new(member.path.display().to_string()),
        ]);
    };
    for (member, path) in row.session.members.iter().zip(&row.paths) {
        line(member, None, Some(path.is_some()));
    }
    for (at, member) in row.session.earlier.iter().enumerate() {
        line(member, Some(at + 1), None);
    }
    context.out.text(table.render(context.out.width()))?;
    context.out.blank()?;
    if !row.session.earlier.is_empty() {
        context.out.line(format_args!(
            "{} restores an earlier version into another root",
            styled_command(
                "annals restore",
                ids.first().copied().unwrap_or(ROOT_ID),
                "--earlier N --to DIR --apply"
            )
        ))?;
    }
    Ok(())
}
