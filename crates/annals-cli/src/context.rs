//! What a command works with: the store, the clock, and where its output goes.

use std::ffi::OsString;
use std::path::PathBuf;

use annals::cost::Ledger;
use annals::layout::Env;
use annals::store::{
    Inventory, Root, SessionFiles, SessionInfo, SessionWriter, Store, Target, WriteOptions,
};
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::cli::Global;
use crate::config::Config;
use crate::render::out::Out;
use crate::render::progress::Progress;
use crate::render::style::{WARNING, paint};
use crate::render::time::Clock;

/// What a command works with.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) out: Out,
    pub(crate) clock: Clock,
    pub(crate) json: bool,
    /// The time was given from outside.
    fixed: bool,
    verbose: bool,
    /// The user named the roots.
    pub(crate) named_roots: bool,
    warnings: usize,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Result<Self> {
        let env = environment();
        let roots = if global.root.is_empty() {
            Root::defaults(&env)
        } else {
            let named = global.root.iter().map(|text| named_roots(text));
            named.collect::<Result<Vec<_>>>()?.concat()
        };
        let store = Store::new(roots).with_state(state_dir(&env));
        let fixed: Option<Timestamp> = match env.vars.get("ANNALS_NOW") {
            Some(text) => Some(text.parse().context("ANNALS_NOW is not a time")?),
            None => None,
        };
        let now = fixed.unwrap_or_else(Timestamp::now);
        Ok(Context {
            store,
            out: Out::stdout(global.color, !global.no_pager && !global.json, variable),
            clock: Clock {
                now,
                zone: TimeZone::system(),
            },
            json: global.json,
            fixed: fixed.is_some(),
            verbose: global.verbose,
            named_roots: !global.root.is_empty(),
            warnings: 0,
        })
    }

    /// Everything that lies in the roots; what could not be looked at is told on the way.
    pub(crate) fn inventory(&mut self) -> Inventory {
        let inventory = self.store.inventory();
        for trouble in &inventory.troubles {
            self.warn(trouble);
            // A root that was named with its layout may be new.
            if is_missing(trouble) {
                self.warnings -= 1;
            }
        }
        inventory
    }

    /// Reads and sums up all sessions, the most recent first.
    pub(crate) fn sessions(&mut self, inventory: &Inventory) -> Vec<SessionInfo> {
        let progress = Progress::new("reading sessions");
        let rows = self
            .store
            .sessions(inventory, &|done, total| progress.set(done, total));
        drop(progress);
        let mut sessions = Vec::with_capacity(rows.len());
        for row in rows {
            match row {
                Ok(session) => sessions.push(session),
                Err(error) => self.warn(&error),
            }
        }
        sessions.sort_by(|a, b| b.updated.cmp(&a.updated).then_with(|| a.id.cmp(&b.id)));
        sessions
    }

    /// Every response once, with the session that pays for it.
    pub(crate) fn ledger(&mut self) -> Ledger {
        let inventory = self.inventory();
        let sessions = self.sessions(&inventory);
        let accounts = sessions.iter().map(SessionInfo::account).collect();
        let charges = sessions.into_iter().enumerate().flat_map(|(number, info)| {
            let charges = info.charges.into_iter();
            charges.map(move |mut charge| {
                charge.account = number;
                charge
            })
        });
        Ledger::new(accounts, charges.collect())
    }

    /// The user's own settings.
    pub(crate) fn config(&self) -> Result<Config> {
        Config::read(&self.config_dir())
    }

    /// Where the user's own settings lie.
    pub(crate) fn config_dir(&self) -> PathBuf {
        config_dir(&environment())
    }

    /// Finds `SESSION[@MESSAGE]` or the path of a log.
    pub(crate) fn find(&mut self, id: &str) -> Result<Target> {
        let inventory = self.inventory();
        Ok(self.store.find(&inventory, id)?)
    }

    /// Finds a session where a message of it would make no sense.
    pub(crate) fn find_session(&mut self, id: &str) -> Result<SessionFiles> {
        let target = self.find(id)?;
        target.refuse_agent()?;
        if let Some(message) = target.message {
            anyhow::bail!("`{id}` names the message {message}; this takes a whole session");
        }
        Ok(target.files)
    }

    /// How changes are written.
    pub(crate) fn writing(&self) -> WriteOptions {
        WriteOptions {
            now: self.fixed.then_some(self.clock.now),
            ..WriteOptions::default()
        }
    }

    /// Tells of something that could not be read, and goes on.
    pub(crate) fn warn(&mut self, error: &annals::Error) {
        const SHOWN: usize = 3;
        self.warnings += 1;
        if self.verbose || self.warnings <= SHOWN {
            anstream::eprintln!(
                "{} {}",
                paint(WARNING, "warning:"),
                paint(crate::render::style::PLAIN, &error.to_string())
            );
        } else if self.warnings == SHOWN + 1 {
            anstream::eprintln!("{} and more; -v shows all", paint(WARNING, "warning:"));
        }
    }

    /// The root that a new session goes to.
    pub(crate) fn writable_root(&self) -> Result<Root> {
        let env = environment();
        let mut roots = self
            .store
            .roots()
            .iter()
            .filter(|root| root.layout.writer().is_some());
        if let Some(root) = roots.next() {
            return Ok(root.clone());
        }
        // Nothing exists yet: the first default place is made.
        let layout = annals::layout::LAYOUTS
            .iter()
            .find(|layout| layout.writer().is_some());
        let place =
            layout.and_then(|layout| Some((layout, layout.roots(&env).into_iter().next()?)));
        let (layout, path) =
            place.context("there is no place for sessions; name one with --root")?;
        Ok(Root {
            layout: *layout,
            path,
        })
    }

    /// Opens a session for what takes no part in its conversation, such as a title or a note: that
    /// may go beside what another program writes.
    pub(crate) fn annotate(&self, files: &SessionFiles) -> Result<SessionWriter> {
        let options = WriteOptions {
            live: true,
            ..self.writing()
        };
        Ok(self.store.write(files, options)?)
    }

    /// Where sessions would lie if no root is named.
    pub(crate) fn default_places(&self) -> Vec<String> {
        let env = environment();
        let layouts = annals::layout::LAYOUTS.iter();
        // Two layouts may share a place.
        let mut seen = std::collections::HashSet::new();
        let places = layouts.flat_map(|layout| layout.roots(&env));
        let places = places.filter(|path| seen.insert(path.clone()));
        places.map(|path| path.display().to_string()).collect()
    }

    /// Something could not be read, so what was printed is not all there is.
    pub(crate) fn incomplete(&self) -> bool {
        self.warnings > 0
    }

    pub(crate) fn finish(self) -> Result<()> {
        Ok(self.out.finish()?)
    }
}

fn is_missing(error: &annals::Error) -> bool {
    matches!(error, annals::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
}

/// A root that was named must be there, unless its layout was named too: then it may be new. Its
/// path is kept whole, because the trash remembers it.
fn named_roots(text: &str) -> Result<Vec<Root>> {
    let mut roots = Root::parse(text)?;
    for root in &mut roots {
        if let Ok(path) = std::path::absolute(&root.path) {
            root.path = path;
        }
    }
    Ok(roots)
}

/// What layouts may know of the machine.
fn environment() -> Env {
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Env {
        home: std::env::home_dir(),
        cwd: std::env::current_dir().ok(),
        vars,
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Where annals keeps its own things.
fn state_dir(env: &Env) -> PathBuf {
    own_dir(env, "ANNALS_STATE_DIR", "XDG_STATE_HOME", ".local/state")
}

/// Where the user's own settings lie.
fn config_dir(env: &Env) -> PathBuf {
    own_dir(env, "ANNALS_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
}

/// The directory that `own` names, else annals' part of the one that `shared` names, or of `usual`.
fn own_dir(env: &Env, own: &str, shared: &str, usual: &str) -> PathBuf {
    let var = |name: &str| {
        env.vars
            .get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = || env.home.clone().unwrap_or_else(std::env::temp_dir);
    var(own).unwrap_or_else(|| {
        var(shared)
            .unwrap_or_else(|| home().join(usual))
            .join("annals")
    })
}
