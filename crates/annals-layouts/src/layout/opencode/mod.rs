//! The layout of OpenCode: a database, which is written too, and the files of older versions, read-only.
//!
//! ```text
//! opencode.db (-wal, -shm)       everything, from version 1.2 on: an SQLite database in WAL mode
//! storage/session, message, part sessions of older versions, one JSON file per record (`tree`)
//! storage/todo/<session>.json    todos of older versions
//! annals/<session>/              what the session was converted from (`own_files`)
//! snapshot/, log/ …              not read: file snapshots and outputs
//! ```
//!
//! Tables that are read (`rows`):
//!
//! | table | columns |
//! |---|---|
//! | `session` | `id`, `parent_id` (session that a sub-agent works for), `directory`, `title`, `version`, `agent`, `revert` (JSON with the `messageID` from which on the messages are reverted), `time_created` |
//! | `message` | `id`, `session_id`, `time_created`, `data` (JSON) |
//! | `part` | `id`, `message_id`, `data` (JSON) |
//! | `todo` | all, if there is such a table |
//!
//! `message.data` of a prompt is `{role: "user", time, agent, model}`; of a reply `{role: "assistant", path
//! {cwd}, modelID, cost, tokens {input, output, reasoning, cache {read, write}}, finish, error?,
//! summary?}`. `input` excludes the cache, `output` excludes `reasoning`. Types of `part.data`:
//!
//! | type | meaning |
//! |---|---|
//! | `text`, `reasoning` | text of the message; `synthetic` text was added by the program |
//! | `tool` | a call and its result: `{tool, callID, state {status, input, output, error, metadata}}` |
//! | `compaction` | the program summarises everything before this message |
//! | `file` | a file attached to the prompt: `{mime, url, filename}` |
//! | `step-start`, `step-finish`, `patch`, `snapshot`, … | not shown; `step-finish` repeats the tokens of its message |
//!
//! Messages form one line, ordered by time. A fork copies messages with their times and tokens under
//! new ids, so a response is identified by time, model and tokens. The tables `account`,
//! `control_account` and `credential` hold secrets, so the database is never copied.

//!
//! Each session is presented as a file: `opencode.db/SESSION`, and `opencode.db/SESSION/AGENT` for that
//! of a sub-agent. So a command reads the rows of the sessions that it needs, and no others.

mod decode;
mod rows;
mod statements;
mod tree;
mod write;

use std::path::{Path, PathBuf};

use crate::model::{AgentId, Artifact, ArtifactKind, EntryKey, Framing, SessionId};

use super::opaque::OpaqueDecoder;
use super::todos::TodosDecoder;
use super::{
    AGENT_SEPARATOR, Decoder, Env, Layout, LayoutChecks, LayoutSpec, Writer, own_files, path_parts,
};

/// The layout of OpenCode.
#[derive(Debug)]
pub struct OpenCode;

/// Name of the database.
const DATABASE: &str = "opencode.db";

static SPEC: LayoutSpec = LayoutSpec {
    limits: Some(
        "annals adds messages, titles, notes, tags, todos, forks and sub-agents to OpenCode's database, and changes neither the rest of it nor \
         the JSON files of older versions: `opencode session delete ID` deletes a session, `annals export ID` copies one",
    ),
    ..LayoutSpec::new("opencode")
};

impl Layout for OpenCode {
    fn spec(&self) -> &'static LayoutSpec {
        &SPEC
    }

    fn roots(&self, env: &Env) -> Vec<PathBuf> {
        let set = |name: &str| env.vars.get(name).filter(|value| !value.is_empty());
        let named = set("OPENCODE_DB").map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute() && path.ends_with(DATABASE));
        if let Some(directory) = named.as_deref().and_then(Path::parent) {
            return vec![directory.to_owned()];
        }
        let data = set("XDG_DATA_HOME").map(PathBuf::from);
        let data = data.or_else(|| Some(env.home.as_ref()?.join(".local/share")));
        data.iter().map(|data| data.join("opencode")).collect()
    }

    fn matches_root(&self, names: &[&str]) -> bool {
        const OWN: [&str; 4] = ["snapshot", "log", "tool-output", "auth.json"];
        let own = names.iter().any(|name| OWN.contains(name));
        names.contains(&DATABASE) || names.contains(&"storage") && own
    }

    fn may_hold_files(&self, path: &Path) -> bool {
        match *path_parts(path).unwrap_or_default().as_slice() {
            [DATABASE, ..] | ["storage"] | ["storage", "session" | "todo"] => true,
            ["storage", "session", project] => is_name(project),
            _ => own_files::may_hold_files(path),
        }
    }

    fn may_hold_logs(&self, path: &Path) -> bool {
        self.may_hold_files(path) && !path.ends_with("todo") && !own_files::may_hold_files(path)
    }

    fn classify(&self, path: &Path) -> Option<Artifact> {
        let (session, agent) = match *path_parts(path)?.as_slice() {
            [DATABASE] => {
                return Some(Artifact {
                    framing: Framing::Rows(&rows::FORMAT),
                    ..Artifact::new(ArtifactKind::SharedLog)
                });
            }
            [DATABASE, session] => (session, None),
            [DATABASE, session, agent] => (session, Some(agent)),
            ["storage", "session", project, file] if is_name(project) => {
                return Some(Artifact {
                    session: Some(SessionId::new(file.strip_suffix(".json")?).ok()?),
                    name: Some(project.to_owned()),
                    framing: Framing::Files(&tree::SESSION),
                    ..Artifact::new(ArtifactKind::SharedLog)
                });
            }
            ["storage", "todo", file] => {
                return Some(Artifact {
                    session: Some(SessionId::new(file.strip_suffix(".json")?).ok()?),
                    ..Artifact::new(ArtifactKind::Todos)
                });
            }
            _ => {
                // A whole root is not converted into a database, and its sessions have todos and sub-agents.
                let is_origin =
                    |own: &Artifact| own.kind == ArtifactKind::Origin && own.session.is_some();
                return own_files::classify(path).filter(is_origin);
            }
        };
        let agent = agent.map(AgentId::new).transpose().ok()?;
        let session = SessionId::new(session).ok()?;
        Some(session_artifact(Some(session), agent))
    }

    fn path_for(&self, artifact: &Artifact) -> PathBuf {
        let path = PathBuf::from(DATABASE);
        let session = artifact.session.as_ref().map(|id| path.join(id.as_str()));
        let id = artifact.session.as_ref().map(SessionId::as_str);
        match (artifact.kind, id, &artifact.name) {
            (ArtifactKind::SharedLog, Some(id), Some(project)) => {
                return format!("storage/session/{project}/{id}.json").into();
            }
            (ArtifactKind::Todos, Some(id), _) => return format!("storage/todo/{id}.json").into(),
            (ArtifactKind::Origin, ..) => return own_files::path_for(artifact).unwrap_or_default(),
            _ => {}
        }
        match (artifact.kind, session, &artifact.agent) {
            (ArtifactKind::SharedLog, None, _) => path,
            (ArtifactKind::SessionLog, Some(session), _) => session,
            (ArtifactKind::AgentLog, Some(session), Some(agent)) => session.join(agent.as_str()),
            // The layout has no such files.
            _ => PathBuf::new(),
        }
    }

    fn folder(&self, _: &str) -> Option<String> {
        None
    }

    fn decoder(&self, artifact: &Artifact) -> Box<dyn Decoder> {
        match artifact.kind {
            kind if kind.is_conversation() => match artifact.framing {
                Framing::Files(_) => Box::new(tree::TreeDecoder),
                _ => Box::new(decode::RowDecoder),
            },
            ArtifactKind::Todos => Box::new(TodosDecoder),
            _ => Box::new(OpaqueDecoder),
        }
    }

    fn writer(&self) -> Option<&dyn Writer> {
        None
    }

    fn row_writer(&self) -> Option<&dyn Writer> {
        Some(self)
    }

    fn checks(&self) -> &dyn LayoutChecks {
        self
    }
}

/// Returns the artifact of the session with a name in the records. An id that cannot be one is
/// replaced.
fn artifact(name: &str) -> Artifact {
    let parts = name.rsplit_once(AGENT_SEPARATOR);
    let parts = parts.and_then(|(session, agent)| {
        Some((SessionId::new(session).ok()?, AgentId::new(agent).ok()?))
    });
    match parts {
        Some((session, agent)) => session_artifact(Some(session), Some(agent)),
        None => {
            let other = || {
                SessionId::new(&format!(
                    "session-{}",
                    EntryKey::from_text(name).derived_uuid()
                ))
            };
            session_artifact(SessionId::new(name).or_else(|_| other()).ok(), None)
        }
    }
}

fn session_artifact(session: Option<SessionId>, agent: Option<AgentId>) -> Artifact {
    let kind = match agent {
        Some(_) => ArtifactKind::AgentLog,
        None => ArtifactKind::SessionLog,
    };
    Artifact {
        session,
        agent,
        framing: Framing::Rows(&rows::FORMAT),
        ..Artifact::new(kind)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('\0')
}

impl LayoutChecks for OpenCode {
    fn is_program_file(&self, path: &Path) -> bool {
        matches!(
            *path_parts(path).unwrap_or_default().as_slice(),
            ["opencode.db-wal" | "opencode.db-shm" | "auth.json" | "mcp-auth.json"]
                | [
                    "storage" | "snapshot" | "log" | "tool-output" | "repos" | "bin" | "worktree",
                    ..,
                ]
        )
    }
}
