//! `annals archive --list`

use std::path::{Path, PathBuf};

use annals::archive::{Damage, FileLocator, Member, Pack, ROOT_ID};
use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use super::{print_damage, warn_unread};
use crate::commands::Outcome;
use crate::commands::session_json::ShortIds;
use crate::context::Context;
use crate::render::command::hint;
use crate::render::size;
use crate::render::style::{BOLD, DIM, ID, PATH, paint};
use crate::render::table::{Cell, Column, Table};

#[derive(Serialize)]
struct ArchiveListJson<'a> {
    archived: Vec<PackJson<'a>>,
    damaged: &'a [Damage],
}

#[derive(Serialize)]
struct PackJson<'a> {
    /// None for what belongs to no session of its root.
    sessions: Vec<&'a str>,
    layout: &'a str,
    root: &'a Path,
    pack: &'a Path,
    archived: Timestamp,
    generation: u64,
    files: usize,
    bytes: u64,
    packed: u64,
    /// Versions of files that were replaced or cut.
    earlier: usize,
    /// The main log still lies in its root.
    source: bool,
    /// How many of its files still lie there.
    there: usize,
    /// They lie in another folder of it, which theirs was renamed to.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    renamed: bool,
    /// Its files, where a session was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<VersionJson<'a>>>,
    /// Their earlier versions, the oldest first, where a session was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<VersionJson<'a>>>,
}

#[derive(Serialize)]
struct VersionJson<'a> {
    /// What `restore --earlier` takes; none for the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    path: &'a Path,
    bytes: u64,
    modified: Option<Timestamp>,
    /// When it was found to be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    /// A file still lies in its root; not told of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    there: Option<bool>,
}

impl<'a> VersionJson<'a> {
    /// A file as it was last.
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

/// Shows the archive, or what is in it of some sessions.
pub(super) fn run(named: &[String], context: &mut Context) -> Result<Outcome> {
    if !named.is_empty() {
        return list_versions(named, context);
    }
    let archive = context.store.archive()?;
    let (mut packs, mut damaged) = (Vec::new(), Vec::new());
    for path in archive.pack_paths_in(context.only_roots())? {
        match Pack::open(&path) {
            Ok(pack) => {
                damaged.extend(Damage::lost_end(&pack));
                packs.push(pack);
            }
            Err(error) => damaged.push(Damage::unreadable_pack(&path, &error)),
        }
    }
    let aside = archive.set_aside_in(context.only_roots())?;
    damaged.extend(aside.iter().map(|path| Damage::set_aside(path)));
    warn_unread(&damaged, context);
    packs.sort_by(|a, b| {
        b.index
            .archived
            .cmp(&a.index.archived)
            .then_with(|| a.path.cmp(&b.path))
    });
    let mut whereabouts = FileLocator::reporting_to(context.store.failures());
    let places = |pack: &Pack| whereabouts.locate(&pack.index);
    let places: Vec<FilePaths> = packs.iter().map(places).collect();
    let rows = packs.iter().zip(&places);
    let rows: Vec<PackJson<'_>> = rows.map(|(pack, places)| pack_json(pack, places)).collect();
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
        for (row, pack) in rows.iter().zip(&packs) {
            let names: Vec<&str> = row.sessions.iter().map(|id| short.get(id)).collect();
            // One that was renamed or copied is in several packs; what follows its id picks one.
            let again =
                |other: &&PackJson<'_>| other.root == row.root && other.sessions == row.sessions;
            let tag = pack.tag().filter(|_| rows.iter().filter(again).count() > 1);
            table.row([
                Cell::new(match tag {
                    None => pack_label(&names),
                    Some(tag) => format!("{}.{tag}", pack_label(&names)),
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
    Ok(match packs.is_empty() || !damaged.is_empty() {
        true => Outcome::NotFound,
        false => Outcome::Ok,
    })
}

/// What a pack is called: by its sessions, or as what belongs to none.
pub(super) fn pack_label(sessions: &[&str]) -> String {
    match sessions.is_empty() {
        true => ROOT_ID.to_owned(),
        false => sessions.join(", "),
    }
}

/// How much of it is in its root.
fn source_status(row: &PackJson<'_>) -> String {
    let mut told = match row.there {
        0 => "gone".to_owned(),
        there if there == row.files => "there".to_owned(),
        there => {
            let (there, files) = (size::count(there as u64), size::count(row.files as u64));
            format!("{there} of {files} there")
        }
    };
    if row.renamed {
        told.push_str(", renamed");
    } else if !row.source && row.there > 0 && !row.sessions.is_empty() {
        told.push_str(", log gone");
    }
    told
}

/// Where each file of a pack lies now.
type FilePaths = Vec<Option<PathBuf>>;

fn pack_json<'a>(pack: &'a Pack, places: &FilePaths) -> PackJson<'a> {
    let index = &pack.index;
    let main = index.main_log();
    let mut found = index.members.iter().zip(places);
    let source = found.find(|(member, _)| main.is_some_and(|main| main.path == member.path));
    let source = source.and_then(|(member, place)| Some((member, place.as_ref()?)));
    let is_moved = |(member, place): (&Member, &PathBuf)| *place != index.root.join(&member.path);
    PackJson {
        sessions: index.sessions.iter().map(|it| it.id.as_str()).collect(),
        layout: &index.layout,
        root: &index.root,
        pack: &pack.path,
        archived: index.archived,
        generation: index.generation,
        files: index.members.len(),
        bytes: index.members.iter().map(|member| member.len).sum(),
        packed: pack.bytes,
        earlier: index.earlier.len(),
        source: source.is_some(),
        there: places.iter().flatten().count(),
        renamed: source.is_some_and(is_moved),
        members: None,
        versions: None,
    }
}

/// Every file of the named sessions, and their earlier versions.
fn list_versions(named: &[String], context: &mut Context) -> Result<Outcome> {
    let archive = context.store.archive()?;
    let mut packs: Vec<Pack> = Vec::new();
    for id in named {
        let pack = archive.find_in(id, context.only_roots())?;
        if let Some(lost) = pack.lost_end() {
            context.warn(&lost);
        }
        if packs.iter().all(|known| known.path != pack.path) {
            packs.push(pack);
        }
    }
    let mut whereabouts = FileLocator::reporting_to(context.store.failures());
    let mut rows: Vec<PackJson<'_>> = Vec::new();
    for pack in &packs {
        let places = whereabouts.locate(&pack.index);
        let members = pack.members().iter().zip(&places);
        let members = members.map(|(it, place)| VersionJson::newest(it, place.as_ref()));
        let earlier = pack.earlier_versions().iter().enumerate();
        let earlier = earlier.map(|(at, it)| VersionJson::new(Some(at + 1), it));
        rows.push(PackJson {
            members: Some(members.collect()),
            versions: Some(earlier.collect()),
            ..pack_json(pack, &places)
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
        print_pack(row, context)?;
    }
    Ok(Outcome::Ok)
}

fn print_pack(row: &PackJson<'_>, context: &mut Context) -> Result<()> {
    let names = pack_label(&row.sessions);
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
                Some(true) => "there",
                Some(false) => "gone",
            }),
            Cell::new(version.path.display().to_string()),
        ]);
    }
    context.out.text(table.render(context.out.width()))?;
    context.out.blank()?;
    if row.earlier > 0 {
        context.out.line(format_args!(
            "{} puts it into another root with an earlier version",
            hint(
                "annals restore",
                row.sessions.first().copied().unwrap_or(ROOT_ID),
                "--earlier N --to DIR --apply"
            )
        ))?;
    }
    Ok(())
}
