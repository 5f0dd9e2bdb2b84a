//! The context of a command: the store, the clock, and the output.

mod environment;
mod names;
mod problems;
mod spellings;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals::archive::Archive;
use annals::cost::{Ledger, PriceFn, Prices, Tally};
use annals::index::Warning;
use annals::jsonl::Error as FileError;
use annals::layout::{Chorus, Layout};
use annals::retain::Pins;
use annals::search::{Query, SearchResults};
use annals::service::{config_dir, state_dir, system_zone};
use annals::store::{
    ConversationInfo, Inventory, LedgerWithSession, ReadFailures, RecentQuery, Root, SessionFiles,
    SessionInfo, SessionLabel, SessionWriter, Store, WriteOptions,
};
use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) use self::environment::environment;
use self::environment::{is_not_found, variable};
use self::problems::Problems;
use crate::config::Config;
use crate::global_options::GlobalOptions;
use crate::terminal::out::Out;
use crate::terminal::progress::Progress;
use crate::terminal::stderr_line;
use annals_render::style::{PLAIN, WARNING, paint};
use annals_render::time::Clock;

pub(crate) use self::names::{
    Access, DeletedSession, is_latest, is_unknown_archived, is_unknown_session, refuse_message,
    whole_session,
};
pub(crate) use self::spellings::{session_spellings, spellings};

/// The context of a command.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) out: Out,
    pub(crate) clock: Clock,
    pub(crate) json: bool,
    /// Whether the time was set with `ANNALS_NOW`.
    pub(crate) is_time_fixed: bool,
    pub(crate) verbose: bool,
    /// Whether the user named the roots.
    pub(crate) named_roots: bool,
    /// The agent programs whose sessions are wanted; empty for all.
    agent_programs: Vec<String>,
    /// The price list that the user named.
    named_prices: Option<PathBuf>,
    /// Whether the index must not be used.
    pub(crate) no_index: bool,
    /// The state directory of annals.
    state_dir: PathBuf,
    /// The directory of the user's settings.
    pub(crate) config_dir: PathBuf,
    /// Links in roots that the user wants followed.
    followed_links: Vec<PathBuf>,
    problems: Problems,
    /// Notes already printed: commands may open the index more than once.
    printed_notes: Vec<String>,
    /// The inventory that was searched, if it may hold text that is not yet indexed.
    searched_inventory: Option<Inventory>,
}

impl Context {
    pub(crate) fn new(global: &GlobalOptions) -> Result<Self> {
        let env = environment();
        let state_dir = state_dir(&env);
        let failures = ReadFailures::default();
        let roots = if global.root.is_empty() {
            let (mut roots, refused) = Root::discover(&env);
            for why in refused {
                print_notice("note:", &format!("{why}; use --root to read it"));
            }
            // Archived sessions of a root that no longer exists are still listed.
            let archive = Archive::open(&state_dir).reporting_to(&failures);
            let kept = archive.roots().unwrap_or_else(|error| {
                failures.report(error);
                Vec::new()
            });
            roots.extend(kept.into_iter().filter(|root| !root.path.exists()));
            roots
        } else {
            let named = global.root.iter().map(|text| named_roots(text));
            named.collect::<Result<Vec<_>>>()?.concat()
        };
        let programs = &global.agent_program;
        let is_wanted = |root: &Root| is_wanted(programs, root.layout);
        let roots = roots.into_iter().filter(is_wanted);
        // With unreadable settings no links are followed; commands that need the settings report
        // the error.
        let config_dir = config_dir(&env);
        let followed = Config::read(&config_dir).map_or_else(|_| Vec::new(), |it| it.follow);
        let roots = roots.map(|root| root.follow_links(&followed));
        let store = Store::new(roots.collect()).reporting_to(&failures);
        // Without named roots, a root that no longer exists counts too.
        let store = store
            .with_state(&state_dir)
            .with_trash_of_roots(!global.root.is_empty());
        let store = match global.no_index {
            true => store,
            false => store.with_index(),
        };
        let fixed: Option<Timestamp> = match env.vars.get("ANNALS_NOW") {
            Some(text) => Some(text.parse().context("invalid time in ANNALS_NOW")?),
            None => None,
        };
        let now = fixed.unwrap_or_else(Timestamp::now);
        let zone = system_zone(&env).unwrap_or_else(|name| {
            let text = format!("unknown time zone `{name}` in TZ; using UTC");
            print_notice("note:", &text);
            TimeZone::UTC
        });
        Ok(Context {
            store,
            out: Out::stdout(global.color, !global.no_pager && !global.json, variable),
            clock: Clock { now, zone },
            json: global.json,
            is_time_fixed: fixed.is_some(),
            verbose: global.verbose,
            named_roots: !global.root.is_empty(),
            agent_programs: global.agent_program.clone(),
            no_index: global.no_index,
            state_dir,
            named_prices: global.prices.clone(),
            config_dir,
            followed_links: followed,
            problems: Problems::default(),
            printed_notes: Vec::new(),
            searched_inventory: None,
        })
    }

    /// Applies the store's settings to a root: followed links and error reporting.
    pub(crate) fn with_followed_links(&self, root: Root) -> Root {
        let root = root.follow_links(&self.followed_links);
        root.reporting_to(self.store.failures())
    }

    /// Returns all files of the roots; reports those that could not be read.
    pub(crate) fn inventory(&mut self) -> Inventory {
        let inventory = self.store.inventory();
        self.print_index_warnings();
        self.warn_all(&inventory.errors);
        inventory
    }

    /// Returns all files of the roots without the archive, for commands that change or maintain
    /// them.
    pub(crate) fn inventory_without_archive(&mut self) -> Inventory {
        let inventory = self.store.inventory_without_archive();
        self.warn_all(&inventory.errors);
        inventory
    }

    /// Like [`Self::inventory_without_archive`], for checks, which report links and irregular files
    /// themselves.
    pub(crate) fn inventory_to_check(&mut self) -> Inventory {
        let inventory = self.store.inventory_without_archive();
        let no_files = inventory.errors.iter().filter(|it| it.is_no_file());
        let paths = no_files.filter_map(|it| it.path().map(Path::to_owned));
        self.leave_no_files(paths);
        self.warn_all(&inventory.errors);
        inventory
    }

    /// Summarises all sessions, most recent first.
    pub(crate) fn sessions(&mut self, inventory: &Inventory) -> Vec<SessionInfo> {
        let mut sessions = self.unsorted_sessions(inventory);
        // Rows are large, so each is moved once.
        sessions.sort_by_cached_key(|session| (Reverse(session.updated), session.id.clone()));
        sessions
    }

    /// Summarises all sessions in any order, for commands that show few of them.
    pub(crate) fn unsorted_sessions(&mut self, inventory: &Inventory) -> Vec<SessionInfo> {
        self.list_sessions(inventory, None)
    }

    /// Summarises the `limit` most recent sessions, newest first.
    pub(crate) fn newest_sessions(
        &mut self,
        inventory: &Inventory,
        limit: usize,
    ) -> Vec<SessionInfo> {
        self.list_sessions(inventory, Some(limit))
    }

    fn list_sessions(&mut self, inventory: &Inventory, newest: Option<usize>) -> Vec<SessionInfo> {
        let progress = Progress::new("reading sessions");
        let set_progress = |done, total| progress.set(done, total);
        let all = self.store.sessions(inventory);
        let rows = match newest {
            None => all.read(&set_progress),
            Some(limit) => all.newest(limit, &set_progress),
        };
        drop(progress);
        self.print_index_warnings();
        let mut troubles = Vec::new();
        let read =
            |row: annals::Result<SessionInfo>| row.map_err(|error| troubles.push(error)).ok();
        let sessions = rows.into_iter().filter_map(read).collect();
        // The configuration holds the projects of the sessions.
        let roots = self.store.roots().iter();
        let roots = roots.filter(|root| root.layout.name() == Chorus.spec().name);
        troubles.extend(roots.filter_map(|root| self.store.chorus().config(root).err()));
        troubles.iter().for_each(|error| self.warn(error));
        sessions
    }

    /// Returns the conversations of some sessions, given by index in the inventory, each with the
    /// index of its session and its tally.
    pub(crate) fn conversations(
        &mut self,
        inventory: &Inventory,
        wanted: &[usize],
        price: PriceFn<'_>,
    ) -> Vec<(usize, ConversationInfo, Tally)> {
        let progress = Progress::new("reading conversations");
        let set_progress = |done, total| progress.set(done, total);
        let sessions = self.store.sessions(inventory);
        let rows = sessions.conversations(wanted, price, &set_progress);
        drop(progress);
        self.print_index_warnings();
        let mut conversations = Vec::new();
        for (at, row) in wanted.iter().zip(rows) {
            match row {
                Ok(rows) => {
                    let rows = rows.into_iter().map(|(info, cost)| (*at, info, cost));
                    conversations.extend(rows);
                }
                Err(error) => self.warn(&error),
            }
        }
        conversations
    }

    /// Returns the labels of some sessions, given by index in the inventory, each once; `None` for
    /// one that cannot be read.
    pub(crate) fn session_labels(
        &mut self,
        inventory: &Inventory,
        wanted: &[usize],
    ) -> Vec<Option<SessionLabel>> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let progress = Progress::new("reading sessions");
        let set_progress = |done, total| progress.set(done, total);
        let sessions = self.store.sessions(inventory);
        let labels = sessions.labels(wanted, &set_progress);
        drop(progress);
        self.print_index_warnings();
        let labels = labels.into_iter();
        labels
            .map(|label| label.map_err(|error| self.warn(&error)).ok())
            .collect()
    }

    /// Searches the sessions of an inventory.
    pub(crate) fn search(&mut self, inventory: &Inventory, query: &Query) -> Result<SearchResults> {
        let found = self.store.search(inventory, query)?;
        self.print_index_warnings();
        for trouble in &found.errors {
            self.warn(trouble);
        }
        Ok(found)
    }

    /// Schedules indexing of all sessions after the output, if a search found text to index.
    pub(crate) fn index_text_later(&mut self, inventory: Inventory) {
        let has_new_text = self.store.index().is_ok_and(|it| it.needs_text_update());
        match has_new_text {
            true => self.searched_inventory = Some(inventory),
            // The process exits soon; the system frees the memory faster.
            false => std::mem::forget(inventory),
        }
    }

    fn index_text(&mut self, inventory: &Inventory) {
        if let Ok(index) = self.store.index() {
            let progress = Progress::new("indexing for the next search (safe to interrupt)");
            let set_progress = |done, total| progress.set(done, total);
            // The search already reported read errors.
            let _ = index.update_text(inventory, &set_progress, &|| false);
            let _ = index.update_sessions(inventory, &set_progress);
        }
        self.print_index_warnings();
    }

    /// Returns every response once, with the session that pays for it.
    pub(crate) fn ledger(&mut self) -> Ledger {
        let progress = Progress::new("reading logs");
        let set_progress = |done, total| progress.set(done, total);
        let (ledger, troubles) = self.store.costs().ledger(&set_progress);
        drop(progress);
        self.print_index_warnings();
        self.warn_all(&troubles);
        ledger
    }

    /// Returns every response since a time, and all of one session, for frequent queries.
    pub(crate) fn recent_ledger(&mut self, asked: &RecentQuery<'_>) -> LedgerWithSession {
        let (spent, troubles) = self.store.costs().recent(asked);
        self.print_index_warnings();
        self.warn_all(&troubles);
        spent
    }

    /// The state directory of annals.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Indexes everything that is not yet indexed; fails if not all of it can be saved.
    pub(crate) fn update_index(&mut self, inventory: &Inventory) -> Result<()> {
        let progress = Progress::new("building the index");
        let set_progress = |_, done, total| progress.set(done, total);
        let updated = self.store.index()?.update(inventory, &set_progress);
        drop(progress);
        self.print_index_warnings();
        self.warn_all(&updated?);
        Ok(())
    }

    /// Prints the problems with the index, which affect no result.
    fn print_index_warnings(&mut self) {
        let warnings = self.store.index().map(|index| index.take_warnings());
        for warning in warnings.unwrap_or_default() {
            let text = match warning {
                Warning::Unusable { .. } => {
                    format!("{warning} (set ANNALS_STATE_DIR to use another directory)")
                }
                _ => warning.to_string(),
            };
            self.print_note_once(&text);
        }
    }

    /// Prints a note that affects no result, once.
    pub(crate) fn print_note_once(&mut self, text: &str) {
        if !self.printed_notes.iter().any(|said| said == text) {
            print_notice("note:", text);
            self.printed_notes.push(text.to_owned());
        }
    }

    /// Puts back files that a killed process was removing, before anything is removed or restored,
    /// and prints a note for each.
    pub(crate) fn put_back_removed(&mut self) -> Result<()> {
        self.put_back_removed_in(self.store.roots().to_vec())
    }

    /// Like [`Self::put_back_removed`], in roots that may not be those of the store.
    pub(crate) fn put_back_removed_in(&mut self, roots: Vec<Root>) -> Result<()> {
        for path in Store::new(roots).repairs().put_back_removed()? {
            self.print_note_once(&format!(
                "restored {}: annals was interrupted while removing it",
                path.display()
            ));
        }
        Ok(())
    }

    /// Like [`Self::put_back_removed_in`], for commands that only copy from the roots. A file that cannot
    /// be put back does not stop them: it is not read, and that is reported.
    pub(crate) fn try_put_back_removed_in(&mut self, roots: Vec<Root>) {
        if let Err(error) = self.put_back_removed_in(roots) {
            self.print_note_once(&format!("{error:#}"));
        }
    }

    /// Reads the user's settings.
    pub(crate) fn config(&self) -> Result<Config> {
        Config::read(&self.config_dir)
    }

    /// Reads the user's settings, for commands that can do without; prints errors as warnings.
    pub(crate) fn config_or_default(&self) -> Config {
        self.config().unwrap_or_else(|error| {
            self.print_warning(&format!("{error:#} (using the default settings)"));
            Config::default()
        })
    }

    /// Reads the pinned sessions, for commands that only show them; prints errors as warnings.
    pub(crate) fn pins_or_none(&self) -> Pins {
        self.store.retention().pins().unwrap_or_else(|error| {
            match error {
                annals::Error::File(FileError::Io { .. }) => self.store.failures().report(error),
                _ => self.print_warning(&format!("{error} (pins are not shown)")),
            }
            Pins::default()
        })
    }

    /// Prints a warning that affects no result.
    pub(crate) fn print_warning(&self, text: &str) {
        print_notice("warning:", text);
    }

    /// Returns the built-in prices overlaid with the user's.
    pub(crate) fn prices(&mut self) -> Result<Prices> {
        let path = self.prices_file();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            // The user's price list is optional, unless it was named.
            Err(error) if is_not_found(&error) && self.named_prices.is_none() => {
                return Ok(Prices::built_in());
            }
            Err(error) => return Err(annals::Error::io("read", &path, error).into()),
        };
        Ok(Prices::built_in()
            .with_list_bytes(&bytes, &path.display().to_string())
            .map_err(annals::Error::from)?)
    }

    /// Returns the prices, for commands that are not about cost; prints errors in the user's list
    /// as warnings. Errors in a list that was named are returned.
    pub(crate) fn prices_or_built_in(&mut self) -> Result<Prices> {
        let error = match self.prices() {
            Err(error) if self.named_prices.is_none() => error,
            prices => return prices,
        };
        let text = match error.downcast_ref() {
            Some(annals::Error::Prices(list)) => {
                let first = list.faults.first();
                let first = first.map(|first| format!("{}:{first}", list.file));
                let first = first.unwrap_or_else(|| error.to_string());
                match list.count.saturating_sub(1) {
                    0 => first,
                    more => format!("{first}, and {more} more"),
                }
            }
            _ => format!("{error:#}"),
        };
        let advice = "using the built-in prices; `annals prices` shows all errors";
        self.print_warning(&format!("{text} ({advice})"));
        Ok(Prices::built_in())
    }

    /// The path of the user's price list, which need not exist.
    pub(crate) fn prices_file(&self) -> PathBuf {
        let named = self.named_prices.clone();
        named.unwrap_or_else(|| self.config_dir.join("prices.csv"))
    }

    /// Returns all files of the roots, or only the session whose log is named by path `id`, with the
    /// sub-agent `agent`: enough if only the log's end is read.
    pub(crate) fn inventory_of_log_or_all(&mut self, id: &str, agent: Option<&str>) -> Inventory {
        let at = match agent.map(annals::model::AgentId::new).transpose() {
            Ok(agent) => Inventory::for_log(&self.store, id, agent.as_ref()),
            Err(_) => None,
        };
        at.unwrap_or_else(|| self.inventory())
    }

    /// The options for writing.
    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions {
            now: self.is_time_fixed.then_some(self.clock.now),
            ..WriteOptions::default()
        }
    }

    /// The roots that the user named, if any.
    pub(crate) fn only_roots(&self) -> Option<&[Root]> {
        self.named_roots.then(|| self.store.roots())
    }

    /// Returns the root for new sessions.
    pub(crate) fn writable_root(&self) -> Result<Root> {
        let env = environment();
        let mut roots = self.store.roots().iter().filter(|root| {
            let has_rows = self.named_roots && root.layout.row_writer().is_some();
            has_rows || root.layout.writer().is_some()
        });
        if let Some(root) = roots.next() {
            return Ok(root.clone());
        }
        if let Some(root) = self.only_roots().and_then(<[Root]>::first) {
            let name = root.layout.name();
            bail!("annals reads the layout {name} but does not write it");
        }
        // No root exists yet: uses the first default path.
        let layout = self.layouts().find(|layout| layout.writer().is_some());
        let place =
            layout.and_then(|layout| Some((layout, layout.roots(&env).into_iter().next()?)));
        let (layout, path) = place.context("no root for new sessions; name one with --root")?;
        Ok(Root::with_layout(*layout, path))
    }

    /// Opens a session for changes outside its conversation, such as a title or a note, which are
    /// safe while another program writes.
    pub(crate) fn open_for_annotation(&self, files: &SessionFiles) -> Result<SessionWriter> {
        let options = WriteOptions {
            live: true,
            ..self.write_options()
        };
        Ok(self.store.open_writer(files, options)?)
    }

    /// Returns the store for commands that wait. Unless roots are named, it includes default roots
    /// that do not exist yet.
    pub(crate) fn store_with_missing_roots(&self) -> Store {
        let mut roots = self.store.roots().to_vec();
        if !self.named_roots {
            let env = environment();
            for layout in self.layouts() {
                let places = layout.roots(&env).into_iter();
                roots.extend(
                    places.map(|path| self.with_followed_links(Root::with_layout(*layout, path))),
                );
            }
        }
        Store::new(roots).reporting_to(self.store.failures())
    }

    /// Returns the layouts of the wanted agent programs.
    pub(crate) fn layouts(&self) -> impl Iterator<Item = &'static &'static dyn Layout> {
        let layouts = annals::layout::LAYOUTS.iter();
        layouts.filter(|layout| is_wanted(&self.agent_programs, **layout))
    }

    /// The default root paths.
    pub(crate) fn default_root_paths(&self) -> Vec<String> {
        let env = environment();
        // Two layouts may share a path.
        let mut seen = HashSet::new();
        let places = self.layouts().flat_map(|layout| layout.roots(&env));
        let places = places.filter(|path| seen.insert(path.clone()));
        places.map(|path| path.display().to_string()).collect()
    }

    /// Names the default roots for people: paths in the home directory begin with `~`.
    pub(crate) fn default_root_names(&self) -> Vec<String> {
        let home = environment().home;
        let paths = self.default_root_paths().into_iter();
        let name = |path: String| {
            let below = home
                .as_deref()
                .and_then(|home| Path::new(&path).strip_prefix(home).ok());
            below
                .map(|below| format!("~/{}", below.display()))
                .unwrap_or(path)
        };
        paths.map(name).collect()
    }

    /// Finishes the output; returns whether something could not be read.
    pub(crate) fn finish(mut self) -> Result<bool> {
        let searched = self.searched_inventory.take();
        self.print_index_warnings();
        let incomplete = self.is_incomplete();
        self.write_problems()?;
        self.out.finish()?;
        if let Some(inventory) = searched {
            // Releases standard output, so that a reader of the pipe need not wait.
            let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null");
            if let Ok(nowhere) = nowhere {
                let _ = rustix::stdio::dup2_stdout(nowhere);
            }
            self.index_text(&inventory);
        }
        Ok(incomplete)
    }
}

/// Returns whether sessions of a layout are wanted.
fn is_wanted(programs: &[String], layout: &dyn Layout) -> bool {
    programs.is_empty() || programs.iter().any(|name| name == layout.name())
}

/// Leaks `value`; the process is about to exit, and freeing large values takes long.
pub(crate) fn leak<T>(value: T) {
    std::mem::forget(value);
}

/// Prints a notice on standard error.
fn print_notice(kind: &str, text: &str) {
    stderr_line!("{} {}", paint(WARNING, kind), paint(PLAIN, text));
}

/// Parses the value of `--root`. The root must exist unless its layout is given too. The path is
/// made absolute, because the trash stores it.
fn named_roots(text: &str) -> Result<Vec<Root>> {
    let mut roots = Root::parse(text)?;
    for root in &mut roots {
        if let Ok(path) = std::path::absolute(&root.path) {
            root.path = path;
        }
    }
    Ok(roots)
}
