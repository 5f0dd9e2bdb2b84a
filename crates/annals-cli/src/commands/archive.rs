//! `annals archive`

mod forget;
mod list;

use std::path::Path;

use annals::archive::{Archived, ArchivedSession, Damage, VerifyReport};
use annals::store::SessionFiles;
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use super::overview::print_no_live_sessions;
use super::{Outcome, choose, delete};
use crate::context::{Access, Context, is_unknown_archived};
use crate::terminal::progress::Progress;
use annals::view::ShortIds;
use annals_render::command::styled_command;
use annals_render::size::{self, pluralize};
use annals_render::style::{BOLD, ERROR, ID, PATH, PLAIN, SUCCESS, paint};
use annals_render::table::{Cell, Column, Table};

/// Moves or copies sessions to the archive.
#[derive(Debug, Args)]
#[command(after_help = "\
A session is archived with everything that belongs to it, compressed and checksummed, in annals' \
state directory. It is read back and compared with its files before those are removed; with \
--keep-source they stay, and a later run adds what is new. Without --apply nothing changes.

Examples:
  annals archive 8c549c46                    what would be archived and removed
  annals archive 8c549c46 --apply
  annals archive --older-than 30d --apply    sessions not updated for 30 days
  annals archive --project my-app --keep-source --apply
  annals archive --list                      what is in the archive
  annals archive --list 8c549c46             its files and earlier versions
  annals archive --forget 8c549c46           what would be deleted permanently
  annals archive --verify                    compare all checksums
  annals restore 8c549c46 --apply            put it back")]
pub(crate) struct ArchiveArgs {
    /// The sessions
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// All sessions of this project: its path, its name, or its id
    #[arg(
        long,
        short,
        value_name = "PROJECT",
        allow_hyphen_values = true,
        conflicts_with = "sessions"
    )]
    project: Option<String>,
    /// Only sessions not updated since: 30d, 12w, 2026-03-01
    #[arg(long, value_name = "WHEN")]
    older_than: Option<String>,
    /// Do it; without this, only the plan is shown
    #[arg(long)]
    apply: bool,
    /// Leave the files where they are
    #[arg(long)]
    keep_source: bool,
    /// Also sessions that another program is writing to right now
    #[arg(long)]
    live: bool,
    /// Also pinned sessions
    #[arg(long)]
    pinned: bool,
    /// List the archive; with SESSION, list every file and its earlier versions
    #[arg(long, conflicts_with_all = ["project", "older_than", "apply", "keep_source", "live", "pinned", "verify"])]
    list: bool,
    /// Verify the checksums of archived sessions: those named, or all
    #[arg(long, conflicts_with_all = ["project", "older_than", "apply", "keep_source", "live", "pinned"])]
    verify: bool,
    /// Delete sessions from the archive permanently, by id or by path of the compressed log
    #[arg(long, requires = "sessions", conflicts_with_all = ["project", "older_than", "keep_source", "live", "list", "verify"])]
    forget: bool,
}

#[derive(Serialize)]
struct ArchiveJson<'a> {
    applied: bool,
    keep_source: bool,
    sessions: &'a [Archived],
    files: usize,
    bytes: u64,
    added: u64,
    /// Sessions that stay because they are pinned.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pinned: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    session: String,
    error: String,
}

#[derive(Serialize)]
struct VerifyJson<'a> {
    ok: bool,
    #[serde(flatten)]
    verified: &'a VerifyReport,
}

pub(crate) fn run(args: &ArchiveArgs, context: &mut Context) -> Result<Outcome> {
    if args.list || args.forget || args.verify {
        let named = args.sessions.iter();
        let access = match args.forget {
            true => Access::Write,
            false => Access::Read,
        };
        let named = named.map(|id| context.resolve_latest_id(id, access));
        let named = named.collect::<Result<Vec<String>>>()?;
        return match run_on_archive(args, &named, context) {
            Err(error) if is_unknown_archived(&error) => {
                let ids = named.iter().map(|name| context.archived_by_title(name));
                let ids = ids.collect::<Result<Vec<String>>>()?;
                match ids == named {
                    true => Err(error),
                    false => run_on_archive(args, &ids, context),
                }
            }
            done => done,
        };
    }
    if args.apply {
        context.put_back_removed()?;
    }
    let picks = args.sessions.is_empty() && args.project.is_none() && args.older_than.is_none();
    let mut wanted = match picks && choose::can_ask(context) {
        true => named_sessions(&[choose::session(None, context)?], context)?,
        false => select_sessions(args, context)?,
    };
    let pinned = without_pinned(args, &mut wanted, context)?;
    if wanted.is_empty() {
        return print_nothing(args, &pinned, context);
    }
    let shares_logs = args.keep_source && wanted.iter().any(shares_a_log);
    let everything = shares_logs.then(|| context.inventory());
    let groups = match &everything {
        Some(everything) => groups_with_sharers(&wanted, &everything.sessions),
        None => SessionFiles::group_by_shared_files(&wanted.iter().collect::<Vec<_>>()),
    };
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let progress = Progress::new("archiving");
    let total: u64 = wanted.iter().map(SessionFiles::bytes).sum();
    let mut so_far = 0;
    let mut groups_left = groups.iter();
    let mut give = |result: annals::Result<Archived>| {
        let group = groups_left.next().map_or(&[][..], Vec::as_slice);
        match result {
            Ok(archived) => done.push(archived),
            Err(error) => {
                let name = group.first().map(|files| files.id.to_string());
                failed.push((name.unwrap_or_default(), error));
            }
        }
        so_far += group.iter().map(|files| files.bytes()).sum::<u64>();
        progress.set(so_far, total);
    };
    let (store, now) = (&context.store, context.clock.now);
    match (args.apply, args.keep_source) {
        (true, false) => store.move_all_to_archive(&groups, args.live, now, give),
        (true, true) => groups
            .iter()
            .for_each(|group| give(store.copy_to_archive(group, now))),
        (false, keep) => {
            for group in &groups {
                // An incomplete plan is an error.
                give(Ok(store.plan_archive(group, !keep)?));
            }
        }
    }
    drop(progress);
    if context.json {
        context.out.json(&ArchiveJson {
            applied: args.apply,
            keep_source: args.keep_source,
            sessions: &done,
            files: done.iter().map(|it| it.files).sum(),
            bytes: done.iter().map(|it| it.bytes).sum(),
            added: done.iter().map(|it| it.added).sum(),
            pinned: &pinned,
            failed: failed
                .iter()
                .map(|(session, error)| Failed {
                    session: session.clone(),
                    error: error.to_string(),
                })
                .collect(),
        })?;
    } else if !done.is_empty() {
        print_archived(args, &done, context)?;
        print_pinned(&pinned, context)?;
    }
    for mended in &done {
        if let Some(wrong) = &mended.mended {
            let text = format!("{}: {wrong}", mended.pack.display());
            context.warn(&annals::Error::refused(text));
        }
    }
    let mut failed = failed.into_iter().map(|(_, error)| error);
    let Some(first) = failed.next() else {
        return Ok(Outcome::Ok);
    };
    for error in failed {
        context.warn(&error);
    }
    let first = anyhow::Error::new(first);
    let (moved, all) = (
        done.iter().map(|it| it.sessions.len()).sum::<usize>(),
        wanted.len(),
    );
    Err(match all {
        1 => first,
        _ => first.context(format!("{moved} of {all} sessions were archived")),
    })
}

/// Lists, forgets or verifies archived sessions.
fn run_on_archive(args: &ArchiveArgs, named: &[String], context: &mut Context) -> Result<Outcome> {
    match (args.list, args.forget) {
        (true, _) => list::run(named, context),
        (_, true) => forget::run(args, named, context),
        _ => verify(named, context),
    }
}

/// Returns whether other sessions may have a part of a log.
fn shares_a_log(files: &SessionFiles) -> bool {
    let mut volumes = files.logs().flat_map(|log| log.volumes());
    volumes.any(|file| file.slice.is_some())
}

/// Groups sessions that share files, with the sessions that were not named: a log is copied whole.
fn groups_with_sharers<'a>(
    wanted: &[SessionFiles],
    all: &'a [SessionFiles],
) -> Vec<Vec<&'a SessionFiles>> {
    let all: Vec<&SessionFiles> = all.iter().collect();
    let mut groups = SessionFiles::group_by_shared_files(&all);
    let is_wanted =
        |files: &SessionFiles| wanted.iter().any(|it| delete::is_same_session(it, files));
    groups.retain(|group| group.iter().any(|files| is_wanted(files)));
    groups
}

/// Returns the sessions that the arguments select.
fn select_sessions(args: &ArchiveArgs, context: &mut Context) -> Result<Vec<SessionFiles>> {
    let mut wanted = match (&args.project, args.sessions.as_slice()) {
        (Some(project), _) => with_logs(delete::project_sessions(project, context)?),
        (None, []) if args.older_than.is_none() => bail!(
            "say what to archive: sessions, --project, or --older-than (`annals keep` mirrors everything)"
        ),
        (None, []) => with_logs(context.inventory_without_archive().sessions),
        (None, named) => named_sessions(named, context)?,
    };
    if let Some(text) = &args.older_than {
        let limit = context.clock.parse_since(text)?;
        let inventory = context.inventory_without_archive();
        let sessions = context.unsorted_sessions(&inventory);
        let old: std::collections::HashSet<(&str, &Path)> = sessions
            .iter()
            .filter(|session| session.updated.is_some_and(|updated| updated < limit))
            .map(|session| (session.id.as_str(), session.file.as_path()))
            .collect();
        wanted.retain(|files| old.contains(&(files.id.as_str(), files.main_path())));
    }
    Ok(wanted)
}

fn named_sessions(named: &[String], context: &mut Context) -> Result<Vec<SessionFiles>> {
    let named = delete::find_sessions(named, context)?;
    named.iter().try_for_each(SessionFiles::refuse_archived)?;
    Ok(named)
}

/// Drops sessions without a log: there is nothing to archive.
fn with_logs(mut sessions: Vec<SessionFiles>) -> Vec<SessionFiles> {
    sessions.retain(|files| !files.is_unwritten());
    sessions
}

/// Removes pinned sessions from `wanted` and returns their ids. A pinned session that was named is
/// an error.
fn without_pinned(
    args: &ArchiveArgs,
    wanted: &mut Vec<SessionFiles>,
    context: &Context,
) -> Result<Vec<String>> {
    if args.keep_source || args.pinned {
        return Ok(Vec::new());
    }
    let pins = context.store.retention().pins()?;
    let pinned = wanted.iter().filter(|files| pins.contains_files(files));
    let pinned: Vec<String> = pinned.map(|files| files.id.to_string()).collect();
    match pinned.as_slice() {
        [] => {}
        _ if args.sessions.is_empty() => wanted.retain(|files| !pins.contains_files(files)),
        [only] => bail!(
            "session {only} is pinned; add --pinned to archive it anyway, or --keep-source to keep its files"
        ),
        [first, rest @ ..] => bail!(
            "session {first} and {} are pinned; add --pinned to archive them anyway, or --keep-source to keep their files",
            pluralize(rest.len() as u64, "other")
        ),
    }
    Ok(pinned)
}

fn print_pinned(pinned: &[String], context: &mut Context) -> Result<()> {
    match pinned.len() {
        0 => Ok(()),
        1 => Ok(context.out.line("1 pinned session skipped")?),
        count => Ok(context
            .out
            .line(format_args!("{count} pinned sessions skipped"))?),
    }
}

fn print_nothing(args: &ArchiveArgs, pinned: &[String], context: &mut Context) -> Result<Outcome> {
    if context.json {
        context.out.json(&ArchiveJson {
            applied: args.apply,
            keep_source: args.keep_source,
            sessions: &[],
            files: 0,
            bytes: 0,
            added: 0,
            pinned,
            failed: Vec::new(),
        })?;
    } else if context.inventory_without_archive().sessions.is_empty() {
        print_no_live_sessions(context)?;
    } else if pinned.is_empty() {
        context.out.line("No session is that old.")?;
    } else {
        context.out.line("No session was archived.")?;
        print_pinned(pinned, context)?;
    }
    Ok(Outcome::NotFound)
}

fn print_archived(args: &ArchiveArgs, done: &[Archived], context: &mut Context) -> Result<()> {
    let short = ShortIds::new(
        done.iter()
            .flat_map(|it| it.sessions.iter().map(String::as_str)),
    );
    let mut table = Table::new([
        Column::new("SESSION").style(ID),
        Column::new("FILES").right(),
        Column::new("SIZE").right(),
        Column::new(if args.apply { "ADDED" } else { "TO ADD" }).right(),
        Column::new("ARCHIVED").right(),
        Column::new("ROOT").min(8).cut_middle().style(PATH),
    ]);
    for row in done {
        let names: Vec<&str> = row.sessions.iter().map(|id| short.get(id)).collect();
        table.row([
            Cell::new(names.join(", ")),
            Cell::new(size::count(row.files as u64)),
            Cell::new(size::bytes(row.bytes)),
            Cell::new(if row.unchanged {
                "–".to_owned()
            } else {
                size::bytes(row.added)
            }),
            Cell::new(match row.packed {
                0 => "–".to_owned(),
                packed => size::bytes(packed),
            }),
            Cell::new(row.root.display().to_string()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    context.out.blank()?;
    let sessions = done.iter().map(|it| it.sessions.len() as u64).sum();
    let sum = format!(
        "{}, {}, {}",
        pluralize(sessions, "session"),
        pluralize(done.iter().map(|it| it.files as u64).sum(), "file"),
        size::bytes(done.iter().map(|it| it.bytes).sum())
    );
    if !args.apply {
        let what = match args.keep_source {
            true => "Would be archived:",
            false => "Would be archived and removed from their roots:",
        };
        context
            .out
            .line(format_args!("{} {sum}", paint(BOLD, what)))?;
        context
            .out
            .line("Nothing was changed; add --apply to do it.")?;
        return Ok(());
    }
    let packed = size::bytes(done.iter().map(|it| it.packed).sum());
    let what = match args.keep_source {
        true => "archived",
        false => "archived, read back and removed",
    };
    context.out.line(format_args!(
        "{} {what}: {sum}, {packed} in the archive",
        paint(SUCCESS, "✓")
    ))?;
    if let [only] = done
        && let [session] = only.sessions.as_slice()
        && !args.keep_source
    {
        context.out.line(format_args!(
            "{} restores it",
            styled_command("annals restore", session, "--apply")
        ))?;
    }
    Ok(())
}

fn verify(named: &[String], context: &mut Context) -> Result<Outcome> {
    let archive = context.store.archive()?;
    let mut verified = VerifyReport::default();
    let sessions = match named {
        [] => {
            let (sessions, damaged) = archive.sessions_in(context.only_roots())?;
            verified.damaged = damaged;
            sessions
        }
        named => {
            let mut sessions: Vec<ArchivedSession> = Vec::new();
            for id in named {
                let found = archive.find_in(id, context.only_roots())?;
                if sessions.iter().all(|known| known.path != found.path) {
                    sessions.push(found);
                }
            }
            sessions
        }
    };
    let progress = Progress::new("reading the archive");
    let total = sessions.iter().map(ArchivedSession::packed).sum();
    let mut done = 0;
    for session in &sessions {
        verified.verify(session);
        done += session.packed();
        progress.set(done, total);
    }
    drop(progress);
    // `annals keep` verifies these files until they are intact.
    let noted = archive.record_damaged(&sessions, &verified.damaged, context.clock.now);
    if let Err(error) = noted {
        context.warn(&error);
    }
    let ok = verified.damaged.is_empty();
    warn_unread(&verified.damaged, context);
    if context.json {
        context.out.json(&VerifyJson {
            ok,
            verified: &verified,
        })?;
    } else if verified.packs == 0 && ok {
        context.out.line("The archive is empty.")?;
    } else {
        print_damage(&verified.damaged, context)?;
        let sum = format!(
            "{}, {}, {}",
            pluralize(verified.packs as u64, "archived session"),
            pluralize(verified.files as u64, "file"),
            size::bytes(verified.bytes)
        );
        match ok {
            true => context.out.line(format_args!(
                "{} all checksums match: {sum}",
                paint(SUCCESS, "✓")
            ))?,
            false => context.out.line(format_args!(
                "{} {} found in {sum}",
                paint(ERROR, "✗"),
                pluralize(verified.damaged.len() as u64, "fault")
            ))?,
        }
    }
    Ok(match ok && verified.packs > 0 {
        true => Outcome::Ok,
        false => Outcome::NotFound,
    })
}

/// Warns about archived files that could not be read because of an I/O error, which is not damage.
pub(super) fn warn_unread(damaged: &[Damage], context: &mut Context) {
    for damage in damaged.iter().filter(|damage| damage.is_unread) {
        let pack = damage.pack.display().to_string();
        let text = match damage.detail.contains(&pack) {
            true => damage.detail.clone(),
            false => format!("cannot read {pack}: {}", damage.detail),
        };
        context.warn(&annals::Error::refused(text));
    }
}

/// Prints one line per fault: the compressed file, the file, the frame, and the detail.
pub(super) fn print_damage(damaged: &[Damage], context: &mut Context) -> Result<()> {
    for damage in damaged {
        let mut place = damage.pack.display().to_string();
        if let Some(member) = &damage.member {
            place.push_str(&format!(" {}", member.display()));
        }
        if let Some(frame) = damage.frame {
            place.push_str(&format!(" (frame at {frame})"));
        }
        context.out.line(format_args!(
            "{} {}: {}",
            paint(ERROR, "damaged"),
            paint(PATH, &place),
            paint(PLAIN, &damage.detail)
        ))?;
    }
    Ok(())
}
