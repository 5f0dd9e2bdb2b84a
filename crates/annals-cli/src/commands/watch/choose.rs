//! Which project, and which conversation of it, for those who name none.
//!
//! The newest come first, by the times of their files. Only what can be seen on a screen or two is
//! read, and of long logs only the ends.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use annals::model::Project;
use annals::store::{FolderHints, RootFile, Session, SessionFiles};
use anyhow::Result;
use jiff::Timestamp;

use crate::commands::session_json;
use crate::context::Context;
use crate::render::picker::{Choice, Item, Picker};
use crate::render::size;

/// How many sessions of a project are offered.
const MAX_SESSIONS: usize = 100;

/// Logs up to this size are read whole to find their titles and branches.
const MAX_FULL_READ: u64 = 4 << 20;

/// A project and its sessions, the newest first.
struct ProjectOffer {
    project: Project,
    sessions: Vec<(Option<Timestamp>, SessionFiles)>,
}

/// Asks; `None` means that nothing was chosen. An empty list means everything.
pub(super) fn choose(context: &mut Context) -> Result<Option<Vec<String>>> {
    let inventory = context.inventory();
    let offers = group_by_project(inventory.sessions);
    if offers.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let projects = project_items(&offers, context);
    let clock = context.clock.clone();
    let mut picker = Picker::open(&mut context.out, &ended)?;
    loop {
        let offer = match picker.pick("Which project?", &projects)? {
            Choice::Picked(0) => return Ok(Some(Vec::new())),
            Choice::Picked(at) => offers.get(at - 1),
            Choice::Back | Choice::Quit => return Ok(None),
        };
        let Some(offer) = offer else { continue };
        let (items, names) = conversation_items(offer, &clock);
        let title = format!("{}: which conversation?", offer.project.name());
        match picker.pick(&title, &items)? {
            Choice::Picked(at) => return Ok(names.into_iter().nth(at)),
            Choice::Back => {}
            Choice::Quit => return Ok(None),
        }
    }
}

/// When a session's logs were written to last.
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

/// The project of a session, by the end of its log.
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

/// The conversations of a project, and how each is named on the command line.
fn conversation_items(
    offer: &ProjectOffer,
    clock: &crate::render::time::Clock,
) -> (Vec<Item>, Vec<Vec<String>>) {
    let mut items = vec![Item {
        name: "The whole project".to_owned(),
        detail: String::new(),
    }];
    let ids = offer.sessions.iter().map(|(_, files)| files.id.to_string());
    let mut names = vec![match offer.project.guessed {
        // A folder's name is no project that one could ask for.
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
        let title = title.unwrap_or_else(|| session_json::short_id(&id).to_owned());
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
