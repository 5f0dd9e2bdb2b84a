//! `annals resume`

use std::path::Path;
use std::process::Command;

use annals::convert::{self, ConvertOptions, ConvertSelection};
use annals::model::SessionId;
use annals::resume::Resume;
use annals::store::{Root, Session};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;

use super::{Outcome, choose};
use crate::context::Context;
use crate::context::environment;

/// Opens a session in its own program, or in another one.
#[derive(Debug, Args)]
#[command(after_help = "\
The program replaces annals and runs in the directory of the session, without a shell. --with \
converts the session first, as `annals convert` does, into the root of the other program, where it \
is a session of its own; the session that it comes from is not touched. A session that was converted \
before and has not changed since is opened again.

The commands of the programs are built in; [resume] in config.toml changes them:
  [resume]
  codex = [\"codex\", \"--profile\", \"work\", \"resume\", \"{id}\"]

Examples:
  annals resume                          the latest session
  annals resume 8c549c46 --with codex    continue in Codex
  annals resume 8c549c46 --print         only print the command")]
pub(crate) struct ResumeArgs {
    /// The session [default: the latest]
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// The layout of the program to continue with, such as codex
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// Print the command for a shell; convert and run nothing
    #[arg(long)]
    print: bool,
}

#[derive(Serialize)]
struct ResumeJson<'a> {
    session: &'a str,
    layout: &'a str,
    program: &'a str,
    args: &'a [String],
    env: std::collections::BTreeMap<&'a str, &'a str>,
    cwd: Option<&'a Path>,
}

pub(crate) fn run(args: &ResumeArgs, context: &mut Context) -> Result<Outcome> {
    let name = match &args.id {
        Some(_) => choose::session(args.id.as_deref(), context)?,
        None => "latest".to_owned(),
    };
    let target = context.find(&name)?;
    target.refuse_agent()?;
    let session = Session::read(target.files)?;
    let cwd = session.working_directory();
    let is_dry = args.print || context.json;
    if let Some(cwd) = cwd
        .as_deref()
        .filter(|cwd| !is_dry && !Path::new(cwd).is_dir())
    {
        bail!("the directory of the session does not exist: {cwd}; --print prints the command");
    }
    let own = session.root().layout.name();
    let is_other = args.with.as_deref().is_some_and(|with| with != own);
    let config = context.config()?;
    let (root, id) = match args.with.as_deref().filter(|_| is_other) {
        Some(with) => {
            let root = target_root(with, context)?;
            if !config.resume.contains_key(with) && annals::layout::resume_command(with).is_none() {
                bail!("annals knows no program that opens a session of the layout {with}");
            }
            let id = convert_into(&session, &root, is_dry, context)?;
            (root, id)
        }
        None => {
            session.files.refuse_archived()?;
            (session.root().clone(), session.files.id.clone())
        }
    };
    let layout = root.layout.name();
    let template = config.resume.get(layout).map(Vec::as_slice);
    let command = Resume::new(&root, &id, cwd.as_deref(), template, &environment())?;
    if context.json {
        let env = command.variables.iter();
        context.out.json(&ResumeJson {
            session: id.as_str(),
            layout,
            program: &command.program,
            args: &command.args,
            env: env
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            cwd: command.cwd.as_deref(),
        })?;
        return Ok(Outcome::Ok);
    }
    if args.print {
        context.out.line(command.shell_line())?;
        return Ok(Outcome::Ok);
    }
    start(&command)
}

/// Replaces this process by the program.
pub(super) fn start(command: &Resume) -> Result<Outcome> {
    use std::os::unix::process::CommandExt as _;

    let mut program = Command::new(&command.program);
    program.args(&command.args);
    program.envs(command.variables.iter().map(|(name, value)| (name, value)));
    if let Some(cwd) = &command.cwd {
        program.current_dir(cwd);
    }
    // Returns only if the program could not be started.
    let error = program.exec();
    Err(error).with_context(|| format!("cannot run {}", command.program))
}

/// Returns the root of a layout: the one in use, or else its default one.
fn target_root(layout: &str, context: &Context) -> Result<Root> {
    let mut roots = context.store.roots().iter();
    if let Some(root) = roots.find(|root| root.layout.name() == layout) {
        return Ok(root.clone());
    }
    let Some(known) = annals::layout::by_name(layout) else {
        let names = annals::layout::LAYOUTS.iter().map(|layout| layout.name());
        let names: Vec<&str> = names.collect();
        bail!(
            "unknown layout `{layout}`; expected one of {}",
            names.join(", ")
        );
    };
    match known.roots(&environment()).into_iter().next() {
        Some(path) => Ok(Root::new(layout, path)?),
        None => bail!("the layout {layout} has no default root; name one with --root"),
    }
}

/// Converts a session into a root, next to the sessions that it has. Returns its id there.
fn convert_into(
    session: &Session,
    root: &Root,
    is_dry: bool,
    context: &Context,
) -> Result<SessionId> {
    if root.layout.writer().is_none()
        && let Some(id) = convert::session_id_in_rows(root, session)?
    {
        if is_dry {
            return Ok(id);
        }
        let options = context.write_options();
        let continued = convert::continue_in_rows(&context.store, session, root, options)?;
        return match continued.difference {
            None => Ok(id),
            Some(why) => bail!(
                "session {} is in {} already, but {why}; `annals fork` makes a session that can be converted, and `annals resume {id}` opens the one that is there",
                session.files.id,
                root.path.display()
            ),
        };
    }
    let selection = ConvertSelection::Sessions(vec![session.files.clone()]);
    let plan = convert::plan_into_root(selection, root.clone())?;
    let id = plan.target_session(&session.files)?;
    if is_dry {
        return Ok(id);
    }
    let mut options = ConvertOptions::default();
    options.zone = context.clock.zone.clone();
    let report = convert::run(&plan, &options, &|_, _| ())?;
    if let Some((_, why)) = report.failed.first() {
        bail!("session {} was not converted: {why}", session.files.id);
    }
    if let Some((_, why)) = report.differing.first() {
        bail!(
            "session {} is in {} already, but {why}; `annals delete {id}` removes it there, and `annals resume {id}` opens it",
            session.files.id,
            root.path.display()
        );
    }
    Ok(id)
}
