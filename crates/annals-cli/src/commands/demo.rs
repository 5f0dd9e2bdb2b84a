//! `annals demo`

mod history;

use std::path::{Path, PathBuf};

use annals::jsonl;
use annals::store::{Root, Store};
use anyhow::{Context as _, Result, bail};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;

use super::row::head;
use super::tree::TreeArgs;
use super::{Outcome, overview, tree};
use crate::context::Context;
use crate::render::style::{BOLD, DIM, PATH, PLAIN, paint};
use history::Written;

/// Makes a sample history and shows what can be done with it.
#[derive(Debug, Args)]
#[command(after_help = "\
The sample is written by annals' own writers into a directory of its own and stays there, so
that the commands suggested at the end work. Your own history is neither read nor changed.

Examples:
  annals demo
  annals demo --keep ~/annals-demo")]
pub(crate) struct DemoArgs {
    /// Where to write it [default: a new directory for temporary files]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document<'a> {
    root: &'a Path,
    sessions: [&'a str; 5],
}

pub(crate) fn run(args: &DemoArgs, context: &mut Context) -> Result<Outcome> {
    let dir = place(args.keep.as_deref())?;
    let root = Root::new("claude-code", &dir)?;
    context.store = Store::new(vec![root.clone()])
        .reporting_to(context.store.failures())
        .with_state(dir.join("annals-state"));
    context.named_roots = true;
    let written = history::write(&context.store, &root, context.clock.now)?;
    if context.json {
        context.out.json(&Document {
            root: &dir,
            sessions: written.ids(),
        })?;
        return Ok(Outcome::Fine);
    }
    let shown = dir.display().to_string();
    context.out.line(format_args!(
        "A sample history was written to {}.",
        paint(PATH, &shown)
    ))?;
    heading(context, "annals", "what is there")?;
    overview::run(context)?;
    let id = head(written.upload.as_str(), 8);
    heading(
        context,
        &format!("annals tree {id}"),
        "a session with branches and a sub-agent",
    )?;
    tree::run(&tree_args(id)?, context)?;
    next(context, &written, &dir)?;
    Ok(Outcome::Fine)
}

/// A fresh directory, or the one that was asked for.
fn place(keep: Option<&Path>) -> Result<PathBuf> {
    let dir = match keep {
        Some(dir) => {
            std::path::absolute(dir).map_err(|error| annals::Error::io("find", dir, error))?
        }
        None => {
            let id = uuid::Uuid::new_v4().simple().to_string();
            std::env::temp_dir().join(format!("annals-demo-{}", head(&id, 8)))
        }
    };
    let used = std::fs::read_dir(&dir).is_ok_and(|mut dir| dir.next().is_some());
    if used {
        bail!(
            "{} is not empty; name a directory that is new",
            dir.display()
        );
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

fn heading(context: &mut Context, command: &str, what: &str) -> Result<()> {
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

/// What to try next: commands that work as they stand.
fn next(context: &mut Context, written: &Written, dir: &Path) -> Result<()> {
    let program = format!(
        "{} --root {}",
        program(),
        quoted(&dir.display().to_string())
    );
    let upload = head(written.upload.as_str(), 8);
    let config = head(written.config.as_str(), 8);
    let dark = head(written.dark.as_str(), 8);
    let branch = format!("{upload}@{}", head(written.branch.as_str(), 8));
    let commands: [(String, &str); 10] = [
        (format!("show {upload}"), "read it"),
        (format!("conversations {upload}"), "its branches"),
        (format!("show {branch}"), "the branch that was left"),
        (format!("show {config}"), "a session that was compacted"),
        (
            "sessions --since 3d".to_owned(),
            "what was worked on lately",
        ),
        ("todos".to_owned(), "what is still open"),
        ("notes".to_owned(), "what people remarked"),
        (format!("append {dark} -m 'Ship it.'"), "go on with one"),
        (
            format!("fork {branch} --title 'The other way'"),
            "a branch as a session of its own",
        ),
        ("check".to_owned(), "is it all still there"),
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
    let remove = format!("rm -r {}", quoted(&dir.display().to_string()));
    context
        .out
        .line(format_args!("  {}", paint(PLAIN, &remove)))?;
    Ok(())
}

/// How to call this program: by its name if that finds it, else by its path.
fn program() -> String {
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
        // A bare name would be looked for elsewhere.
        Some(path) if path.components().count() == 1 => quoted(&format!("./{}", path.display())),
        Some(path) => quoted(&path.display().to_string()),
        None => quoted(&own.display().to_string()),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("/tmp/annals-demo-1"), "/tmp/annals-demo-1");
        assert_eq!(quoted("/tmp/it's here"), r"'/tmp/it'\''s here'");
    }
}
