//! What a command works with: the store, the clock, and where its output goes.

mod environment;
mod problems;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use annals::archive::Archive;
use annals::cost::{Ledger, PriceFn, Prices, Tally};
use annals::index::{Index, RecentQuery, StoreSearch, Warning};
use annals::layout::{Chorus, Layout as _};
use annals::retain::Pins;
use annals::search::{Query, SearchResults};
use annals::store::{
    ConversationInfo, Inventory, LedgerWithSession, ReadFailures, Root, SessionFiles, SessionInfo,
    SessionWriter, Store, Target, WriteOptions,
};
use anyhow::{Context as _, Result};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::environment::{config_dir, environment, is_not_found, state_dir, system_zone, variable};
use self::problems::Problems;
use crate::cli::Global;
use crate::commands::filter::session_spellings;
use crate::config::Config;
use crate::render::out::Out;
use crate::render::progress::Progress;
use crate::render::style::{PLAIN, WARNING, paint};
use crate::render::time::Clock;

/// The word for the session that was written to last.
const LATEST: &str = "latest";

/// Whether a text is the word for the session that was written to last.
pub(crate) fn is_latest(text: &str) -> bool {
    text == LATEST
}

/// What a command works with.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) out: Out,
    pub(crate) clock: Clock,
    pub(crate) json: bool,
    /// The time was given from outside.
    is_time_fixed: bool,
    pub(crate) verbose: bool,
    /// The user named the roots.
    pub(crate) named_roots: bool,
    /// The user named a list of prices.
    named_prices: Option<PathBuf>,
    /// Nothing that was read before may be used.
    pub(crate) no_index: bool,
    /// Where annals keeps its own things.
    state_dir: PathBuf,
    /// Where the user's own settings lie.
    pub(crate) config_dir: PathBuf,
    /// Links in roots that the user wants followed.
    followed_links: Vec<PathBuf>,
    problems: Problems,
    /// What was remarked already: commands may open the catalogue more than once.
    printed_notes: Vec<String>,
    /// What was searched, and may hold words that the catalogue does not know yet.
    searched_inventory: Option<Inventory>,
    /// The catalogue, once someone asked for it.
    index: Option<Index>,
    /// The last search found such words.
    has_unindexed_text: bool,
}

impl Context {
    pub(crate) fn new(global: &Global) -> Result<Self> {
        let env = environment();
        let state_dir = state_dir(&env);
        let failures = ReadFailures::default();
        let roots = if global.root.is_empty() {
            let (mut roots, refused) = Root::discover(&env);
            for why in refused {
                print_notice("note:", &format!("{why}; --root reads it"));
            }
            // What is kept of a root that is gone is still there to be seen.
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
        // Settings that cannot be read follow no link; who needs them says what is wrong.
        let config_dir = config_dir(&env);
        let followed = Config::read(&config_dir).map_or_else(|_| Vec::new(), |it| it.follow);
        let roots = roots.into_iter().map(|root| root.follow_links(&followed));
        let store = Store::new(roots.collect()).reporting_to(&failures);
        let store = store.with_state(&state_dir);
        let fixed: Option<Timestamp> = match env.vars.get("ANNALS_NOW") {
            Some(text) => Some(text.parse().context("ANNALS_NOW is not a time")?),
            None => None,
        };
        let now = fixed.unwrap_or_else(Timestamp::now);
        let zone = system_zone(&env).unwrap_or_else(|name| {
            let text =
                format!("there is no time zone `{name}`, which TZ names; UTC is used instead");
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
            no_index: global.no_index,
            state_dir,
            named_prices: global.prices.clone(),
            config_dir,
            followed_links: followed,
            problems: Problems::default(),
            printed_notes: Vec::new(),
            searched_inventory: None,
            index: None,
            has_unindexed_text: false,
        })
    }

    /// A root that is read like those of the store: links that the user wants followed are.
    pub(crate) fn with_followed_links(&self, root: Root) -> Root {
        let root = root.follow_links(&self.followed_links);
        root.reporting_to(self.store.failures())
    }

    /// Everything that lies in the roots; what could not be looked at is told on the way.
    pub(crate) fn inventory(&mut self) -> Inventory {
        let inventory = match self.open_existing_index() {
            Some(mut catalogue) => {
                let inventory = catalogue.inventory(&self.store);
                self.return_index(catalogue);
                inventory
            }
            None => self.store.inventory(),
        };
        self.warn_all(&inventory.errors);
        inventory
    }

    /// Everything that lies in the roots, for verbs that change it or look after it: nothing of the
    /// archive.
    pub(crate) fn inventory_without_archive(&mut self) -> Inventory {
        let inventory = self.store.inventory_without_archive();
        self.warn_all(&inventory.errors);
        inventory
    }

    /// The same for a check, which reports links, and what is no regular file, by itself.
    pub(crate) fn inventory_to_check(&mut self) -> Inventory {
        let inventory = self.store.inventory_without_archive();
        let no_files = inventory.errors.iter().filter(|it| it.is_no_file());
        let paths = no_files.filter_map(|it| it.path().map(Path::to_owned));
        self.leave_no_files(paths);
        self.warn_all(&inventory.errors);
        inventory
    }

    /// Sums up all sessions, the most recent first.
    pub(crate) fn sessions(&mut self, inventory: &Inventory) -> Vec<SessionInfo> {
        let mut sessions = self.unsorted_sessions(inventory);
        // Rows are large: each is moved once.
        sessions.sort_by_cached_key(|session| (Reverse(session.updated), session.id.clone()));
        sessions
    }

    /// Sums up all sessions, for those who show few of them.
    pub(crate) fn unsorted_sessions(&mut self, inventory: &Inventory) -> Vec<SessionInfo> {
        self.list_sessions(inventory, None)
    }

    /// Sums up the most recent sessions, the newest first.
    pub(crate) fn newest_sessions(
        &mut self,
        inventory: &Inventory,
        limit: usize,
    ) -> Vec<SessionInfo> {
        self.list_sessions(inventory, Some(limit))
    }

    fn list_sessions(&mut self, inventory: &Inventory, newest: Option<usize>) -> Vec<SessionInfo> {
        let progress = Progress::new("reading sessions");
        let told = |done, total| progress.set(done, total);
        let rows = match (self.open_index(), newest) {
            (Some(mut catalogue), _) => {
                let store = &self.store;
                let rows = match newest {
                    None => catalogue.sessions(store, inventory, &told),
                    Some(limit) => catalogue.newest_sessions(store, inventory, limit, &told),
                };
                drop(progress);
                self.return_index(catalogue);
                rows
            }
            (None, None) => self.store.sessions(inventory, &told),
            (None, Some(limit)) => self.store.newest_sessions(inventory, limit, &told),
        };
        let mut troubles = Vec::new();
        let read =
            |row: annals::Result<SessionInfo>| row.map_err(|error| troubles.push(error)).ok();
        let sessions = rows.into_iter().filter_map(read).collect();
        // It tells the projects of the sessions.
        let roots = self.store.roots().iter();
        let roots = roots.filter(|root| root.layout.name() == Chorus.name());
        troubles.extend(roots.filter_map(|root| self.store.config(root).err()));
        troubles.iter().for_each(|error| self.warn(error));
        sessions
    }

    /// The conversations of some sessions, by their places in the inventory: each with the place of its
    /// session and what it comes to.
    pub(crate) fn conversations(
        &mut self,
        inventory: &Inventory,
        wanted: &[usize],
        price: PriceFn<'_>,
    ) -> Vec<(usize, ConversationInfo, Tally)> {
        let progress = Progress::new("reading conversations");
        let told = |done, total| progress.set(done, total);
        let rows = match self.open_index() {
            Some(mut catalogue) => {
                let rows = catalogue.conversations(&self.store, inventory, wanted, price, &told);
                drop(progress);
                self.return_index(catalogue);
                rows
            }
            None => self.store.conversations(inventory, wanted, price, &told),
        };
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

    /// Looks for something in all sessions.
    pub(crate) fn search(&mut self, inventory: &Inventory, query: &Query) -> Result<SearchResults> {
        let found = match self.open_index() {
            Some(mut catalogue) => {
                let found = catalogue.search(inventory, query)?;
                self.has_unindexed_text =
                    catalogue.needs_text_update() && !catalogue.is_read_only();
                self.return_index(catalogue);
                found
            }
            None => self.store.search(inventory, query)?,
        };
        for trouble in &found.errors {
            self.warn(trouble);
        }
        Ok(found)
    }

    /// Looks for something in all sessions there are; what could not be looked at is told on the way.
    pub(crate) fn search_all(&mut self, query: &Query) -> Result<StoreSearch> {
        let searched = match self.open_index() {
            Some(mut catalogue) => {
                let searched = catalogue.search_all(&self.store, query)?;
                self.has_unindexed_text =
                    catalogue.needs_text_update() && !catalogue.is_read_only();
                self.return_index(catalogue);
                searched
            }
            None => {
                let inventory = self.store.inventory();
                let found = self.store.search(&inventory, query)?;
                StoreSearch::new(inventory, found)
            }
        };
        self.warn_all(&searched.inventory.errors);
        for trouble in &searched.found.errors {
            self.warn(trouble);
        }
        Ok(searched)
    }

    /// Learns the words of all sessions once everything is answered, if a search found any to learn.
    pub(crate) fn index_text_later(&mut self, inventory: Inventory) {
        match self.has_unindexed_text {
            true => self.searched_inventory = Some(inventory),
            // The program ends soon: the system takes memory back at once, and not piece by piece.
            false => std::mem::forget(inventory),
        }
    }

    fn index_text(&mut self, inventory: &Inventory) {
        if let Some(mut catalogue) = self.open_index() {
            let progress = Progress::new("indexing for the next search (it is safe to stop)");
            let told = |done, total| progress.set(done, total);
            // What could not be read was told by the search.
            catalogue.index_text(inventory, &told, &|| false);
            drop(progress);
            self.return_index(catalogue);
        }
    }

    /// Every response once, with the session that pays for it.
    pub(crate) fn ledger(&mut self) -> Ledger {
        let progress = Progress::new("reading logs");
        let told = |done, total| progress.set(done, total);
        let (ledger, troubles) = match self.open_index() {
            Some(mut catalogue) => {
                let read = catalogue.ledger(&self.store, &told);
                self.return_index(catalogue);
                read
            }
            None => self.store.ledger(&told),
        };
        drop(progress);
        self.warn_all(&troubles);
        ledger
    }

    /// Every response since some time, and all of one session, for those who ask often.
    pub(crate) fn recent_ledger(&mut self, asked: &RecentQuery<'_>) -> LedgerWithSession {
        let (spent, troubles) = match self.open_index() {
            Some(mut catalogue) => {
                let read = catalogue.recent(&self.store, asked);
                self.return_index(catalogue);
                read
            }
            None => self.store.ledger_with_session(asked.session),
        };
        self.warn_all(&troubles);
        spent
    }

    /// What was read of logs before; without it the answers are the same, and take longer.
    fn open_index(&mut self) -> Option<Index> {
        if self.no_index {
            return None;
        }
        if let Some(catalogue) = self.index.take() {
            return Some(catalogue);
        }
        match Index::open(&self.state_dir) {
            Ok(mut catalogue) => {
                self.print_index_warnings(&mut catalogue);
                Some(catalogue)
            }
            Err(error) => {
                let advice = "ANNALS_STATE_DIR names another place";
                self.print_note_once(&format!("{error}; all logs are read instead ({advice})"));
                None
            }
        }
    }

    /// The same for those who do not need it enough to make one, or to say that it cannot be used.
    fn open_existing_index(&mut self) -> Option<Index> {
        if self.no_index || self.index.is_some() {
            return self.index.take();
        }
        let mut catalogue = Index::open_existing(&self.state_dir).ok().flatten()?;
        self.print_index_warnings(&mut catalogue);
        Some(catalogue)
    }

    /// Keeps it for who asks next.
    fn return_index(&mut self, mut catalogue: Index) {
        self.print_index_warnings(&mut catalogue);
        self.index = Some(catalogue);
    }

    /// Where annals keeps its own things.
    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Reads all that is not known yet, and keeps it; fails if not all of it can be kept.
    pub(crate) fn update_index(&mut self, inventory: &Inventory) -> Result<()> {
        let mut catalogue = Index::open(&self.state_dir)?;
        self.print_index_warnings(&mut catalogue);
        if catalogue.is_read_only() {
            let path = Index::path(&self.state_dir);
            let text = format!("the index {} is read-only", path.display());
            return Err(annals::Error::refused(text).into());
        }
        let progress = Progress::new("building the index");
        let told = |_, done, total| progress.set(done, total);
        let troubles = catalogue.update(&self.store, inventory, &told);
        drop(progress);
        self.warn_all(&troubles);
        for notice in catalogue.take_warnings() {
            // To keep it was all that was asked.
            if let Warning::SaveFailed { why } = notice {
                let text = format!("the index could not be written ({why})");
                return Err(annals::Error::refused(text).into());
            }
            self.print_note_once(&notice.to_string());
        }
        Ok(())
    }

    fn print_index_warnings(&mut self, catalogue: &mut Index) {
        for notice in catalogue.take_warnings() {
            self.print_note_once(&notice.to_string());
        }
    }

    /// Says something on which no answer depends, once.
    pub(crate) fn print_note_once(&mut self, text: &str) {
        if !self.printed_notes.iter().any(|said| said == text) {
            print_notice("note:", text);
            self.printed_notes.push(text.to_owned());
        }
    }

    /// Puts back what a killed process was removing, before anything is removed or restored, and says so.
    pub(crate) fn put_back_removed(&mut self) -> Result<()> {
        for path in self.store.put_back_removed()? {
            self.print_note_once(&format!(
                "{} is back: annals was stopped while it removed the file",
                path.display()
            ));
        }
        Ok(())
    }

    /// The user's own settings.
    pub(crate) fn config(&self) -> Result<Config> {
        Config::read(&self.config_dir)
    }

    /// The user's own settings for those who do not ask about money; what is wrong with them is told.
    pub(crate) fn config_or_default(&self) -> Config {
        self.config().unwrap_or_else(|error| {
            self.print_warning(&format!("{error:#} (no settings are used)"));
            Config::default()
        })
    }

    /// The pinned sessions for those who only show them; what is wrong with them is told.
    pub(crate) fn pins_or_none(&self) -> Pins {
        self.store.pins().unwrap_or_else(|error| {
            match error {
                annals::Error::Io { .. } => self.store.failures().report(error),
                _ => self.print_warning(&format!("{error} (no session is shown as pinned)")),
            }
            Pins::default()
        })
    }

    /// Tells of something that is wrong and changes nothing in what can be answered.
    pub(crate) fn print_warning(&self, text: &str) {
        print_notice("warning:", text);
    }

    /// The built-in prices with the user's own over them.
    pub(crate) fn prices(&mut self) -> Result<Prices> {
        let path = self.prices_file();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            // Nobody needs prices of their own; a list that was named must be there.
            Err(error) if is_not_found(&error) && self.named_prices.is_none() => {
                return Ok(Prices::built_in());
            }
            Err(error) => return Err(annals::Error::io("read", &path, error).into()),
        };
        Ok(Prices::built_in().with_list_bytes(&bytes, &path.display().to_string())?)
    }

    /// The prices for those who do not ask about money; what is wrong with the user's own is told. A list that was
    /// named must be right.
    pub(crate) fn prices_or_built_in(&mut self) -> Result<Prices> {
        let error = match self.prices() {
            Err(error) if self.named_prices.is_none() => error,
            prices => return prices,
        };
        let text = match error.downcast_ref() {
            Some(annals::Error::Prices {
                file,
                faults,
                count,
            }) => {
                let first = faults.first().map(|first| format!("{file}:{first}"));
                let first = first.unwrap_or_else(|| error.to_string());
                match count.saturating_sub(1) {
                    0 => first,
                    more => format!("{first}, and {more} more"),
                }
            }
            _ => format!("{error:#}"),
        };
        let advice = "the built-in prices are used; `annals prices` tells all";
        self.print_warning(&format!("{text} ({advice})"));
        Ok(Prices::built_in())
    }

    /// Where the user's own prices lie, or would.
    pub(crate) fn prices_file(&self) -> PathBuf {
        let named = self.named_prices.clone();
        named.unwrap_or_else(|| self.config_dir.join("prices.csv"))
    }

    /// Finds `SESSION[@MESSAGE]` or the path of a log. `latest` is the session of the current directory
    /// that was written to last, or of all directories if this one has none.
    pub(crate) fn find(&mut self, id: &str) -> Result<Target> {
        let inventory = self.inventory();
        self.find_in(&inventory, id)
    }

    /// The same for those who have looked at the roots already.
    pub(crate) fn find_in(&mut self, inventory: &Inventory, id: &str) -> Result<Target> {
        let id = self.resolve_latest(inventory, id, true)?;
        Ok(self.store.find(inventory, &id)?)
    }

    /// The same for those who change the session: `latest` is only looked for in the current directory.
    pub(crate) fn find_to_write(&mut self, id: &str) -> Result<Target> {
        let inventory = self.inventory();
        self.find_to_write_in(&inventory, id)
    }

    /// The same for those who have looked at the roots already.
    pub(crate) fn find_to_write_in(&mut self, inventory: &Inventory, id: &str) -> Result<Target> {
        let id = self.resolve_latest(inventory, id, false)?;
        Ok(self.store.find(inventory, &id)?)
    }

    /// Puts a session's id in the place of `latest`.
    pub(crate) fn resolve_latest<'a>(
        &mut self,
        inventory: &Inventory,
        id: &'a str,
        anywhere: bool,
    ) -> Result<Cow<'a, str>> {
        let message = match id.strip_prefix(LATEST) {
            Some("") => None,
            Some(message) if message.starts_with('@') => Some(message),
            _ => return Ok(Cow::Borrowed(id)),
        };
        // A session may be called so.
        let called =
            |files: &&SessionFiles| files.id.as_str() == LATEST || files.id.matches_name(LATEST);
        if inventory.sessions.iter().any(|files| called(&files)) {
            return Ok(Cow::Borrowed(id));
        }
        let cwd = std::env::current_dir().and_then(std::fs::canonicalize);
        let cwd = cwd.unwrap_or_default();
        let cwd = cwd.to_string_lossy();
        let sessions = self.sessions(inventory);
        let dirs = session_spellings(".", &sessions);
        let mut newest_first = sessions.iter();
        let here = newest_first.find(|session| {
            dirs.iter()
                .any(|dir| session.matches_project_or_earlier(dir))
        });
        let found = match (here, sessions.first()) {
            (Some(here), _) => here,
            (None, Some(newest)) if anywhere => {
                let text = format!(
                    "no session ran in {cwd}; the latest of all is {} in {}",
                    newest.id, newest.project.path
                );
                self.print_note_once(&text);
                newest
            }
            (None, Some(newest)) => anyhow::bail!(
                "no session ran in {cwd}, so `latest` names none to write to; the latest of all is {} in {}",
                newest.id,
                newest.project.path
            ),
            (None, None) => {
                return Err(annals::Error::NotFound {
                    what: "session",
                    id: id.to_owned(),
                }
                .into());
            }
        };
        Ok(Cow::Owned(match message {
            None => found.id.to_string(),
            Some(message) => format!("{}{message}", found.id),
        }))
    }

    /// Puts a session's id in the place of `latest`, for those who have not looked at the roots.
    pub(crate) fn resolve_latest_id(&mut self, id: &str) -> Result<String> {
        if !is_latest(id) {
            return Ok(id.to_owned());
        }
        let inventory = self.inventory();
        Ok(self.resolve_latest(&inventory, id, false)?.into_owned())
    }

    /// What lies in the roots, or only the session whose log `id` names by itself: enough where only
    /// the log's end is read.
    pub(crate) fn inventory_of_log_or_all(&mut self, id: &str) -> Inventory {
        let at = self.store.inventory_of_log(id);
        at.unwrap_or_else(|| self.inventory())
    }

    /// Finds a session where a message of it would make no sense.
    pub(crate) fn find_session(&mut self, id: &str) -> Result<SessionFiles> {
        let target = self.find_to_write(id)?;
        target.refuse_agent()?;
        if let Some(message) = target.message {
            anyhow::bail!("`{id}` names the message {message}; this takes a whole session");
        }
        Ok(target.files)
    }

    /// How changes are written.
    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions {
            now: self.is_time_fixed.then_some(self.clock.now),
            ..WriteOptions::default()
        }
    }

    /// The roots that were named, where only those are meant.
    pub(crate) fn only_roots(&self) -> Option<&[Root]> {
        self.named_roots.then(|| self.store.roots())
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
        Ok(Root::with_layout(*layout, path))
    }

    /// Opens a session for what takes no part in its conversation, such as a title or a note: that
    /// may go beside what another program writes.
    pub(crate) fn open_for_annotation(&self, files: &SessionFiles) -> Result<SessionWriter> {
        let options = WriteOptions {
            live: true,
            ..self.write_options()
        };
        Ok(self.store.open_writer(files, options)?)
    }

    /// The store for those who wait: where no root is named, default places that do not exist yet are
    /// of it too.
    pub(crate) fn store_with_missing_roots(&self) -> Store {
        let mut roots = self.store.roots().to_vec();
        if !self.named_roots {
            let env = environment();
            for layout in annals::layout::LAYOUTS {
                let places = layout.roots(&env).into_iter();
                roots.extend(
                    places.map(|path| self.with_followed_links(Root::with_layout(*layout, path))),
                );
            }
        }
        Store::new(roots).reporting_to(self.store.failures())
    }

    /// Where sessions would lie if no root is named.
    pub(crate) fn default_root_paths(&self) -> Vec<String> {
        let env = environment();
        let layouts = annals::layout::LAYOUTS.iter();
        // Two layouts may share a place.
        let mut seen = HashSet::new();
        let places = layouts.flat_map(|layout| layout.roots(&env));
        let places = places.filter(|path| seen.insert(path.clone()));
        places.map(|path| path.display().to_string()).collect()
    }

    /// Ends the answer; tells whether something could not be read that belongs to it.
    pub(crate) fn finish(mut self) -> Result<bool> {
        let searched = self.searched_inventory.take();
        let incomplete = self.is_incomplete();
        self.write_problems()?;
        self.out.finish()?;
        if let Some(inventory) = searched {
            // Whoever reads the answer need not wait.
            let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null");
            if let Ok(nowhere) = nowhere {
                let _ = rustix::stdio::dup2_stdout(nowhere);
            }
            self.index_text(&inventory);
        }
        Ok(incomplete)
    }
}

/// Leaves what takes much memory to the end of the program: to give it back piece by piece would take
/// longer than most of what is done with it.
pub(crate) fn leak<T>(value: T) {
    std::mem::forget(value);
}

/// Says something beside the answer.
fn print_notice(kind: &str, text: &str) {
    anstream::eprintln!("{} {}", paint(WARNING, kind), paint(PLAIN, text));
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
