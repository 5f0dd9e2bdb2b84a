//! Facts about layouts and writers, as data.
//!
//! What a layout says without looking at a file is a field here, not a method of a trait. So is what
//! only one layout has: its functions are optional. `dyn Layout` and `dyn Writer` have a method for
//! each field.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::error::Result;
use crate::model::{Artifact, Entry, FlawKind, ListRow, RowFormat};

use super::{Layout, ListUpdate, Needle, RowUpdate, Writer};

/// Facts about a layout.
#[derive(Clone, Copy, Debug)]
pub struct LayoutSpec {
    /// Name in flags and JSON.
    pub name: &'static str,
    /// Name of the layout's directory within a project, if it has one; empty if its files are in the
    /// project's own directory. It is searched for in the current directory and its ancestors.
    pub project_dir: Option<&'static str>,
    /// Names of the session attributes that only this layout has.
    pub attributes: &'static [&'static str],
    /// Number of days after which the layout's program deletes sessions, unless its settings differ.
    pub retention_days: Option<u64>,
    /// Whether those days count from the modification time of the session's file. If not, they count
    /// from the newest entry.
    pub expires_by_mtime: bool,
    /// Whether a session's age is that of its log file instead of its newest entry, as in the
    /// clean-up of the layout's program.
    pub ages_by_file: bool,
    /// Whether the layout's program locks `FILE.lock` while it writes the log `FILE`, and may replace
    /// the log by a copy under that lock.
    pub has_lock_files: bool,
    /// Returns the file that the layout's program locks while it has the session of a log open.
    pub thread_lock: Option<fn(&Artifact) -> Option<PathBuf>>,
    /// A file in which the layout's program lists its sessions and that only it writes, with the
    /// consequence for a new session.
    pub unlisted_in: Option<(&'static str, &'static str)>,
    /// A database that the layout's program derives from its logs. Only
    /// [`RowFormat::sessions`](crate::model::RowFormat::sessions) is read.
    pub derived_database: Option<&'static RowFormat>,
    /// Whether the layout's program reads a conversation by following parent links from its end. Such
    /// a program loses everything before a broken link.
    pub follows_parent_links: bool,
    /// An older version of the program, still in use, that resumes at the newest entry and reads one
    /// chain of parallel calls.
    pub older_client: Option<&'static str>,
    /// What annals does not change in a database, and what does; `None` if nothing of the layout is in a
    /// database that is written.
    pub limits: Option<&'static str>,
    /// Whether the root is one file instead of a directory.
    pub root_is_file: bool,
    /// Text in the first record of each log, if another layout has logs at the same paths.
    pub first_record: Option<&'static str>,
    /// Whether settings, and files of the root that the layout does not know, may contain keys, so that
    /// they are not copied.
    pub has_secret_files: bool,
    /// Pattern contained in every record that has usage, so that other records can be skipped; `None`
    /// if every record must be read.
    pub usage_needle: Option<Needle>,
    /// Returns an absolute directory as the layout's program writes it, if that program keeps
    /// symbolic links; `None` if the program resolves them.
    pub spelled_directory: Option<fn(&str) -> String>,
    /// Logs that a text names without a lookup.
    pub log_names: Option<LogNames>,
    /// Returns the possible log files of the program run that started at a time, the usual name
    /// first; `None` if the program logs its runs elsewhere.
    pub run_logs: Option<fn(Timestamp) -> Vec<Artifact>>,
    /// Returns whether a volume with these entries is not continued: the layout's program resumes only
    /// one file of a session, which is another one. `None` if the last volume is continued.
    pub is_idle_volume: Option<fn(&[Entry]) -> bool>,
    /// Returns the companion file of a log, which stores what the layout's program would not accept
    /// in the log itself.
    pub companion: Option<fn(&Artifact) -> Option<Artifact>>,
}

/// Logs that a text names without a lookup, such as a project's directory and a day.
#[derive(Clone, Copy, Debug)]
pub struct LogNames {
    /// Returns the log that a text names, whether or not it exists.
    pub log: fn(&str) -> Option<Artifact>,
    /// Returns why a text that looks like such a name is invalid.
    pub fault: fn(&str) -> Option<String>,
}

impl LayoutSpec {
    /// Facts about a layout of which nothing but the name is special.
    pub const fn new(name: &'static str) -> Self {
        LayoutSpec {
            name,
            project_dir: None,
            attributes: &[],
            retention_days: None,
            expires_by_mtime: true,
            ages_by_file: false,
            has_lock_files: false,
            thread_lock: None,
            unlisted_in: None,
            derived_database: None,
            follows_parent_links: false,
            older_client: None,
            limits: None,
            root_is_file: false,
            first_record: None,
            has_secret_files: false,
            usage_needle: None,
            spelled_directory: None,
            log_names: None,
            run_logs: None,
            is_idle_volume: None,
            companion: None,
        }
    }
}

impl<'a> dyn Layout + 'a {
    /// See [`LayoutSpec::name`].
    pub fn name(&self) -> &'static str {
        self.spec().name
    }

    /// See [`LayoutSpec::project_dir`].
    pub fn project_dir(&self) -> Option<&'static str> {
        self.spec().project_dir
    }

    /// See [`LayoutSpec::attributes`].
    pub fn attributes(&self) -> &'static [&'static str] {
        self.spec().attributes
    }

    /// See [`LayoutSpec::retention_days`].
    pub fn retention_days(&self) -> Option<u64> {
        self.spec().retention_days
    }

    /// See [`LayoutSpec::expires_by_mtime`].
    pub fn expires_by_mtime(&self) -> bool {
        self.spec().expires_by_mtime
    }

    /// See [`LayoutSpec::ages_by_file`].
    pub fn ages_by_file(&self) -> bool {
        self.spec().ages_by_file
    }

    /// See [`LayoutSpec::has_lock_files`].
    pub fn has_lock_files(&self) -> bool {
        self.spec().has_lock_files
    }

    /// See [`LayoutSpec::follows_parent_links`].
    pub fn follows_parent_links(&self) -> bool {
        self.spec().follows_parent_links
    }

    /// See [`LayoutSpec::root_is_file`].
    pub fn root_is_file(&self) -> bool {
        self.spec().root_is_file
    }

    /// See [`LayoutSpec::usage_needle`].
    pub fn usage_needle(&self) -> Option<Needle> {
        self.spec().usage_needle
    }

    /// See [`LayoutSpec::spelled_directory`].
    pub fn spelled_directory(&self, directory: &str) -> Option<String> {
        self.spec().spelled_directory.map(|spell| spell(directory))
    }

    /// See [`LogNames::log`].
    pub fn log_from_name(&self, text: &str) -> Option<Artifact> {
        self.spec().log_names.and_then(|names| (names.log)(text))
    }

    /// See [`LogNames::fault`].
    pub fn log_name_fault(&self, text: &str) -> Option<String> {
        self.spec().log_names.and_then(|names| (names.fault)(text))
    }

    /// See [`LayoutSpec::run_logs`].
    pub fn run_logs(&self, started: Timestamp) -> Vec<Artifact> {
        self.spec()
            .run_logs
            .map_or_else(Vec::new, |logs| logs(started))
    }

    /// See [`LayoutSpec::companion`].
    pub fn companion(&self, log: &Artifact) -> Option<Artifact> {
        self.spec().companion.and_then(|companion| companion(log))
    }

    /// See [`LayoutChecks::is_program_file`].
    pub fn is_program_file(&self, path: &std::path::Path) -> bool {
        self.checks().is_program_file(path)
    }

    /// See [`LayoutChecks::is_misplaced`].
    pub fn is_misplaced(&self, path: &std::path::Path) -> bool {
        self.checks().is_misplaced(path)
    }

    /// See [`LayoutChecks::record_fault`].
    pub fn record_fault(
        &self,
        log: &Artifact,
        first: &str,
        record: &str,
    ) -> Option<(FlawKind, String)> {
        self.checks().record_fault(log, first, record)
    }

    /// See [`LayoutChecks::required_files`].
    pub fn required_files(&self, log: &Artifact) -> Vec<Artifact> {
        self.checks().required_files(log)
    }
}

/// Rules for checks of a layout's files.
pub trait LayoutChecks: Sync {
    /// Returns whether the file, or a directory that is not scanned, belongs to the layout's program
    /// although it is not an artifact.
    fn is_program_file(&self, path: &std::path::Path) -> bool {
        let _ = path;
        false
    }

    /// Returns whether a file is stored with its session but in a place where the layout's program
    /// puts no such file, so nothing reads it.
    fn is_misplaced(&self, path: &std::path::Path) -> bool {
        let _ = path;
        false
    }

    /// Returns why the layout's program would reject a record, or not accept it as part of this log:
    /// the kind of flaw and a description. `first` is the log's first record.
    fn record_fault(
        &self,
        log: &Artifact,
        first: &str,
        record: &str,
    ) -> Option<(FlawKind, String)> {
        let _ = (log, first, record);
        None
    }

    /// Files that the layout's program always keeps with a session log.
    fn required_files(&self, log: &Artifact) -> Vec<Artifact> {
        let _ = log;
        Vec::new()
    }
}

/// Facts about a writer.
#[derive(Clone, Copy, Debug)]
pub struct WriterSpec {
    /// Draft members that only this layout has: see [`Draft::members`](crate::model::Draft::members).
    /// A draft with any other member is rejected before anything is written.
    pub draft_members: &'static [&'static str],
    /// Members that a new session may have: see [`NewSession::members`](super::NewSession::members).
    /// They are in [`AppendState::writer_state`](super::AppendState::writer_state) when the session
    /// begins.
    pub session_members: &'static [&'static str],
    /// Session members that a fork keeps.
    pub fork_members: &'static [&'static str],
    /// Whether the first record of a session contains its title
    /// ([`AppendState::TITLE`](super::AppendState::TITLE)). If not, the store adds the title
    /// afterwards.
    pub title_in_header: bool,
    /// Whether a session's title is stored in the session list instead of its log. Such a session has
    /// its title as soon as it is listed.
    pub title_in_session_list: bool,
    /// Whether each record must be later than the one before, because the layout's program orders
    /// records by time.
    pub needs_rising_times: bool,
    /// Whether tool result records name the tool.
    pub results_name_tools: bool,
    /// Name of a reply's member with its cost in dollars.
    pub cost_member: Option<&'static str>,
    /// Whether the layout's program resumes at the last line of a log, whatever its type and time.
    pub resumes_at_last_line: bool,
    /// Whether a reply is one record: the program takes further ones for replies of their own, and misses
    /// the results of the calls before them.
    pub has_whole_replies: bool,
    /// Whether a fork copies each entry of a record as a record of its own. [`Writer::copy_record`] gets
    /// the whole record, and returns nothing for an entry that another one contains.
    pub copies_entries: bool,
    /// Whether the layout's program sends all records in file order, so that a session has one branch.
    /// Other branches of a converted session are in records that the program skips.
    pub is_linear: bool,
}

impl WriterSpec {
    /// Facts about a writer of which nothing is special.
    pub const DEFAULT: WriterSpec = WriterSpec {
        draft_members: &[],
        session_members: &[],
        fork_members: &[],
        title_in_header: false,
        title_in_session_list: false,
        needs_rising_times: false,
        results_name_tools: false,
        cost_member: None,
        resumes_at_last_line: false,
        has_whole_replies: false,
        copies_entries: false,
        is_linear: false,
    };
}

/// Session lists: indexes that a layout's program keeps of its conversations.
pub trait SessionListWriter: Sync {
    /// Returns the session list that contains a log.
    fn session_list(&self, log: &Artifact) -> Option<Artifact>;

    /// Returns the folder for new sessions of a directory, according to the root's configuration.
    fn default_folder(&self, rows: &[ListRow], directory: &str) -> Option<String>;

    /// Returns why the layout's program cannot read the root's configuration, if these are its bytes.
    fn config_fault(&self, bytes: &[u8]) -> Option<String>;

    /// Returns the root's configuration with the folders of new logs added. `None` if it already
    /// lists them, or the file cannot be parsed.
    fn register_folders(&self, old: Option<&[u8]>, rows: &[RowUpdate]) -> Option<Vec<u8>>;

    /// Updates a session list from its logs.
    ///
    /// With `whole`, the rows are those of all logs that the list should contain. A missing or damaged
    /// list can only be rebuilt from all of them.
    fn update_session_list(
        &self,
        session_list: &Artifact,
        old: Option<&[u8]>,
        rows: &[RowUpdate],
        whole: bool,
    ) -> Result<ListUpdate>;

    /// Rejects an invalid value of a session member: see [`WriterSpec::session_members`].
    fn check_session_member(&self, name: &str, json: &str) -> Result<()>;

    /// Returns whether a session list is empty, so that it can be removed with the last log it
    /// listed.
    fn is_session_list_empty(&self, session_list: &Artifact, bytes: &[u8]) -> bool;
}

impl<'a> dyn Writer + 'a {
    /// See [`WriterSpec::cost_member`].
    pub fn cost_member(&self) -> Option<&'static str> {
        self.writer_spec().cost_member
    }

    /// See [`WriterSpec::draft_members`].
    pub fn draft_members(&self) -> &'static [&'static str] {
        self.writer_spec().draft_members
    }

    /// See [`WriterSpec::session_members`].
    pub fn session_members(&self) -> &'static [&'static str] {
        self.writer_spec().session_members
    }

    /// See [`WriterSpec::fork_members`].
    pub fn fork_members(&self) -> &'static [&'static str] {
        self.writer_spec().fork_members
    }

    /// See [`WriterSpec::title_in_header`].
    pub fn title_in_header(&self) -> bool {
        self.writer_spec().title_in_header
    }

    /// See [`WriterSpec::title_in_session_list`].
    pub fn title_in_session_list(&self) -> bool {
        self.writer_spec().title_in_session_list
    }

    /// See [`WriterSpec::needs_rising_times`].
    pub fn needs_rising_times(&self) -> bool {
        self.writer_spec().needs_rising_times
    }

    /// See [`WriterSpec::results_name_tools`].
    pub fn results_name_tools(&self) -> bool {
        self.writer_spec().results_name_tools
    }

    /// See [`WriterSpec::resumes_at_last_line`].
    pub fn resumes_at_last_line(&self) -> bool {
        self.writer_spec().resumes_at_last_line
    }

    /// See [`WriterSpec::has_whole_replies`].
    pub fn has_whole_replies(&self) -> bool {
        self.writer_spec().has_whole_replies
    }

    /// See [`WriterSpec::is_linear`].
    pub fn is_linear(&self) -> bool {
        self.writer_spec().is_linear
    }

    /// See [`SessionListWriter::session_list`].
    pub fn session_list(&self, log: &Artifact) -> Option<Artifact> {
        self.session_lists()?.session_list(log)
    }

    /// See [`SessionListWriter::default_folder`].
    pub fn default_folder(&self, rows: &[ListRow], directory: &str) -> Option<String> {
        self.session_lists()?.default_folder(rows, directory)
    }

    /// See [`SessionListWriter::config_fault`].
    pub fn config_fault(&self, bytes: &[u8]) -> Option<String> {
        self.session_lists()?.config_fault(bytes)
    }

    /// See [`SessionListWriter::register_folders`].
    pub fn register_folders(&self, old: Option<&[u8]>, rows: &[RowUpdate]) -> Option<Vec<u8>> {
        self.session_lists()?.register_folders(old, rows)
    }

    /// See [`SessionListWriter::update_session_list`].
    pub fn update_session_list(
        &self,
        session_list: &Artifact,
        old: Option<&[u8]>,
        rows: &[RowUpdate],
        whole: bool,
    ) -> Result<ListUpdate> {
        match self.session_lists() {
            Some(lists) => lists.update_session_list(session_list, old, rows, whole),
            None => Ok(ListUpdate::Unchanged),
        }
    }

    /// See [`SessionListWriter::check_session_member`].
    pub fn check_session_member(&self, name: &str, json: &str) -> Result<()> {
        match self.session_lists() {
            Some(lists) => lists.check_session_member(name, json),
            None => Ok(()),
        }
    }

    /// See [`SessionListWriter::is_session_list_empty`].
    pub fn is_session_list_empty(&self, session_list: &Artifact, bytes: &[u8]) -> bool {
        let lists = self.session_lists();
        lists.is_some_and(|lists| lists.is_session_list_empty(session_list, bytes))
    }
}
