//! Edits of the configuration. All other bytes are kept.

use std::collections::HashSet;

use crate::Subject;
use crate::error::{Error, Result};
use crate::json::{self, Raw, Text, object};
use crate::layout::RowUpdate;

use super::config::{Config, Settings, WORKSPACES, damaged, unknown_setting};
use super::documents::fault;
use super::json_array::{self, JsonArray, RowEdit, is_multiline, split_bom};
use super::path::{is_safe_name, workspace_id};

object! {
    struct Document<'a> {
        "workspaces" => workspaces: Raw<'a>,
        "settings" => settings: Raw<'a>,
    }
}
object! {
    struct RowId<'a> { "id" => id: Text<'a>, }
}

/// An edit of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigEdit {
    /// Adds a workspace.
    AddWorkspace {
        /// Its id; derived from its directory if `None`.
        id: Option<String>,
        /// Its name; the last component of its directory if `None`.
        name: Option<String>,
        /// The absolute directory.
        path: String,
    },
    /// Renames a workspace.
    RenameWorkspace {
        /// The workspace's id.
        id: String,
        /// The new name.
        name: String,
    },
    /// Sets a member of a workspace.
    SetWorkspace {
        /// The workspace's id.
        id: String,
        /// The member, as listed in [`Workspace::KEYS`](super::Workspace::KEYS).
        key: String,
        /// Its value: a text, `true` or `false`; an empty `gitBranch` means none.
        value: String,
    },
    /// Removes a workspace and its agents.
    RemoveWorkspace {
        /// The workspace's id.
        id: String,
    },
    /// Adds an agent to a workspace.
    AddAgent {
        /// The workspace's id.
        workspace: String,
        /// Its id; derived from its name if `None`.
        id: Option<String>,
        /// Its name.
        name: String,
        /// The file that describes it; one in the workspace if `None`.
        file: Option<String>,
    },
    /// Renames an agent.
    RenameAgent {
        /// The workspace's id.
        workspace: String,
        /// The agent's id.
        id: String,
        /// The new name.
        name: String,
    },
    /// Sets a member of an agent.
    SetAgent {
        /// The workspace's id.
        workspace: String,
        /// The agent's id.
        id: String,
        /// The member, as listed in [`Agent::KEYS`](super::Agent::KEYS).
        key: String,
        /// Its value.
        value: String,
    },
    /// Restores a removed workspace or agent with its exact text. One that exists again stays
    /// unchanged.
    Restore {
        /// The agent's workspace; `None` to restore a workspace.
        workspace: Option<String>,
        /// The removed entry.
        text: String,
    },
    /// Removes an agent.
    RemoveAgent {
        /// The workspace's id.
        workspace: String,
        /// The agent's id.
        id: String,
    },
    /// Changes a setting.
    Set {
        /// The setting's name.
        key: String,
        /// Its value: a text, a number, `true` or `false`; an empty `rootWorkspaceDir` means none.
        value: String,
    },
}

impl ConfigEdit {
    /// Adds a workspace for an absolute directory.
    pub fn add_workspace(id: impl Into<String>, path: impl Into<String>) -> Self {
        ConfigEdit::AddWorkspace {
            id: Some(id.into()),
            name: None,
            path: path.into(),
        }
    }

    /// Adds an agent to a workspace.
    pub fn add_agent(
        workspace: impl Into<String>,
        id: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        ConfigEdit::AddAgent {
            workspace: workspace.into(),
            id: Some(id.into()),
            name: name.into(),
            file: None,
        }
    }
}

impl Config {
    /// Applies an edit to the configuration and keeps all other bytes. `old` is `None` if there is
    /// no configuration yet.
    pub fn edit(old: Option<&[u8]>, edit: &ConfigEdit) -> Result<Vec<u8>> {
        let fresh = default_config();
        let old = match old {
            None => fresh.as_str(),
            Some(bytes) => std::str::from_utf8(bytes)
                .map_err(|_| damaged("cannot be read: it is not UTF-8"))?,
        };
        let (mark, body) = split_bom(old);
        let config = Config::decode(body.as_bytes())?;
        let editor = Editor { body, config };
        let new = match edit {
            ConfigEdit::AddWorkspace { id, name, path } => {
                editor.add_workspace(id.as_deref(), name.as_deref(), path)
            }
            ConfigEdit::RenameWorkspace { id, name } => {
                let name = checked_name(name)?;
                editor.edit_workspace(id, |row| {
                    Ok(RowEdit::Replace(set(row, &[("name", &json::quote(name))])?))
                })
            }
            ConfigEdit::SetWorkspace { id, key, value } => {
                let (key, value) = workspace_member(key, value)?;
                editor.edit_workspace(id, |row| Ok(RowEdit::Replace(set(row, &[(key, &value)])?)))
            }
            ConfigEdit::SetAgent {
                workspace,
                id,
                key,
                value,
            } => {
                let (key, value) = agent_member(key, value)?;
                editor.edit_agent(workspace, id, |row| {
                    Ok(RowEdit::Replace(set(row, &[(key, &value)])?))
                })
            }
            ConfigEdit::Restore { workspace, text } => editor.restore(workspace.as_deref(), text),
            ConfigEdit::RemoveWorkspace { id } => {
                editor.edit_workspace(id, |_| Ok(RowEdit::Remove))
            }
            ConfigEdit::AddAgent {
                workspace,
                id,
                name,
                file,
            } => editor.add_agent(workspace, id.as_deref(), name, file.as_deref()),
            ConfigEdit::RenameAgent {
                workspace,
                id,
                name,
            } => {
                let name = checked_name(name)?;
                editor.edit_agent(workspace, id, |row| {
                    Ok(RowEdit::Replace(set(row, &[("name", &json::quote(name))])?))
                })
            }
            ConfigEdit::RemoveAgent { workspace, id } => {
                editor.edit_agent(workspace, id, |_| Ok(RowEdit::Remove))
            }
            ConfigEdit::Set { key, value } => editor.set(key, value),
        }?;
        Ok(format!("{mark}{new}").into_bytes())
    }

    /// Returns the exact text of the entry of a workspace (`WORKSPACE`) or an agent
    /// (`WORKSPACE/AGENT`).
    pub fn config_entry(bytes: &[u8], folder: &str) -> Option<String> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (workspace, agent) = match folder.split_once('/') {
            Some((workspace, agent)) => (workspace, Some(agent)),
            None => (folder, None),
        };
        let of = |list: &JsonArray<'_>, id: &str| {
            let mut rows = list.rows();
            let row = rows.find(|row| row_id(row).as_deref() == Some(id))?;
            Some(row.to_owned())
        };
        let row = of(&JsonArray::find(split_bom(text).1, WORKSPACES)?, workspace)?;
        match agent {
            None => Some(row),
            Some(agent) => of(&JsonArray::find(&row, "agents")?, agent),
        }
    }

    /// Returns the exact text of an agent's entry within that of its workspace.
    pub fn agent_in(workspace: &str, agent: &str) -> Option<String> {
        let agents = JsonArray::find(workspace, "agents")?;
        let mut rows = agents.rows();
        let row = rows.find(|row| row_id(row).as_deref() == Some(agent))?;
        Some(row.to_owned())
    }

    /// Adds the workspaces and agents of the folders that contain the given logs. `None` if it has
    /// them all, or if it is damaged and must not be written.
    pub(super) fn register_folders(old: Option<&[u8]>, rows: &[RowUpdate]) -> Option<Vec<u8>> {
        let fresh = default_config();
        let old = match old {
            None | Some([]) => fresh.as_str(),
            Some(bytes) => std::str::from_utf8(bytes).ok()?,
        };
        let (mark, body) = split_bom(old);
        let mut new = body.to_owned();
        let mut seen = HashSet::new();
        for row in rows.iter().filter(|row| !row.removed) {
            let folder = row.log.as_ref().and_then(|log| log.folder.as_deref());
            let parts = folder.and_then(|folder| folder.split_once('/'));
            let Some((workspace, agent)) = parts.filter(|parts| seen.insert(*parts)) else {
                continue;
            };
            // A folder that cannot be added does not prevent the others.
            if let Ok(edited) = register_folder(&new, workspace, agent, row) {
                new = edited;
            }
        }
        (new != body).then(|| format!("{mark}{new}").into_bytes())
    }
}

/// Returns a configuration with the given workspace and agent.
fn register_folder(body: &str, workspace: &str, agent: &str, row: &RowUpdate) -> Result<String> {
    let config = Config::decode(body.as_bytes())?;
    let mut same = config
        .workspaces
        .iter()
        .filter(|known| known.id == workspace);
    let mut agents = same.clone().flat_map(|known| &known.agents);
    if agents.any(|known| known.id == agent) {
        return Ok(body.to_owned());
    }
    let inserted;
    let body = match (same.next(), &row.cwd) {
        (Some(_), _) => body,
        (None, Some(cwd)) => {
            let editor = Editor { body, config };
            inserted = editor.insert_workspace(workspace, None, cwd, row.git_branch.as_deref())?;
            inserted.as_str()
        }
        (None, None) => return Ok(body.to_owned()),
    };
    let config = Config::decode(body.as_bytes())?;
    Editor { body, config }.add_agent(workspace, Some(agent), agent, Some(""))
}

/// Applies one edit.
struct Editor<'a> {
    body: &'a str,
    config: Config,
}

impl Editor<'_> {
    fn list(&self) -> Result<JsonArray<'_>> {
        JsonArray::find(self.body, WORKSPACES)
            .ok_or_else(|| damaged(format!("is damaged: {}", fault(self.body, WORKSPACES))))
    }

    fn add_workspace(&self, id: Option<&str>, name: Option<&str>, path: &str) -> Result<String> {
        if let Some(there) = self.config.workspace_at(path) {
            let id = &there.id;
            return Err(Error::refused(format!(
                "workspace `{id}` already has the path {path}"
            )));
        }
        let id = id.map_or_else(|| workspace_id(path), str::to_owned);
        self.insert_workspace(&id, name, path, None)
    }

    /// Adds a workspace even if there is another one for its directory.
    fn insert_workspace(
        &self,
        id: &str,
        name: Option<&str>,
        path: &str,
        git_branch: Option<&str>,
    ) -> Result<String> {
        if !path.starts_with('/') && !path.contains(":\\") {
            return Err(Error::refused(format!("`{path}` is not an absolute path")));
        }
        check_id("workspace", id)?;
        if self.config.workspaces.iter().any(|known| known.id == id) {
            return Err(Error::refused(format!("workspace `{id}` already exists")));
        }
        let last = path.trim_end_matches(['/', '\\']);
        let last = last.rsplit(['/', '\\']).next().unwrap_or(last);
        let name = checked_name(name.unwrap_or(if last.is_empty() { path } else { last }))?;
        let members = [
            ("id", json::quote(id)),
            ("name", json::quote(name)),
            ("path", json::quote(path)),
            ("isExpanded", "true".to_owned()),
            (
                "gitBranch",
                git_branch.map_or("null".to_owned(), json::quote),
            ),
            ("isDirty", "false".to_owned()),
            ("hasSystemPrompt", "false".to_owned()),
            ("agents", "[]".to_owned()),
        ];
        let row = json_array::object(&members, is_multiline(self.body), 4);
        let row = json_array::indented_like(self.body, row);
        if Document::parse(self.body).workspaces.is_some() {
            return Ok(self.list()?.apply(&[], &[row], 4));
        }
        set(self.body, &[(WORKSPACES, &format!("[{row}]"))])
    }

    /// Edits the workspace with the given id.
    fn edit_workspace(
        &self,
        id: &str,
        change: impl FnOnce(&str) -> Result<RowEdit>,
    ) -> Result<String> {
        self.config.workspace(id)?;
        edit_row(&self.list()?, id, change, 4)
    }

    fn add_agent(
        &self,
        workspace: &str,
        id: Option<&str>,
        name: &str,
        file: Option<&str>,
    ) -> Result<String> {
        let name = checked_name(name)?;
        let home = self.config.workspace(workspace)?;
        let id = id.map_or_else(|| slug(name), str::to_owned);
        if id.is_empty() {
            return Err(Error::refused(format!(
                "cannot derive an id from the name `{name}`; pass an id"
            )));
        }
        check_id("agent", &id)?;
        if home.agents.iter().any(|known| known.id == id) {
            return Err(Error::refused(format!(
                "workspace `{workspace}` already has an agent `{id}`"
            )));
        }
        let path = home.path.as_deref().unwrap_or_default();
        let file = file.map_or_else(|| format!("{path}/.claude/agents/{id}.md"), str::to_owned);
        let members = [
            ("id", json::quote(&id)),
            ("name", json::quote(name)),
            ("filePath", json::quote(&file)),
            ("workspaceId", json::quote(workspace)),
        ];
        let row = json_array::object(&members, is_multiline(self.body), 8);
        let row = json_array::indented_like(self.body, row);
        self.edit_workspace(workspace, |text| {
            Ok(RowEdit::Replace(match JsonArray::find(text, "agents") {
                Some(agents) => agents.apply(&[], &[row], 8),
                None => set(text, &[("agents", &format!("[{row}]"))])?,
            }))
        })
    }

    /// Edits the agent with the given id.
    fn edit_agent(
        &self,
        workspace: &str,
        id: &str,
        change: impl FnOnce(&str) -> Result<RowEdit>,
    ) -> Result<String> {
        let missing = || Error::NotFound {
            what: Subject::Agent,
            id: format!("{workspace}/{id}"),
        };
        self.edit_workspace(workspace, |text| {
            let agents = JsonArray::find(text, "agents").ok_or_else(missing)?;
            let same = |row: &&str| row_id(row).as_deref() == Some(id);
            match agents.rows().filter(same).count() {
                0 => Err(missing()),
                1 => Ok(RowEdit::Replace(edit_row(&agents, id, change, 8)?)),
                _ => Err(Error::refused(format!(
                    "two agents of workspace `{workspace}` have the id `{id}`; change one of them by hand"
                ))),
            }
        })
    }

    /// Restores a removed entry.
    fn restore(&self, workspace: Option<&str>, text: &str) -> Result<String> {
        let unusable = || Error::refused("a removed entry has no valid id and cannot be restored");
        let id = row_id(text)
            .filter(|id| is_safe_name(id))
            .ok_or_else(unusable)?;
        let Some(workspace) = workspace else {
            let known = |known: &super::Workspace| known.id == id;
            return match self.config.workspaces.iter().any(known) {
                true => Ok(self.body.to_owned()),
                false if Document::parse(self.body).workspaces.is_some() => {
                    Ok(self.list()?.apply(&[], &[text.to_owned()], 4))
                }
                false => set(self.body, &[(WORKSPACES, &format!("[{text}]"))]),
            };
        };
        let home = self.config.workspace(workspace)?;
        if home.agents.iter().any(|known| known.id == id) {
            return Ok(self.body.to_owned());
        }
        self.edit_workspace(workspace, |row| {
            Ok(RowEdit::Replace(match JsonArray::find(row, "agents") {
                Some(agents) => agents.apply(&[], &[text.to_owned()], 8),
                None => set(row, &[("agents", &format!("[{text}]"))])?,
            }))
        })
    }

    fn set(&self, key: &str, value: &str) -> Result<String> {
        let refused = |wants: &str| {
            Err(Error::refused(format!(
                "{key} must be {wants}, not `{value}`"
            )))
        };
        let value = match (key, value) {
            ("theme", "dark" | "light") => json::quote(value),
            ("theme", _) => return refused("`dark` or `light`"),
            ("chatSidebarCollapsed", "true" | "false") => value.to_owned(),
            ("chatSidebarCollapsed", _) => return refused("`true` or `false`"),
            ("chatSidebarWidth", _) => match value.parse::<u32>() {
                Ok(width) => width.to_string(),
                Err(_) => return refused("a whole number"),
            },
            ("rootWorkspaceDir", "") => "null".to_owned(),
            ("rootWorkspaceDir", _) => json::quote(value),
            _ => return Err(unknown_setting(key)),
        };
        let settings = Document::parse(self.body).settings.0;
        let settings = settings.filter(|raw| raw.starts_with('{')).unwrap_or("{}");
        let settings = set(settings, &[(key, &value)])?;
        set(self.body, &[("settings", &settings)])
    }
}

/// Converts a member of a workspace and its value to JSON.
fn workspace_member<'a>(key: &'a str, value: &str) -> Result<(&'a str, String)> {
    let json = match (key, value) {
        ("isExpanded" | "isDirty" | "hasSystemPrompt", "true" | "false") => value.to_owned(),
        ("isExpanded" | "isDirty" | "hasSystemPrompt", _) => {
            return Err(Error::refused(format!(
                "{key} must be `true` or `false`, not `{value}`"
            )));
        }
        ("gitBranch", "") => "null".to_owned(),
        ("gitBranch", _) => json::quote(value),
        ("name", _) => json::quote(checked_name(value)?),
        ("path", _) if value.starts_with('/') || value.contains(":\\") => json::quote(value),
        ("path", _) => return Err(Error::refused(format!("`{value}` is not an absolute path"))),
        _ => return Err(unknown_member("workspace", key, &super::Workspace::KEYS)),
    };
    Ok((key, json))
}

/// Converts a member of an agent and its value to JSON.
fn agent_member<'a>(key: &'a str, value: &str) -> Result<(&'a str, String)> {
    match key {
        "name" => Ok((key, json::quote(checked_name(value)?))),
        "filePath" => Ok((key, json::quote(value))),
        _ => Err(unknown_member("agent", key, &super::Agent::KEYS)),
    }
}

fn unknown_member(what: &str, key: &str, known: &[&str]) -> Error {
    let shown: String = key.chars().take(40).flat_map(char::escape_debug).collect();
    let known = known.join(", ");
    let what = if what == "agent" {
        "an agent"
    } else {
        "a workspace"
    };
    Error::refused(format!(
        "{what} has no member `{shown}`; known members: {known}"
    ))
}

impl<'a> Document<'a> {
    fn parse(body: &'a str) -> Self {
        serde_json::from_str(body).unwrap_or_default()
    }
}

fn edit_row(
    list: &JsonArray<'_>,
    id: &str,
    change: impl FnOnce(&str) -> Result<RowEdit>,
    depth: usize,
) -> Result<String> {
    let mut change = Some(change);
    let fates: Result<Vec<RowEdit>> = list
        .rows()
        .map(
            |row| match change.take_if(|_| row_id(row).as_deref() == Some(id)) {
                Some(change) => change(row),
                None => Ok(RowEdit::Keep),
            },
        )
        .collect();
    Ok(list.apply(&fates?, &[], depth))
}

fn row_id(row: &str) -> Option<String> {
    let row: RowId<'_> = serde_json::from_str(row).unwrap_or_default();
    row.id.owned()
}

fn set(object: &str, members: &[(&str, &str)]) -> Result<String> {
    json::set_members(object.as_bytes(), members)
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| damaged("is damaged: it contains a value that is not an object"))
}

/// Trims a name and rejects an empty one.
fn checked_name(name: &str) -> Result<&str> {
    let name = name.trim();
    if name.is_empty() {
        return Err(Error::refused("a name must not be empty"));
    }
    Ok(name)
}

/// Rejects an id that is not a valid folder name.
fn check_id(what: &str, id: &str) -> Result<()> {
    if is_safe_name(id) {
        return Ok(());
    }
    let shown: String = id.chars().take(40).flat_map(char::escape_debug).collect();
    Err(Error::refused(format!(
        "`{shown}` cannot be the id of {} {what}: it becomes a folder name; use only letters, digits, `-`, `_` and inner dots",
        if what == "agent" { "an" } else { "a" }
    )))
}

/// Derives an id from a name.
fn slug(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            ' '
        }
    };
    let words: String = name.chars().map(plain).collect();
    words.split_whitespace().collect::<Vec<_>>().join("-")
}

/// The program's default configuration.
fn default_config() -> String {
    let settings = Settings::default();
    let usual: Vec<(&str, String)> = Settings::KEYS
        .iter()
        .filter_map(|key| Some((*key, settings.get(key).ok()?)))
        .collect();
    let members = [
        (WORKSPACES, "[]".to_owned()),
        ("settings", json_array::object(&usual, true, 2)),
    ];
    format!("{}\n", json_array::object(&members, true, 0))
}
