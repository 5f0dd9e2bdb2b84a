//! Session data outside of the logs: notes, titles, todos, documents.

use std::collections::HashMap;

use crate::error::Result;
use crate::store::RootFile;
use annals_layouts::layout::{Change, OpenReply};
use annals_layouts::model::{AgentId, ArtifactKind, Body, Draft, TitleSource};

use super::super::source::sources;
use super::{
    GENERATED, Links, SessionEncoder, SplitReplies, TargetLog, artifact_label, write_whole_file,
};

impl SessionEncoder<'_> {
    /// Converts notes that are in logs of their own.
    pub(super) fn remarks(&mut self) -> Result<()> {
        let session = self.session;
        let number = session.files.logs().flat_map(RootFile::volumes).count();
        let mut pen = TargetLog {
            head: self.head.clone(),
            listed: false,
            last: HashMap::new(),
            reply: OpenReply::default(),
            pending_usage: None,
            resumed: None,
            replies: SplitReplies::default(),
            repeats: HashMap::new(),
        };
        let links = Links::new(&[]);
        for (at, file) in session.files.notes().enumerate() {
            self.convert_log(file, number + at, 0, usize::MAX, &mut pen, &links)?;
        }
        Ok(())
    }

    /// Converts a title that is only in a session list.
    pub(super) fn titles(&mut self) -> Result<()> {
        let listed = self.session.listed_title();
        let Some(text) = listed else { return Ok(()) };
        let title = Body::Title {
            text,
            source: TitleSource::Custom,
        };
        let now = self.started;
        let draft = Draft::new(title).with_time(now);
        let head = self.head.clone();
        match self.plan(&head, &Change::Append(vec![draft]), now) {
            Ok(plan) => {
                self.title = plan.title.or(self.title.take());
                self.last_line = plan.added.last().cloned().or(self.last_line.take());
                self.write_edits(plan.edits, GENERATED)
            }
            Err(error) if error.is_refusal() => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn todos(&mut self) -> Result<()> {
        if !self.session.has_todos() {
            return Ok(());
        }
        let lists = match self.session.todos() {
            // Larger than any todo list.
            Err(error) if error.is_refusal() => {
                self.counts.add_unconverted("todos");
                return Ok(());
            }
            lists => lists?,
        };
        for (agent, list) in lists {
            let mut head = self.head.clone();
            if agent != self.session.files.id.as_str() {
                head.agent = AgentId::new(&agent).ok();
            }
            match self.plan(&head, &Change::SetTodos(list), self.started) {
                Ok(plan) => {
                    self.counts.add_converted("todos");
                    self.write_edits(plan.edits, GENERATED)?;
                }
                Err(error) if error.is_refusal() => self.counts.add_unconverted("todos"),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Stores the files that the target cannot represent.
    pub(super) fn documents(&mut self) -> Result<()> {
        let session = self.session;
        let first = session.files.logs().flat_map(RootFile::volumes).count()
            + session.files.notes().count();
        for (number, file) in sources(&session.files).into_iter().enumerate().skip(first) {
            let kind = file.artifact.kind;
            // Their content was already converted.
            if !matches!(
                kind,
                ArtifactKind::Todos | ArtifactKind::Task | ArtifactKind::AgentMeta
            ) {
                self.counts.add_unconverted(artifact_label(kind));
            }
            if let Some(beside) = &mut self.origin {
                write_whole_file(beside, &file.path, number)?;
            }
        }
        Ok(())
    }
}
