//! The laws of the design, each over LAYOUTS × fixtures. A new layout is tested automatically.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

use annals::jsonl::{LineEnding, Scanner};
use annals::layout::{Decoded, LAYOUTS, Layout, Record};
use annals::model::{
    AgentId, Artifact, ArtifactKind, Body, Entry, EntryKey, Fact, Flaw, Outline, OutlineKind, Role,
    SessionId, Span,
};
use annals::store::{Root, Session, SessionWriter, Store};
use annals::tree::{Scope, Tree};

use crate::gates::Dice;
use crate::support::{Case, QUICK, cases, members, paths, picture};

/// An owned line of a file, as the scanner returns it.
struct Line {
    span: Span,
    bytes: Vec<u8>,
    terminated: bool,
}

fn lines(file: &[u8]) -> Vec<Line> {
    let mut scanner = Scanner::new(file);
    let mut found = Vec::new();
    while let Some(line) = scanner.next().unwrap() {
        found.push(Line {
            span: Span {
                offset: line.offset,
                len: line.len,
                line: line.number,
            },
            bytes: line.bytes.to_vec(),
            terminated: line.ending != LineEnding::None,
        });
    }
    found
}

impl Line {
    fn record(&self) -> Record<'_> {
        Record {
            span: self.span,
            bytes: &self.bytes,
            terminated: self.terminated,
            oversize: false,
        }
    }
}

fn logs(case: &Case) -> Vec<(annals::store::RootFile, Vec<u8>)> {
    let files = case.files().into_iter();
    files
        .filter(|file| file.artifact.kind.is_log())
        .map(|file| (file.clone(), file.read_records().unwrap()))
        .collect()
}

mod law_1_bytes_are_the_truth;
mod law_2_places_and_meanings;
mod law_3_any_cut_is_readable;
mod law_4_what_is_written_is_read;
mod law_5_there_and_back;
mod law_7_one_answer_by_every_route;
mod law_8_nothing_outside;
mod law_9_no_failed_read_is_silent;
mod random_sessions;
