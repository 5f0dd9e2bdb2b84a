//! How to add the server to an agent: texts to read, nothing is run.

/// Agents that are known, and what adds the server to them.
pub const AGENTS: &[(&str, &str)] = &[
    (
        "claude-code",
        "claude mcp add --scope user annals -- annals mcp",
    ),
    ("codex", "codex mcp add annals -- annals mcp"),
    ("gemini", "gemini mcp add --scope user annals annals mcp"),
    (
        "json",
        r#"Add to the client's configuration:
{
  "mcpServers": {
    "annals": { "command": "annals", "args": ["mcp"] }
  }
}"#,
    ),
];

/// A skill for agents that read skills from files.
pub const SKILL: &str = include_str!("skill.md");

/// Returns what to run for an agent; `None` for an unknown one.
pub fn install_text(agent: &str) -> Option<String> {
    if agent == "skill" {
        return Some(SKILL.to_owned());
    }
    let (_, text) = AGENTS.iter().find(|(name, _)| *name == agent)?;
    Some(format!("{text}\n"))
}
