//! Commands with which programs open their sessions.

/// How a program opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeCommand {
    /// The layout of the sessions.
    pub layout: &'static str,
    /// The program and its arguments; `{id}` stands for the session's id.
    pub words: &'static [&'static str],
    /// The environment variable that names a root other than the default one, if there is one.
    pub root_variable: Option<&'static str>,
    /// Number of directories at the end of the root's path that the variable leaves out.
    pub levels_above: usize,
}

const fn command(
    layout: &'static str,
    words: &'static [&'static str],
    root_variable: Option<&'static str>,
    levels_above: usize,
) -> ResumeCommand {
    ResumeCommand {
        layout,
        words,
        root_variable,
        levels_above,
    }
}

/// The commands, by layout. A layout without one belongs to programs that open no session by its id.
pub static RESUME_COMMANDS: &[ResumeCommand] = &[
    command(
        "claude-code",
        &["claude", "--resume", "{id}"],
        Some("CLAUDE_CONFIG_DIR"),
        0,
    ),
    command("codex", &["codex", "resume", "{id}"], Some("CODEX_HOME"), 0),
    command(
        "copilot",
        &["copilot", "--resume", "{id}"],
        Some("COPILOT_HOME"),
        0,
    ),
    command("droid", &["droid", "--resume", "{id}"], None, 0),
    command(
        "gemini",
        &["gemini", "--resume", "{id}"],
        Some("GEMINI_CLI_HOME"),
        1,
    ),
    command(
        "opencode",
        &["opencode", "--session", "{id}"],
        Some("XDG_DATA_HOME"),
        1,
    ),
    command(
        "pi",
        &["pi", "--session", "{id}"],
        Some("PI_CODING_AGENT_DIR"),
        0,
    ),
    command("qwen", &["qwen", "--resume", "{id}"], Some("QWEN_HOME"), 0),
];

/// Returns the command for sessions of a layout.
pub fn resume_command(layout: &str) -> Option<&'static ResumeCommand> {
    RESUME_COMMANDS
        .iter()
        .find(|command| command.layout == layout)
}
