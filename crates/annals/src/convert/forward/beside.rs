//! What lies beside a session's logs: remarks, titles, todos, documents.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::layout::{Change, OpenReply};
use crate::model::{AgentId, ArtifactKind, Body, Draft, TitleSource};
use crate::store::FoundFile;

use super::{Links, MADE, Pen, Work, carry, kind_name};

impl Work<'_> {
    /// Remarks that lie in logs of their own.
    pub(super) fn remarks(&mut self) -> Result<()> {
        let session = self.session;
        let number = session.files.logs().flat_map(FoundFile::volumes).count();
        let mut pen = Pen {
            head: self.head.clone(),
            listed: false,
            last: HashMap::new(),
            reply: OpenReply::default(),
            owed: None,
        };
        let links = Links::of(&[]);
        for (at, file) in session.files.notes().enumerate() {
            self.log(file, number + at, 0, usize::MAX, &mut pen, &links)?;
        }
        Ok(())
    }

    /// A title that only a register tells.
    pub(super) fn titles(&mut self) -> Result<()> {
        let told = self.session.told_title();
        let Some(text) = told else { return Ok(()) };
        let title = Body::Title {
            text,
            source: TitleSource::Custom,
        };
        let now = self.started;
        let draft = Draft::new(title).at(now);
        let head = self.head.clone();
        match self.plan(&head, &Change::Append(vec![draft]), now) {
            Ok(plan) => {
                self.title = plan.title.or(self.title.take());
                self.write(plan.edits, MADE)
            }
            Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn todos(&mut self) -> Result<()> {
        if self
            .session
            .files
            .beside
            .iter()
            .all(|file| !matches!(file.artifact.kind, ArtifactKind::Todos | ArtifactKind::Task))
        {
            return Ok(());
        }
        let lists = match self.session.todos() {
            // Larger than any list of todos.
            Err(Error::Refused(_)) => {
                self.counts.lost("todos");
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
                    self.counts.said("todos");
                    self.write(plan.edits, MADE)?;
                }
                Err(Error::Refused(_)) => self.counts.lost("todos"),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What lies beside the logs and has no words in the target.
    pub(super) fn documents(&mut self) -> Result<()> {
        let session = self.session;
        let first = session.files.logs().flat_map(FoundFile::volumes).count()
            + session.files.notes().count();
        let sources = self.sources();
        for (number, file) in sources.into_iter().enumerate().skip(first) {
            let kind = file.artifact.kind;
            // These say in the source's words what was said in the target's.
            if !matches!(
                kind,
                ArtifactKind::Todos | ArtifactKind::Task | ArtifactKind::AgentMeta
            ) {
                self.counts.lost(kind_name(kind));
            }
            if let Some(beside) = &mut self.origin {
                carry(beside, &file.path, number)?;
            }
        }
        Ok(())
    }
}
