//! Interactive choice of a session, or of a project and a conversation.
//!
//! Newest first. For a conversation, only sessions for a screen or two are read, and only the ends
//! of long logs.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use annals::model::Project;
use annals::store::{FolderHints, Inventory, RootFile, Session, SessionFiles, SessionInfo};
use anyhow::{Result, bail};
use jiff::Timestamp;

use crate::context::Context;
use crate::terminal::picker::{Choice, Item, Picker};
use annals_render::size;

/// Maximum number of sessions offered, in all or per project.
const MAX_SESSIONS: usize = 100;

/// Logs up to this size are read whole to find their titles and branches.
const MAX_FULL_READ: u64 = 4 << 20;

/// A project and its sessions, newest first.
struct ProjectOffer {
    project: Project,
    sessions: Vec<(Option<Timestamp>, SessionFiles)>,
}

/// Returns whether the user can be asked.
pub(super) fn can_ask(context: &Context) -> bool {
    context.out.is_terminal() && std::io::stdin().is_terminal() && !context.json
}

/// The user left a picker or a prompt without an answer.
#[derive(Debug)]
pub(crate) struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nothing was chosen")
    }
}

impl std::error::Error for Cancelled {}

/// Returns the given text, or the line that the user types.
pub(super) fn text(given: Option<&str>, what: &str, context: &mut Context) -> Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    if !can_ask(context) {
        bail!("no {what} given");
    }
    eprint!("{what}: ");
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line)? {
        0 => Err(Cancelled.into()),
        _ => Ok(line.trim().to_owned()),
    }
}

/// Returns the given name of a session, or that of the session which the user chooses.
pub(super) fn session(given: Option<&str>, context: &mut Context) -> Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    require_terminal(context)?;
    let inventory = context.inventory();
    let sessions = context.newest_sessions(&inventory, MAX_SESSIONS);
    if sessions.is_empty() {
        bail!("{}", context.no_sessions_text());
    }
    pick_session(&sessions, &inventory, context)
}

/// Like [`session`], for a session that is in the archive.
pub(super) fn archived_session(given: Option<&str>, context: &mut Context) -> Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    if !can_ask(context) {
        bail!("no session given; `annals archive --list` lists the archived ones");
    }
    let inventory = context.inventory();
    let mut sessions = context.sessions(&inventory);
    sessions.retain(|session| session.archived);
    sessions.truncate(MAX_SESSIONS);
    if sessions.is_empty() {
        bail!("every archived session still exists in its root; name one to restore it");
    }
    pick_session(&sessions, &inventory, context)
}

fn require_terminal(context: &mut Context) -> Result<()> {
    match can_ask(context) {
        true => Ok(()),
        false if context.inventory().sessions.is_empty() => bail!("{}", context.no_sessions_text()),
        false => bail!(
            "no session given; `annals sessions` lists them, and `latest` is the last one of this directory"
        ),
    }
}

/// Asks for one of the sessions, and returns a name that only it has.
fn pick_session(
    sessions: &[SessionInfo],
    inventory: &Inventory,
    context: &mut Context,
) -> Result<String> {
    let items: Vec<Item> = sessions
        .iter()
        .map(|session| session_item(session, context))
        .collect();
    let stop = stop_flag()?;
    let choice = Picker::open(&mut context.out, &stop)?.pick("Which session?", &items)?;
    let session = match choice {
        Choice::Picked(at) => sessions.get(at).ok_or(Cancelled)?,
        Choice::Back | Choice::Quit => return Err(Cancelled.into()),
    };
    let same_id = inventory.sessions.iter();
    let same_id = same_id.filter(|files| files.id == session.id);
    Ok(match same_id.count() {
        0 | 1 => session.id.to_string(),
        _ => session.file.display().to_string(),
    })
}

fn session_item(session: &SessionInfo, context: &Context) -> Item {
    let title = session.title.as_ref().map(|title| title.text.clone());
    let ago = session.updated.map(|time| context.clock.ago(time));
    let facts = std::iter::once(session.project.name().to_owned()).chain(ago);
    Item {
        name: title.unwrap_or_else(|| annals::view::short_id(session.id.as_str()).to_owned()),
        detail: facts.collect::<Vec<_>>().join(" · "),
    }
}

/// Returns a flag that signals set, so that the picker can restore the terminal.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Asks for a project and a conversation of it. Returns an empty list for everything.
pub(super) fn project_and_conversation(context: &mut Context) -> Result<Vec<String>> {
    let inventory = context.inventory();
    let offers = group_by_project(inventory.sessions);
    if offers.is_empty() {
        return Ok(Vec::new());
    }
    let stop = stop_flag()?;
    let projects = project_items(&offers, context);
    let clock = context.clock.clone();
    let mut picker = Picker::open(&mut context.out, &stop)?;
    loop {
        let offer = match picker.pick("Which project?", &projects)? {
            Choice::Picked(0) => return Ok(Vec::new()),
            Choice::Picked(at) => offers.get(at - 1),
            Choice::Back | Choice::Quit => return Err(Cancelled.into()),
        };
        let Some(offer) = offer else { continue };
        let (items, names) = conversation_items(offer, &clock);
        let title = format!("{}: which conversation?", offer.project.name());
        match picker.pick(&title, &items)? {
            Choice::Picked(at) => return names.into_iter().nth(at).ok_or_else(|| Cancelled.into()),
            Choice::Back => {}
            Choice::Quit => return Err(Cancelled.into()),
        }
    }
}

/// Returns the time of the last write to a session's logs.
fn last_written(files: &SessionFiles) -> i64 {
    let times = files.logs().map(|file: &RootFile| file.id.mtime_ns);
    times.max().unwrap_or(i64::MIN)
}

fn group_by_project(mut sessions: Vec<SessionFiles>) -> Vec<ProjectOffer> {
    sessions.sort_by_key(|files| std::cmp::Reverse(last_written(files)));
    let mut places: HashMap<(PathBuf, Option<String>), usize> = HashMap::new();
    let mut offers: Vec<ProjectOffer> = Vec::new();
    for files in sessions {
        let key = (files.root.path.clone(), files.folder().map(str::to_owned));
        let time = Timestamp::from_nanosecond(last_written(&files).into()).ok();
        let next = offers.len();
        let at = *places.entry(key).or_insert(next);
        if at == next {
            offers.push(ProjectOffer {
                project: infer_project(&files),
                sessions: Vec::new(),
            });
        }
        if let Some(offer) = offers.get_mut(at) {
            offer.sessions.push((time, files));
        }
    }
    offers
}

/// Returns the project of a session, from the end of its log.
fn infer_project(files: &SessionFiles) -> Project {
    let session = Session::read_tail(files.clone(), 1);
    let project = session.map(|session| session.info(None).project);
    project.unwrap_or_else(|_| Project {
        path: files.folder().unwrap_or("(unknown)").to_owned(),
        guessed: true,
    })
}

fn project_items(offers: &[ProjectOffer], context: &Context) -> Vec<Item> {
    let everything = Item {
        name: "Everything".to_owned(),
        detail: String::new(),
    };
    let row = |offer: &ProjectOffer| {
        let time = offer.sessions.first().and_then(|(time, _)| *time);
        let time = time.map(|time| context.clock.ago(time)).unwrap_or_default();
        let count = size::pluralize(offer.sessions.len() as u64, "session");
        Item {
            name: offer.project.name().to_owned(),
            detail: format!("{count} · {time}"),
        }
    };
    std::iter::once(everything)
        .chain(offers.iter().map(row))
        .collect()
}

/// Returns the conversations of a project, and the arguments that name each.
fn conversation_items(
    offer: &ProjectOffer,
    clock: &annals_render::time::Clock,
) -> (Vec<Item>, Vec<Vec<String>>) {
    let mut items = vec![Item {
        name: "The whole project".to_owned(),
        detail: String::new(),
    }];
    let ids = offer.sessions.iter().map(|(_, files)| files.id.to_string());
    let mut names = vec![match offer.project.guessed {
        // A folder name cannot be used as a project.
        true => ids.collect(),
        false => vec![offer.project.path.clone()],
    }];
    let all: Vec<SessionFiles> = offer
        .sessions
        .iter()
        .map(|(_, files)| files.clone())
        .collect();
    let neighbours = FolderHints::new(&all);
    for (time, files) in offer.sessions.iter().take(MAX_SESSIONS) {
        let ago = time.map(|time| clock.ago(time)).unwrap_or_default();
        let id = files.id.to_string();
        let whole = files
            .log
            .as_ref()
            .is_some_and(|log| log.bytes() <= MAX_FULL_READ);
        let read = match whole {
            true => Session::read(files.clone()),
            false => Session::read_tail(files.clone(), 1),
        };
        let Ok(mut session) = read else { continue };
        if whole {
            session.apply_folder_hints(&neighbours);
        }
        let title = session.title().map(|title| title.text);
        let title = title.unwrap_or_else(|| annals::view::short_id(&id).to_owned());
        let conversations = session.conversations();
        items.push(Item {
            name: title,
            detail: match conversations.len() {
                0 | 1 => ago,
                branches => format!("{branches} branches · {ago}"),
            },
        });
        names.push(vec![id.clone()]);
        if conversations.len() < 2 || !whole {
            continue;
        }
        for branch in conversations.iter().rev() {
            let title = branch.branch.clone();
            let title = title.or_else(|| branch.title.as_ref().map(|title| title.text.clone()));
            let updated = branch.updated.map(|time| clock.ago(time));
            items.push(Item {
                name: format!("  ⑂ {}", title.unwrap_or_else(|| branch.leaf.clone())),
                detail: updated.unwrap_or_default(),
            });
            names.push(vec![branch.id.clone()]);
        }
    }
    (items, names)
}
