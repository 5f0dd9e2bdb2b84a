//! How to add the server to an agent: texts to read, nothing is run.

/// How an agent gets the server, and where it looks for skills.
struct Agent {
    name: &'static str,
    /// What adds the server: a command, or the name of a file and what to write into it.
    server: &'static str,
    /// Folder of the user's skills, if the agent reads them from files.
    skills: Option<&'static str>,
}

/// Folder of skills that several agents read.
const SHARED_SKILLS: Option<&str> = Some("~/.agents/skills");

const AGENTS: &[Agent] = &[
    Agent {
        name: "claude-code",
        server: "claude mcp add --scope user annals -- annals mcp",
        skills: Some("~/.claude/skills"),
    },
    Agent {
        name: "codex",
        server: "codex mcp add annals -- annals mcp",
        skills: SHARED_SKILLS,
    },
    Agent {
        name: "gemini",
        server: "gemini mcp add --scope user annals annals mcp",
        skills: SHARED_SKILLS,
    },
    Agent {
        name: "opencode",
        server: "opencode mcp add annals -- annals mcp",
        skills: SHARED_SKILLS,
    },
    Agent {
        name: "qwen",
        server: "qwen mcp add --scope user annals annals mcp",
        skills: Some("~/.qwen/skills"),
    },
    Agent {
        name: "copilot",
        server: "copilot mcp add annals -- annals mcp",
        skills: SHARED_SKILLS,
    },
    Agent {
        name: "droid",
        server: "droid mcp add annals annals mcp",
        skills: Some("~/.factory/skills"),
    },
    Agent {
        name: "cline",
        server: "cline mcp add --yes annals -- annals mcp",
        skills: None,
    },
    Agent {
        name: "cursor",
        server: r#"# in ~/.cursor/mcp.json
{
  "mcpServers": {
    "annals": { "command": "annals", "args": ["mcp"] }
  }
}"#,
        skills: None,
    },
    Agent {
        name: "json",
        server: r#"# in the configuration of the client
{
  "mcpServers": {
    "annals": { "command": "annals", "args": ["mcp"] }
  }
}"#,
        skills: None,
    },
];

/// A skill for agents that read skills from files.
pub const SKILL: &str = include_str!("skill.md");

/// Returns the names that [`install_text`] knows.
pub fn install_names() -> impl Iterator<Item = &'static str> {
    let agents = AGENTS.iter().map(|agent| agent.name);
    agents.chain(["skill"])
}

/// Returns what to run for an agent, or the skill; `None` for an unknown name.
pub fn install_text(name: &str) -> Option<String> {
    if name == "skill" {
        return Some(SKILL.to_owned());
    }
    let agent = AGENTS.iter().find(|agent| agent.name == name)?;
    let mut text = format!("{}\n", agent.server);
    if let Some(folder) = agent.skills {
        text.push_str(&format!(
            "# optional: a skill that says when to use it\n\
             mkdir -p {folder}/annals && annals mcp --install skill > {folder}/annals/SKILL.md\n"
        ));
    }
    Some(text)
}
