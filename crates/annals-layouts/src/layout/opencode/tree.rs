//! Sessions of older versions: one JSON file per session, message and part.
//!
//! ```text
//! storage/session/<project>/<session>.json   {id, parentID?, directory, title, version, time}
//! storage/message/<session>/<message>.json   the columns `id` and `data` in one object
//! storage/part/<message>/<part>.json         the same
//! ```
//!
//! The lines are those of a database. Only the files of the session itself are read, so a sub-agent of
//! a sub-agent belongs to a session with the name of the latter.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::json::{Raw, Text, object, quote};
use crate::layout::{AGENT_SEPARATOR, Decoded, Decoder, Record};
use crate::model::{Entry, Fact, FilePart, FileSetFormat, Outline};

use super::decode::RowDecoder;

/// A session with its messages and their parts.
pub(super) static SESSION: FileSetFormat = FileSetFormat {
    name: "opencode-files",
    is_whole: false,
    keeps_lines: false,
    parts: |path| {
        let storage = path.ancestors().nth(3);
        let place = storage.zip(path.file_stem()).and_then(|(storage, name)| {
            Some(match kind(path) {
                "session" => storage.join("message").join(name),
                "message" => storage.join("part").join(name),
                _ => return None,
            })
        });
        place.into_iter().collect::<Vec<PathBuf>>()
    },
    to_lines,
};

/// Returns the directory that names the kind of a file.
fn kind(path: &Path) -> &str {
    let dir = path.ancestors().nth(2).and_then(Path::file_name);
    dir.and_then(OsStr::to_str).unwrap_or_default()
}

object! {
    struct Session<'a> {
        "id" => id: Text<'a>,
        "parentID" => parent: Text<'a>,
        "directory" => directory: Raw<'a>,
        "title" => title: Raw<'a>,
        "version" => version: Raw<'a>,
        "time" => time: Time<'a>,
    }
}

object! {
    struct Message<'a> {
        "id" => id: Text<'a>,
        "time" => time: Time<'a>,
    }
}

object! {
    struct Time<'a> {
        "created" => created: Raw<'a>,
        "updated" => updated: Raw<'a>,
    }
}

fn to_lines(parts: &[FilePart<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let Some((main, others)) = parts.split_first() else {
        return out;
    };
    let text = String::from_utf8_lossy(main.bytes);
    let session: Session<'_> = Raw(Some(&text)).parse();
    let own = main.path.file_stem().and_then(OsStr::to_str);
    let own = own.or(session.id.get()).unwrap_or_default();
    let name = quote(&match session.parent.non_empty() {
        Some(parent) => format!("{parent}{AGENT_SEPARATOR}{own}"),
        None => own.to_owned(),
    });
    if serde_json::from_str::<Session<'_>>(&text).is_ok() {
        push(
            &mut out,
            &[
                ("type", Some("\"session\"")),
                ("session", Some(&name)),
                ("id", Some(&quote(own))),
                ("directory", session.directory.0),
                ("title", session.title.0),
                ("version", session.version.0),
                ("created", session.time.created.0),
                ("updated", session.time.updated.0),
            ],
        );
    } else {
        crate::layout::derived::push_damaged(&mut out, main.bytes);
    }
    let of_kind = |wanted: &'static str| others.iter().filter(move |it| kind(it.path) == wanted);
    let stem = |part: &FilePart<'_>| {
        let stem = part.path.file_stem().and_then(OsStr::to_str);
        stem.unwrap_or_default().to_owned()
    };
    let mut messages: Vec<_> = of_kind("message")
        .map(|part| {
            let text = String::from_utf8_lossy(part.bytes);
            let time = {
                let message: Message<'_> = Raw(Some(&text)).parse();
                message.time.created.count().ok().flatten()
            };
            (time, stem(part), text)
        })
        .collect();
    messages.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    let mut parts_by_message: HashMap<&OsStr, Vec<String>> = HashMap::new();
    for part in of_kind("part") {
        let message = part.path.parent().and_then(Path::file_name);
        let data = json(&String::from_utf8_lossy(part.bytes));
        let record = format!("{{\"id\":{},\"data\":{data}}}", quote(&stem(part)));
        let of_message = parts_by_message.entry(message.unwrap_or_default());
        of_message.or_default().push(record);
    }
    for (time, id, text) in messages {
        let parts = parts_by_message.remove(OsStr::new(&id)).unwrap_or_default();
        let parts = parts.join(",");
        push(
            &mut out,
            &[
                ("type", Some("\"message\"")),
                ("session", Some(&name)),
                ("id", Some(&quote(&id))),
                ("created", time.map(|time| time.to_string()).as_deref()),
                ("started", session.time.created.0),
                ("data", Some(&json(&text))),
                ("parts", Some(&format!("[{parts}]"))),
            ],
        );
    }
    out
}

/// Returns a document as JSON; one that is damaged becomes a string.
fn json(text: &str) -> String {
    match serde_json::from_str::<Raw<'_>>(text) {
        Ok(Raw(Some(raw))) => raw.to_owned(),
        _ => quote(text),
    }
}

/// Adds a record.
fn push(out: &mut Vec<u8>, members: &[(&str, Option<&str>)]) {
    let members = members.iter();
    let members = members.filter_map(|(name, value)| Some(format!("\"{name}\":{}", (*value)?)));
    let record = format!("{{{}}}\n", members.collect::<Vec<_>>().join(","));
    let (content, end) = record.split_at(record.len() - 1);
    // Line breaks occur only between values.
    out.extend(content.replace(['\n', '\r'], " ").bytes());
    out.extend_from_slice(end.as_bytes());
}

/// Decodes records of a file, which may be those of a sub-agent.
#[derive(Debug)]
pub(super) struct TreeDecoder;

impl Decoder for TreeDecoder {
    fn outline(&mut self, record: &Record<'_>, out: &mut Decoded<Outline>) {
        let before = out.items.len();
        RowDecoder.outline(record, out);
        for outline in out.items.iter_mut().skip(before) {
            let agent = outline.agent.take();
            for fact in &mut outline.facts {
                if let (Fact::Session(session), Some(agent)) = (fact, &agent) {
                    *session = format!("{session}{AGENT_SEPARATOR}{agent}").into();
                }
            }
        }
    }

    fn decode(&mut self, record: &Record<'_>, out: &mut Decoded<Entry>) {
        let before = out.items.len();
        RowDecoder.decode(record, out);
        for entry in out.items.iter_mut().skip(before) {
            let agent = entry.agent.take();
            if let Some((session, agent)) = entry.session.as_mut().zip(agent) {
                *session = format!("{session}{AGENT_SEPARATOR}{agent}");
            }
        }
    }
}
