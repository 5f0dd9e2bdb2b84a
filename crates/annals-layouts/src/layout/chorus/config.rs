//! The configuration: workspaces, their agents, and settings.
//!
//! ```text
//! {"workspaces":[{id,name,path,isExpanded,gitBranch|null,isDirty,hasSystemPrompt,
//!                 agents:[{id,name,filePath,workspaceId}]}],
//!  "settings":{rootWorkspaceDir|null,theme:"dark"|"light",chatSidebarCollapsed,chatSidebarWidth}}
//! ```
//!
//! Decoding is lenient; `edit.rs` changes only what it must and keeps every other byte.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_json::Value;

use crate::Subject;
use crate::error::{Error, Result};
use crate::json::{Flag, Raw, Text, describe_json_error, object};
use crate::model::{ListRow, ListSubject};

use super::documents::fault;
use super::json_array::{JsonArray, document_text};
use super::path::{CONFIG, is_safe_name};

pub(super) const WORKSPACES: &str = "workspaces";

object! {
    struct Document<'a> {
        "workspaces" => workspaces: Raw<'a>,
        "settings" => settings: Raw<'a>,
    }
}
object! {
    struct WorkspaceRow<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "path" => path: Text<'a>,
        "isExpanded" => expanded: Flag,
        "gitBranch" => git_branch: Text<'a>,
        "isDirty" => dirty: Flag,
        "hasSystemPrompt" => system_prompt: Flag,
        "agents" => agents: Raw<'a>,
    }
}
object! {
    struct AgentRow<'a> {
        "id" => id: Text<'a>,
        "name" => name: Text<'a>,
        "filePath" => file: Text<'a>,
    }
}
object! {
    struct SettingsRow<'a> {
        "rootWorkspaceDir" => root: Text<'a>,
        "theme" => theme: Text<'a>,
        "chatSidebarCollapsed" => collapsed: Flag,
        "chatSidebarWidth" => width: Raw<'a>,
    }
}

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The workspaces, in file order.
    pub workspaces: Vec<Workspace>,
    /// The settings.
    pub settings: Settings,
}

/// A directory that agents work in.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Workspace {
    /// Its id, which is a folder name.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The directory.
    pub path: Option<String>,
    /// It is shown expanded.
    pub expanded: bool,
    /// The git branch.
    pub git_branch: Option<String>,
    /// It has uncommitted changes.
    pub dirty: bool,
    /// It has its own system prompt.
    pub system_prompt: bool,
    /// The agents that work there.
    pub agents: Vec<Agent>,
}

impl Workspace {
    /// The members that can be set, with their names in the configuration.
    pub const KEYS: [&'static str; 6] = [
        "name",
        "path",
        "isExpanded",
        "gitBranch",
        "isDirty",
        "hasSystemPrompt",
    ];
}

/// An agent of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Agent {
    /// Its id, which is a folder name.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The file that describes it.
    pub file: Option<String>,
}

impl Agent {
    /// The members that can be set, with their names in the configuration.
    pub const KEYS: [&'static str; 2] = ["name", "filePath"];
}

/// Settings of the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Directory for new workspaces.
    #[serde(rename = "rootWorkspaceDir")]
    pub root_workspace_dir: Option<String>,
    /// `dark` or `light`.
    pub theme: String,
    /// The conversation list is hidden.
    #[serde(rename = "chatSidebarCollapsed")]
    pub chat_sidebar_collapsed: bool,
    /// Width of the conversation list.
    #[serde(rename = "chatSidebarWidth")]
    pub chat_sidebar_width: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            root_workspace_dir: None,
            theme: "dark".to_owned(),
            chat_sidebar_collapsed: false,
            chat_sidebar_width: 240,
        }
    }
}

impl Settings {
    /// All settings, with their names in the configuration.
    pub const KEYS: [&'static str; 4] = [
        "rootWorkspaceDir",
        "theme",
        "chatSidebarCollapsed",
        "chatSidebarWidth",
    ];

    /// Returns the value of a setting as JSON.
    pub fn get(&self, key: &str) -> Result<String> {
        let value = match key {
            "rootWorkspaceDir" => Value::from(self.root_workspace_dir.clone()),
            "theme" => Value::from(self.theme.as_str()),
            "chatSidebarCollapsed" => Value::from(self.chat_sidebar_collapsed),
            "chatSidebarWidth" => Value::from(self.chat_sidebar_width),
            _ => return Err(unknown_setting(key)),
        };
        Ok(value.to_string())
    }
}

impl Config {
    /// Decodes a configuration. Members of the wrong type count as absent, unknown ones are
    /// skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let document = document_text(bytes);
        check(&document)?;
        let read: Document<'_> = serde_json::from_str(&document).unwrap_or_default();
        let workspaces = read.workspaces.list().into_iter().map(decode_workspace);
        let settings: SettingsRow<'_> = read.settings.parse();
        let usual = Settings::default();
        Ok(Config {
            workspaces: workspaces.collect(),
            settings: Settings {
                root_workspace_dir: settings.root.non_empty().map(str::to_owned),
                theme: match settings.theme.get() {
                    Some(theme @ ("dark" | "light")) => theme.to_owned(),
                    _ => usual.theme,
                },
                chat_sidebar_collapsed: settings.collapsed.0,
                chat_sidebar_width: match settings.width.count() {
                    Ok(Some(width)) => width,
                    _ => usual.chat_sidebar_width,
                },
            },
        })
    }

    /// Describes why the program cannot read a configuration: it is not a JSON object, or a list or
    /// object in it has another type. An empty file is no damage.
    pub fn damage(bytes: &[u8]) -> Option<String> {
        if bytes.is_empty() {
            return None;
        }
        let document = document_text(bytes);
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&document) {
            return Some(describe_json_error(&error));
        }
        if !document.trim_start().starts_with('{') {
            return Some("it is not an object".to_owned());
        }
        let read: Document<'_> = serde_json::from_str(&document).unwrap_or_default();
        if read.workspaces.is_some() && !read.workspaces.is_list() {
            return Some(format!("`{WORKSPACES}` is not a list"));
        }
        let settings = read.settings.0.filter(|_| read.settings.is_some());
        if settings.is_some_and(|settings| !settings.starts_with('{')) {
            return Some("`settings` is not an object".to_owned());
        }
        read.workspaces.list().into_iter().find_map(|row| {
            let row: WorkspaceRow<'_> = row.parse();
            let is_wrong = row.agents.is_some() && !row.agents.is_list();
            let id = row.id.or_empty().escape_debug();
            is_wrong.then(|| format!("`agents` of workspace `{id}` is not a list"))
        })
    }

    /// Returns the workspace of a directory, if there is one.
    pub fn workspace_at(&self, directory: &str) -> Option<&Workspace> {
        let at = |workspace: &&Workspace| workspace.path.as_deref() == Some(directory);
        self.workspaces.iter().find(at)
    }

    /// Returns the workspace with the given id.
    pub fn workspace(&self, id: &str) -> Result<&Workspace> {
        let mut found = self
            .workspaces
            .iter()
            .filter(|workspace| workspace.id == id);
        let first = found.next().ok_or_else(|| Error::NotFound {
            what: Subject::Workspace,
            id: id.to_owned(),
        })?;
        match found.next() {
            None => Ok(first),
            Some(_) => Err(Error::refused(format!(
                "two workspaces in {CONFIG} have the id `{id}`; change one of them by hand"
            ))),
        }
    }

    /// Resolves an id or a name to the id of a workspace. A text that is neither is returned
    /// unchanged.
    pub fn workspace_id(&self, wanted: &str) -> Result<String> {
        let known = self.workspaces.iter();
        let known = known.map(|one| (one.id.as_str(), one.name.as_str(), one.path.as_deref()));
        resolve_id(Subject::Workspace, wanted, known)
    }

    /// Returns the rows for session folders, and collects faults.
    pub(super) fn list_rows(bytes: &[u8], faults: &mut Vec<String>) -> Vec<ListRow> {
        let config = match Config::decode(bytes) {
            Ok(config) => config,
            Err(_) => {
                faults.push(fault(&document_text(bytes), WORKSPACES));
                return Vec::new();
            }
        };
        if JsonArray::find(&document_text(bytes), WORKSPACES).is_none() {
            faults.push(format!("it has no list `{WORKSPACES}`"));
        }
        let mut abouts = Vec::new();
        let mut seen = HashSet::new();
        for workspace in config.workspaces {
            let id = &workspace.id;
            if id.is_empty() {
                faults.push("a workspace has no id".to_owned());
                continue;
            }
            if !is_safe_name(id) {
                faults.push(format!("a workspace id is not a valid folder name: {id:?}"));
                continue;
            }
            if !seen.insert(id.clone()) {
                faults.push(format!("duplicate workspace id `{id}`"));
                continue;
            }
            let mut about = ListRow::new(ListSubject::Folder(id.clone()));
            about.title = Some(workspace.name).filter(|name| !name.is_empty());
            about.attributes = name_attributes("workspace", id, about.title.as_deref());
            about.cwd = workspace.path;
            about.git_branch = workspace.git_branch;
            abouts.push(about);
            for agent in workspace
                .agents
                .into_iter()
                .filter(|agent| is_safe_name(&agent.id))
            {
                let folder = format!("{id}/{}", agent.id);
                let mut about = ListRow::new(ListSubject::Folder(folder));
                about.title = Some(agent.name).filter(|name| !name.is_empty());
                about.attributes = name_attributes("agent", &agent.id, about.title.as_deref());
                abouts.push(about);
            }
        }
        abouts
    }
}

/// Returns the session attributes of a workspace or an agent.
fn name_attributes(what: &str, id: &str, name: Option<&str>) -> BTreeMap<String, String> {
    let id = (what.to_owned(), id.to_owned());
    let name = name.map(|name| (format!("{what}_name"), name.to_owned()));
    std::iter::once(id).chain(name).collect()
}

impl Workspace {
    /// Resolves an id or a name to the id of an agent. A text that is neither is returned
    /// unchanged.
    pub fn agent_id(&self, wanted: &str) -> Result<String> {
        let known = self.agents.iter();
        let known = known.map(|one| (one.id.as_str(), one.name.as_str(), one.file.as_deref()));
        resolve_id(Subject::Agent, wanted, known)
    }
}

/// Resolves an id or a unique name to an id. Each item is an id, a name and a path.
fn resolve_id<'a>(
    what: Subject,
    wanted: &str,
    known: impl Iterator<Item = (&'a str, &'a str, Option<&'a str>)> + Clone,
) -> Result<String> {
    if known.clone().any(|(id, _, _)| id == wanted) {
        return Ok(wanted.to_owned());
    }
    let named: Vec<_> = known.filter(|(_, name, _)| *name == wanted).collect();
    match named.as_slice() {
        [] => Ok(wanted.to_owned()),
        [(id, _, _)] => Ok((*id).to_owned()),
        many => Err(Error::Ambiguous {
            what,
            id: wanted.to_owned(),
            candidates: many
                .iter()
                .map(|(id, _, path)| format!("{id}  {}", path.unwrap_or_default()))
                .collect(),
        }),
    }
}

fn decode_workspace(row: Raw<'_>) -> Workspace {
    let row: WorkspaceRow<'_> = row.parse();
    let owned = |text: &Text<'_>| text.or_empty().to_owned();
    let agent = |row: Raw<'_>| {
        let row: AgentRow<'_> = row.parse();
        Agent {
            id: owned(&row.id),
            name: owned(&row.name),
            file: row.file.non_empty().map(str::to_owned),
        }
    };
    Workspace {
        id: owned(&row.id),
        name: owned(&row.name),
        path: row.path.non_empty().map(str::to_owned),
        expanded: row.expanded.0,
        git_branch: row.git_branch.non_empty().map(str::to_owned),
        dirty: row.dirty.0,
        system_prompt: row.system_prompt.0,
        agents: row.agents.list().into_iter().map(agent).collect(),
    }
}

fn check(document: &str) -> Result<()> {
    let object = document.trim_start().starts_with('{');
    match serde_json::from_str::<serde::de::IgnoredAny>(document) {
        Ok(_) if object => Ok(()),
        Ok(_) => Err(damaged("cannot be read: it is not an object")),
        Err(error) => Err(damaged(format!(
            "cannot be read: {}",
            describe_json_error(&error)
        ))),
    }
}

/// Error for a configuration that cannot be read or changed.
pub(super) fn damaged(why: impl Into<String>) -> Error {
    Error::Damaged {
        file: CONFIG.to_owned(),
        why: why.into(),
    }
}

pub(super) fn unknown_setting(key: &str) -> Error {
    let shown: String = key.chars().take(40).flat_map(char::escape_debug).collect();
    Error::refused(format!(
        "unknown setting `{shown}`; known settings: {}",
        Settings::KEYS.join(", ")
    ))
}
