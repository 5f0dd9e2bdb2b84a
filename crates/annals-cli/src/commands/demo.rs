//! `annals demo`

mod history;

use std::path::{Path, PathBuf};

use annals::jsonl;
use annals::store::{Root, Store};
use anyhow::{Context as _, Result, bail};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;

use super::tree::TreeArgs;
use super::{Outcome, overview, tree};
use crate::context::Context;
use annals::view::id_prefix;
use annals_render::style::{BOLD, DIM, PATH, PLAIN, paint};
use history::DemoSessions;

/// Creates a sample history and shows what annals does with it.
#[derive(Debug, Args)]
#[command(after_help = "\
The sample is written by annals' own writers into a directory of its own and stays there, so \
that the commands suggested at the end work. Your own history is neither read nor changed.

Examples:
  annals demo
  annals demo --keep ~/annals-demo")]
pub(crate) struct DemoArgs {
    /// Target directory [default: a new temporary directory]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Serialize)]
struct DemoJson<'a> {
    root: &'a Path,
    sessions: [&'a str; 5],
}

pub(crate) fn run(args: &DemoArgs, context: &mut Context) -> Result<Outcome> {
    let dir = target_dir(args.keep.as_deref())?;
    let root = Root::new("claude-code", &dir)?;
    context.store = Store::new(vec![root.clone()])
        .reporting_to(context.store.failures())
        .with_state(dir.join("annals-state"));
    context.named_roots = true;
    let written = history::write(&context.store, &root, context.clock.now)?;
    if context.json {
        context.out.json(&DemoJson {
            root: &dir,
            sessions: written.ids(),
        })?;
        return Ok(Outcome::Ok);
    }
    let shown = dir.display().to_string();
    context.out.line(format_args!(
        "A sample history was written to {}.",
        paint(PATH, &shown)
    ))?;
    print_heading(context, "annals", "overview")?;
    overview::run(context)?;
    let id = id_prefix(written.upload.as_str(), 8);
    print_heading(
        context,
        &format!("annals tree {id}"),
        "a session with branches and a sub-agent",
    )?;
    tree::run(&tree_args(id)?, context)?;
    print_next_steps(context, &written, &dir)?;
    Ok(Outcome::Ok)
}

/// Returns a new directory, or the one that was asked for.
fn target_dir(keep: Option<&Path>) -> Result<PathBuf> {
    let dir = match keep {
        Some(dir) => {
            std::path::absolute(dir).map_err(|error| annals::Error::io("find", dir, error))?
        }
        None => {
            let id = uuid::Uuid::new_v4().simple().to_string();
            std::env::temp_dir().join(format!("annals-demo-{}", id_prefix(&id, 8)))
        }
    };
    let used = std::fs::read_dir(&dir).is_ok_and(|mut dir| dir.next().is_some());
    if used {
        bail!("{} is not empty; use a new directory", dir.display());
    }
    jsonl::ensure_dir(&dir)?;
    Ok(dir)
}

fn tree_args(session: &str) -> Result<TreeArgs> {
    let command = TreeArgs::augment_args(clap::Command::new("tree"));
    let matches = command
        .try_get_matches_from(["tree", session])
        .context("tree")?;
    Ok(TreeArgs::from_arg_matches(&matches)?)
}

fn print_heading(context: &mut Context, command: &str, what: &str) -> Result<()> {
    context.out.blank()?;
    context.out.line(format_args!(
        "{} {}  {}",
        paint(DIM, "$"),
        paint(BOLD, command),
        paint(DIM, what)
    ))?;
    context.out.blank()?;
    Ok(())
}

/// Prints commands to try next, ready to be copied.
fn print_next_steps(context: &mut Context, written: &DemoSessions, dir: &Path) -> Result<()> {
    let program = format!(
        "{} --root {}",
        program_name(),
        shell_quote(&dir.display().to_string())
    );
    let upload = id_prefix(written.upload.as_str(), 8);
    let config = id_prefix(written.config.as_str(), 8);
    let dark = id_prefix(written.dark.as_str(), 8);
    let branch = format!("{upload}@{}", id_prefix(written.branch.as_str(), 8));
    let commands: [(String, &str); 11] = [
        ("search 'flaky OR sleep'".to_owned(), "find anything"),
        ("cost --by project".to_owned(), "what it cost"),
        (
            "watch --all -n 5".to_owned(),
            "see it live (Ctrl-C ends it)",
        ),
        (
            format!("export {upload} -o talk.html"),
            "one file to pass on",
        ),
        (format!("show {upload}"), "read it"),
        (format!("show {branch}"), "the abandoned branch"),
        (format!("show {config}"), "a session that was compacted"),
        ("sessions --since 3d".to_owned(), "recent sessions"),
        ("todos".to_owned(), "open todos"),
        (format!("append {dark} -m 'Ship it.'"), "continue a session"),
        ("check".to_owned(), "check for errors"),
    ];
    context.out.blank()?;
    context.out.line(paint(BOLD, "Try next"))?;
    for (command, what) in commands {
        context
            .out
            .line(format_args!("  {}", paint(DIM, &format!("# {what}"))))?;
        context.out.line(format_args!(
            "  {}",
            paint(PLAIN, &format!("{program} {command}"))
        ))?;
    }
    context
        .out
        .line(format_args!("  {}", paint(DIM, "# remove the sample")))?;
    let remove = format!("rm -r {}", shell_quote(&dir.display().to_string()));
    context
        .out
        .line(format_args!("  {}", paint(PLAIN, &remove)))?;
    Ok(())
}

/// Returns how to call this program: its name if PATH finds it, else its path.
fn program_name() -> String {
    let Ok(own) = std::env::current_exe().and_then(std::fs::canonicalize) else {
        return "annals".to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&path)
        .map(|dir| dir.join("annals"))
        .find(|file| file.is_file());
    if first
        .and_then(|file| std::fs::canonicalize(file).ok())
        .as_deref()
        == Some(&own)
    {
        return "annals".to_owned();
    }
    let cwd = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    let below = cwd.and_then(|cwd| own.strip_prefix(cwd).ok().map(Path::to_owned));
    match below {
        // A bare name would be looked up in PATH.
        Some(path) if path.components().count() == 1 => {
            shell_quote(&format!("./{}", path.display()))
        }
        Some(path) => shell_quote(&path.display().to_string()),
        None => shell_quote(&own.display().to_string()),
    }
}

/// Quotes a word for a shell.
fn shell_quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_quote;

    #[test]
    fn shell_quote_escapes_spaces_and_quotes() {
        assert_eq!(shell_quote("/tmp/annals-demo-1"), "/tmp/annals-demo-1");
        assert_eq!(shell_quote("/tmp/it's here"), r"'/tmp/it'\''s here'");
    }
}
