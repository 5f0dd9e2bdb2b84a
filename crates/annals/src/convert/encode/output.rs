//! Writes the converted lines and documents of a session.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use annals_jsonl as jsonl;
use annals_layouts::layout::{Edit, ListUpdate, RowUpdate, set_scalars};
use annals_layouts::model::{ArtifactKind, Body, ListSubject};

use super::super::origin::{self, GENERATED, ListedTitle, TitleMember};
use super::super::other_files::to_json;
use super::super::{MergedSession, SessionOutcome};
use super::{OutputLog, SessionEncoder};

impl SessionEncoder<'_> {
    /// Writes a record as it was; an empty one is part of the record before it.
    pub(super) fn write_record(&mut self, path: PathBuf, record: Vec<u8>) -> Result<()> {
        self.first_lines.remove(&path);
        match record.is_empty() {
            true => Ok(()),
            false => self.put(&path, record),
        }
    }

    /// Applies the edits that begin a log. Lines are written with the next one.
    pub(super) fn write_first_lines(&mut self, edits: Vec<Edit>) -> Result<()> {
        if !self.target.merge {
            return self.write_edits(edits, GENERATED);
        }
        for edit in edits {
            match edit {
                Edit::Append { path, lines } => {
                    self.first_lines.entry(path).or_default().extend(lines);
                }
                other => self.write_edits(vec![other], GENERATED)?,
            }
        }
        Ok(())
    }

    /// Applies edits that correspond to no line of the source.
    pub(super) fn write_edits(&mut self, edits: Vec<Edit>, origin: &[u8]) -> Result<()> {
        for edit in edits {
            match edit {
                Edit::Append { path, lines } => {
                    for mut line in lines {
                        if self.target.origin {
                            origin::attach_origin(&mut line, origin);
                        }
                        self.put(&path, line)?;
                    }
                }
                Edit::Create { path, bytes } | Edit::Replace { path, bytes } => {
                    let mut staged = self.target.stage.file(&path)?;
                    staged.put(&bytes)?;
                    self.out.insert(path, OutputLog::File(staged));
                }
                Edit::SetScalars {
                    path,
                    members,
                    defaults,
                } => {
                    let old = self.scalars.get(&path);
                    let new = set_scalars(old.map(Vec::as_slice), &members, &defaults);
                    self.scalars.insert(path, new);
                }
                Edit::SetMembers { .. } | Edit::Rows { .. } => {}
            }
        }
        Ok(())
    }

    pub(super) fn put(&mut self, path: &Path, line: Vec<u8>) -> Result<()> {
        if line.len() >= jsonl::MAX_LINE {
            return Err(Error::refused(format!(
                "a record of {} MB exceeds the limit of {} MB",
                line.len() >> 20,
                jsonl::MAX_LINE >> 20
            )));
        }
        let first = self.first_lines.remove(path).unwrap_or_default();
        for line in first.into_iter().chain(std::iter::once(line)) {
            match self.output(path)? {
                OutputLog::File(staged) => staged.put_line(&line)?,
                OutputLog::Shared(lines) => lines.push(line),
            }
        }
        Ok(())
    }

    pub(super) fn output(&mut self, path: &Path) -> Result<&mut OutputLog> {
        let target = self.target;
        if !self.out.contains_key(path) {
            let Some(meaning) = target.root.layout.classify(path) else {
                return Err(Error::refused(format!(
                    "{} is not a valid path in the layout {}",
                    path.display(),
                    target.root.layout.name()
                )));
            };
            let out = match meaning.kind {
                ArtifactKind::SharedLog => OutputLog::Shared(Vec::new()),
                _ => OutputLog::File(target.stage.file(path)?),
            };
            self.out.insert(path.to_owned(), out);
        }
        self.out
            .get_mut(path)
            .ok_or_else(|| Error::refused("the output file is missing"))
    }

    /// Renames all files into place, the main log last: once it exists, the session is complete.
    pub(super) fn finish(mut self) -> Result<SessionOutcome> {
        for (path, lines) in std::mem::take(&mut self.first_lines) {
            lines
                .into_iter()
                .try_for_each(|line| self.put(&path, line))?;
        }
        for (path, bytes) in std::mem::take(&mut self.scalars) {
            // A session that is in the target already keeps its own.
            if self.target.merge && jsonl::exists(&self.target.root.path.join(&path))? {
                continue;
            }
            let mut staged = self.target.stage.file(&path)?;
            staged.put(&bytes)?;
            self.out.insert(path, OutputLog::File(staged));
        }
        let rows = self.take_rows();
        if self.target.merge {
            return self.finish_merge(rows);
        }
        if let Some(mut origin) = self.origin.take() {
            if let Some(title) = self.listed_title(&rows)? {
                let given = ListedTitle {
                    given: TitleMember { title },
                };
                origin.put_line(&to_json(&given)?)?;
            }
            if !self.shared {
                // Without the main log, an existing origin file was left by an interrupted run.
                self.target.stage.remove_existing(&origin)?;
            }
            self.target.stage.commit(origin)?;
        }
        let mut out = std::mem::take(&mut self.out);
        let main = out.remove(&self.main);
        for (path, out) in out {
            self.commit_output(&path, out)?;
        }
        if let Some(out) = main {
            self.commit_output(&self.main, out)?;
        }
        Ok(SessionOutcome {
            id: Some(self.head.session.clone()),
            rows,
            counts: self.counts,
            ..SessionOutcome::default()
        })
    }

    /// Returns the files of the session, which are not renamed yet.
    fn finish_merge(self, rows: Vec<RowUpdate>) -> Result<SessionOutcome> {
        let mut merge = MergedSession {
            log: self.head.log,
            agents: self.agents,
            files: Vec::new(),
            shared: Vec::new(),
        };
        let mut main = None;
        for (path, out) in self.out {
            match out {
                OutputLog::File(staged) if path == self.main => {
                    main = Some(self.target.stage.complete(staged, true)?);
                }
                OutputLog::File(staged) => {
                    merge.files.push(self.target.stage.complete(staged, false)?);
                }
                OutputLog::Shared(lines) => merge.shared.push((path, lines)),
            }
        }
        merge.files.extend(main);
        Ok(SessionOutcome {
            id: Some(self.head.session),
            rows,
            counts: self.counts,
            merge: Some(merge),
            ..SessionOutcome::default()
        })
    }

    /// Returns the session list updates of the logs.
    fn take_rows(&mut self) -> Vec<RowUpdate> {
        let mut rows = std::mem::take(&mut self.rows);
        let row = rows.entry(self.head.log.clone()).or_default();
        // The session may get another title before its row is written.
        row.first_title = self.title.take();
        let rows = rows.into_iter().map(|(log, row)| RowUpdate {
            log: Some(log),
            cwd: self.head.cwd.clone(),
            git_branch: self.head.git_branch.clone(),
            ..row
        });
        rows.collect()
    }

    /// Returns the title that the session list will have for the session; `None` if there is no
    /// list.
    fn listed_title(&self, rows: &[RowUpdate]) -> Result<Option<Option<String>>> {
        let Some(session_list) = self.target.writer.session_list(&self.head.log) else {
            return Ok(None);
        };
        let mut main = rows
            .iter()
            .filter(|row| row.log.as_ref() == Some(&self.head.log));
        let row = main.next().cloned().unwrap_or_default();
        let update = self
            .target
            .writer
            .update_session_list(&session_list, None, &[row], true)?;
        let ListUpdate::Changed { bytes, .. } = update else {
            return Ok(Some(None));
        };
        let listed = crate::store::decode_document(self.target.root, &session_list, &bytes);
        let abouts = listed
            .items
            .into_iter()
            .filter_map(|entry| match entry.body {
                Body::SessionList(abouts) => Some(abouts),
                _ => None,
            });
        let own = ListSubject::Session(self.head.session.clone());
        let mut abouts = abouts.flatten().filter(|about| about.subject == own);
        Ok(Some(abouts.next().and_then(|about| about.title)))
    }

    fn commit_output(&self, path: &Path, out: OutputLog) -> Result<()> {
        match out {
            OutputLog::File(staged) => {
                if !self.shared {
                    self.target.stage.remove_existing(&staged)?;
                }
                let stage = self.target.stage;
                match path == self.main {
                    true => stage.commit_last(staged).map(drop),
                    false => stage.commit(staged).map(drop),
                }
            }
            OutputLog::Shared(lines) => {
                let whole = self.target.root.path.join(path);
                // An interrupted conversion has already written the first lines.
                let key = (whole.clone(), self.head.session.clone());
                let there = self
                    .target
                    .existing_records
                    .get(&key)
                    .copied()
                    .unwrap_or_default();
                let rest = lines.get(there..).unwrap_or_default();
                crate::store::append_shared(self.target.root, path, rest)
            }
        }
    }
}
