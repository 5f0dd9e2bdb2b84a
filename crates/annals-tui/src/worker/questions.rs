//! Answers the questions of the screens.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::Result;
use annals::cost::{Dimension, RowPart};
use annals::model::{Block, Body, Entry};
use annals::resume::Resume;
use annals::service::{CostAnswer, CostRequest, SessionsRequest};
use annals::store::project_spellings;
use annals::text::shell_word;

use super::conversation::{conversation, load};
use super::sessions::Sessions;
use super::{Answers, Context, guarded, tree};
use crate::protocol::{
    Answer, CheckRow, CheckSummary, CostLine, CostQuestion, CostSummary, Effect, FileRow,
    OpenQuestion, Replaced, SessionName,
};

/// Maximum number of rows of a cost report.
const COST_ROWS: usize = 400;
/// Number of sessions that are listed before all others.
const FIRST_ROWS: usize = 100;

/// The thread that answers.
pub(crate) struct Worker {
    context: Arc<Context>,
    answers: Answers,
    sessions: Sessions,
    is_written: Arc<AtomicBool>,
    has_listed: bool,
    /// What could not be read, as far as the user was told.
    reported: HashSet<String>,
}

impl Worker {
    pub(crate) fn new(
        context: Arc<Context>,
        answers: Answers,
        is_written: Arc<AtomicBool>,
    ) -> Self {
        Worker {
            context,
            answers,
            sessions: Sessions::default(),
            is_written,
            has_listed: false,
            reported: HashSet::new(),
        }
    }

    /// Answers a question.
    pub(crate) fn answer(&mut self, effect: Effect) {
        let answers = self.answers.clone();
        guarded(&answers, || {
            let mut all = match self.ask(effect) {
                Ok(answer) => answer.into_iter().collect(),
                Err(error) => vec![Answer::Failed(error.to_string())],
            };
            // What could not be read is no error of the answer.
            let failures = self.context.service.store().failures();
            let failed = failures.take();
            failures.take_notices();
            let failed = failed.iter().map(ToString::to_string);
            let new = failed.filter(|error| self.reported.insert(error.clone()));
            let new: Vec<String> = new.collect();
            let first = new.first().map(|first| match new.len() - 1 {
                0 => first.clone(),
                more => format!("{first}, and {more} more; `annals check` lists them"),
            });
            all.extend(first.map(Answer::Notice));
            all
        });
    }

    fn ask(&mut self, effect: Effect) -> Result<Option<Answer>> {
        let service = &self.context.service;
        let answer = match effect {
            Effect::ListSessions => {
                if !std::mem::replace(&mut self.has_listed, true) {
                    // Enough for a screen; the rest follows.
                    let newest = self.list(Some(FIRST_ROWS))?;
                    self.answers.send(newest);
                }
                self.list(None)?
            }
            Effect::Open(question) => return Ok(self.open(&question)),
            Effect::Grow(question) => {
                self.is_written.store(false, Ordering::Relaxed);
                return Ok(self.open(&question));
            }
            Effect::Load {
                reader,
                stamp,
                log,
                wanted,
            } => {
                let Some(opened) = self.sessions.with_stamp(stamp) else {
                    return Ok(Some(Answer::Stale { reader }));
                };
                Answer::Loaded {
                    reader,
                    stamp,
                    entries: load(&opened.open, log, &wanted)?,
                }
            }
            Effect::Find {
                reader,
                stamp,
                log,
                items,
                text,
            } => {
                let Some(opened) = self.sessions.with_stamp(stamp) else {
                    return Ok(Some(Answer::Stale { reader }));
                };
                let wanted = text.to_lowercase();
                let mut found = Vec::new();
                opened.open.each_at(log, &items, |at, entry| {
                    if has_text(&entry, &wanted) {
                        found.push(at);
                    }
                })?;
                Answer::Found {
                    reader,
                    stamp,
                    text,
                    items: found,
                }
            }
            Effect::Tree(session) => {
                let opened = self.sessions.open(service, &session, false)?;
                let rows = tree::rows(service, &opened.open);
                Answer::Tree { session, rows }
            }
            Effect::Files(session) => {
                let opened = self.sessions.open(service, &session, false)?;
                let files = opened.open.files()?;
                Answer::Files {
                    files: files.iter().map(FileRow::from).collect(),
                    session,
                }
            }
            Effect::Diff {
                session,
                path,
                old,
                new,
            } => {
                let opened = self.sessions.open(service, &session, false)?;
                let old = old.map_or_else(|| Ok(Vec::new()), |old| opened.open.file(&path, old));
                let text = match (old, opened.open.file(&path, new)) {
                    (Ok(old), Ok(content)) if old == content => {
                        "The two versions are equal.".to_owned()
                    }
                    (Ok(old), Ok(content)) => {
                        let name = path.trim_start_matches('/');
                        annals_render::diff::unified(name, &old, &content, None)
                    }
                    // A version without a copy is not compared.
                    (Err(error), _) | (_, Err(error)) => {
                        annals_render::text::safe_block(&error.to_string()).to_string()
                    }
                };
                Answer::Diff { path, new, text }
            }
            Effect::PlanRestore(restore) => {
                let opened = self.sessions.open(service, &restore.session, false)?;
                Answer::RestorePlanned {
                    replaced: replaced(&opened.open, &restore.path)?,
                    restore,
                }
            }
            Effect::Restore(restore) => {
                let number = restore.version.to_string();
                let path = &restore.path;
                // The program itself refuses links and what is no file.
                let to = format!("--restore={path}");
                let words = ["files", "--version", &number, &to, "--force", "--"];
                self.run_program(&words, &[&restore.session.key, path], "not written")?;
                Answer::Notice(format!("version {number} was written to {path}"))
            }
            Effect::Cost(question) => self.cost(question)?,
            Effect::Check => Answer::Check(self.check()?),
            Effect::Fork { session, message } => {
                let id = service.fork(&session.key, message.as_deref(), None, None)?;
                let id = id.to_string();
                Answer::Forked {
                    session: SessionName {
                        key: id.clone(),
                        id,
                        title: session.title,
                    },
                }
            }
            Effect::Trash(session) => {
                self.sessions.close(&session);
                let item = service.delete(&session.key)?;
                Answer::Trashed {
                    id: item.id,
                    title: match session.title.is_empty() {
                        true => session.id,
                        false => session.title,
                    },
                }
            }
            Effect::Undelete { id, title } => {
                service.undelete(&id)?;
                Answer::Restored { title }
            }
            Effect::Export(session) => self.export(&session)?,
            Effect::Resume(session) => {
                let opened = self.sessions.open(service, &session, true)?;
                Answer::Resume(Box::new(resume(&self.context, &opened.open)?))
            }
            // The loop does the rest.
            _ => return Ok(None),
        };
        Ok(Some(answer))
    }

    /// Lists the newest sessions, or all.
    fn list(&self, limit: Option<usize>) -> Result<Answer> {
        let service = &self.context.service;
        let request = SessionsRequest {
            limit,
            ..SessionsRequest::default()
        };
        let listed = service.sessions(&request)?;
        let rows = listed.rows;
        let recorded = rows.iter().map(|row| &row.info.project);
        let shell_dir = self.context.env.vars.get("PWD").map(String::as_str);
        let here = project_spellings(".", shell_dir, recorded);
        let is_here = |row: &annals::service::SessionRow| {
            here.iter()
                .any(|dir| row.info.matches_project_or_earlier(dir))
        };
        Ok(Answer::Sessions {
            here: rows.iter().map(is_here).collect(),
            total: listed.total,
            rows,
        })
    }

    fn open(&mut self, question: &OpenQuestion) -> Option<Answer> {
        let service = &self.context.service;
        let opened = self
            .sessions
            .open(service, &question.session, question.tail);
        let answer = opened.and_then(|opened| conversation(opened, question));
        Some(match answer {
            Ok(conversation) => Answer::Opened {
                reader: question.reader,
                conversation: Box::new(conversation),
            },
            Err(error) => Answer::ReaderFailed {
                reader: question.reader,
                why: error.to_string(),
            },
        })
    }

    fn cost(&self, question: CostQuestion) -> Result<Answer> {
        let by = question.by.unwrap_or(Dimension::Day);
        let request = CostRequest {
            by: vec![by],
            since: question.since,
            until: question.until,
            project: question.project.clone(),
            model: question.model.clone(),
            top: Some(COST_ROWS),
            ..CostRequest::default()
        };
        let answer = self.context.service.cost(&request)?;
        Ok(Answer::Cost {
            question,
            report: Box::new(summary(&answer)),
        })
    }

    fn check(&self) -> Result<CheckSummary> {
        let result = self.context.service.check(None)?.result;
        let mut rows = Vec::new();
        for report in &result.reports {
            let mut known: Vec<CheckRow> = Vec::new();
            for flaw in &report.flaws {
                let kind = flaw.kind.as_str();
                if let Some(row) = known.iter_mut().find(|row| row.kind == kind) {
                    row.count += 1;
                    continue;
                }
                let path = report.path.display().to_string();
                let command = format!("annals repair {} --apply", shell_word(&path));
                known.push(CheckRow {
                    severity: flaw.kind.severity(),
                    kind,
                    path,
                    line: flaw.span.line,
                    count: 1,
                    advice: report.advice(flaw.kind),
                    command: report.fixable(flaw.kind).then_some(command),
                });
            }
            rows.extend(known);
        }
        rows.sort_by(|a, b| (a.severity, a.kind, &a.path).cmp(&(b.severity, b.kind, &b.path)));
        Ok(CheckSummary {
            lines: result.line_counts().total,
            has_sessions: result.has_sessions,
            unreadable: result.unreadable,
            rows,
        })
    }

    /// Exports with the program itself, so that secrets are masked as its settings say.
    fn export(&self, session: &SessionName) -> Result<Answer> {
        let name = format!("{}.html", annals::view::short_id(&session.id));
        self.run_program(
            &["export", "-o", &name, "--"],
            &[&session.key],
            "not exported",
        )?;
        Ok(Answer::Exported(PathBuf::from(name)))
    }

    /// Runs a command of the program without a terminal.
    fn run_program(&self, words: &[&str], names: &[&str], failed: &str) -> Result<()> {
        let mut program = self.context.program.iter();
        let mut command = Command::new(program.next().cloned().unwrap_or_default());
        command.args(program).args(words).args(names);
        let refused = |why: String| annals::Error::refused(format!("{failed}: {why}"));
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| refused(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let text = annals::text::strip_ansi(&text).into_owned();
        let line = text.lines().next().unwrap_or_default();
        let line = line.strip_prefix("error: ").unwrap_or(line);
        Err(refused(line.to_owned()))
    }
}

/// Returns the command that opens a session in its own program.
fn resume(context: &Context, open: &annals::service::OpenSession) -> Result<Resume> {
    let session = &open.session;
    session.files.refuse_archived()?;
    let root = session.root();
    let cwd = session.working_directory();
    if let Some(cwd) = cwd
        .as_deref()
        .filter(|cwd| !std::path::Path::new(cwd).is_dir())
    {
        return Err(annals::Error::refused(format!(
            "the directory of the session does not exist: {cwd}"
        )));
    }
    let template = context.resume.get(root.layout.name()).map(Vec::as_slice);
    Resume::new(
        root,
        &session.files.id,
        cwd.as_deref(),
        template,
        &context.env,
    )
}

/// Compares a file with its saved versions.
fn replaced(open: &annals::service::OpenSession, path: &str) -> Result<Replaced> {
    let failed = |error| annals::Error::io("read", path, error);
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Replaced::Nothing),
        Err(error) => return Err(failed(error)),
        // A pipe would be waited for.
        Ok(metadata) if !metadata.is_file() => {
            return Err(annals::Error::refused(format!(
                "{path} is not a regular file"
            )));
        }
        Ok(_) => {}
    }
    let content = std::fs::read(path).map_err(failed)?;
    for file in open.files()?.iter().filter(|file| file.path == path) {
        let stored = file.versions.iter().filter(|it| it.stored.is_some());
        for version in stored.filter(|it| it.bytes == Some(content.len() as u64)) {
            if open.file(path, version.version)? == content {
                return Ok(Replaced::Saved);
            }
        }
    }
    Ok(Replaced::Unsaved)
}

/// Returns whether a text of an entry contains `wanted`, which is in lower case.
fn has_text(entry: &Entry, wanted: &str) -> bool {
    let mut found = false;
    let mut check = |text: &str| found = found || text.to_lowercase().contains(wanted);
    match &entry.body {
        Body::Message(message) => {
            for block in &message.blocks {
                if let Block::ToolUse { name, .. } = block {
                    check(name);
                }
                block.visit_texts(&mut check);
            }
        }
        Body::Compaction { text } => check(text),
        _ => {}
    }
    found
}

fn summary(answer: &CostAnswer) -> CostSummary {
    let report = &answer.report;
    let label = |part: &RowPart| match part.dimension {
        Dimension::Session => {
            let label = answer.labels.get(part);
            let title = label.and_then(|label| label.title.clone());
            title.unwrap_or_else(|| "(no title)".to_owned())
        }
        _ => part.label.as_deref().unwrap_or(part.key()).to_owned(),
    };
    let rows = report.rows.iter().map(|row| {
        let part = row.parts.first();
        CostLine {
            key: part.map(|part| part.key().to_owned()).unwrap_or_default(),
            label: part.map(label).unwrap_or_default(),
            cost: row.tally.cost,
            tokens: row.tally.tokens(),
            requests: row.tally.requests,
            unpriced: row.tally.unpriced,
            period: part.and_then(|part| part.period),
        }
    });
    CostSummary {
        rows: rows.collect(),
        total: report.total.cost,
        requests: report.total.requests,
        tokens: report.total.tokens(),
        unpriced: report.total.unpriced,
    }
}
