//! Data that is only in the archive. A conversion neither leaves it out silently nor reads it as a
//! source.

use crate::archive::ROOT_ID;
use crate::error::{Error, Result};
use crate::store::{Inventory, Root, RootFile, SessionFiles};
use annals_layouts::text::pluralize;

/// Counts of data that is only in the archive.
pub(super) struct ArchivedOnly {
    /// Number of whole sessions, and of files of other sessions.
    sessions: usize,
    files: usize,
    /// The id that restores the first of them.
    first: Option<String>,
    /// The options for restoring it.
    options: String,
}

impl ArchivedOnly {
    /// Counts what is only in the archive, of some sessions and of files that belong to no session.
    pub(super) fn new(sessions: &[SessionFiles], inventory: &Inventory) -> Self {
        let mut found = ArchivedOnly {
            sessions: 0,
            files: 0,
            first: None,
            options: "--apply".to_owned(),
        };
        for session in sessions {
            let kept = session.files().flat_map(RootFile::volumes);
            let kept = kept.filter(|file| file.is_archived()).count();
            match (session.is_archived(), kept) {
                (true, _) => found.sessions += 1,
                (false, kept) => found.files += kept,
            }
            if kept > 0 && found.first.is_none() {
                found.first = Some(session.id.to_string());
            }
        }
        let others = inventory.others.iter();
        let others: Vec<&(Root, RootFile)> =
            others.filter(|(_, file)| file.is_archived()).collect();
        found.files += others.len();
        if found.first.is_none() && !others.is_empty() {
            found.first = Some(ROOT_ID.to_owned());
            // Configuration is restored only if it is named.
            let steering = others.iter().filter(|it| it.1.artifact.is_configuration());
            for (root, file) in steering {
                let within = file.path.strip_prefix(&root.path).unwrap_or(&file.path);
                let name = annals_layouts::text::shell_word(&within.to_string_lossy());
                found.options.insert_str(0, &format!("--also {name} "));
            }
        }
        found
    }

    /// Returns a text such as `1 session and 2 files`.
    fn count_text(&self) -> String {
        let counts = [(self.sessions, "session"), (self.files, "file")];
        let counts = counts.into_iter().filter(|(number, _)| *number > 0);
        let counts: Vec<String> = counts
            .map(|(number, noun)| pluralize(number, noun))
            .collect();
        counts.join(" and ")
    }

    /// Returns the text for the report if it is left out.
    pub(super) fn description(&self) -> Option<String> {
        self.first.as_ref()?;
        let counted = self.count_text();
        Some(format!("{counted} only in the archive"))
    }

    /// Refuses to leave it out silently.
    pub(super) fn refuse(&self, root: &Root) -> Result<()> {
        let Some(first) = &self.first else {
            return Ok(());
        };
        Err(Error::refused(format!(
            "{}: {} only in the archive; {} restores the first, `annals archive --list` lists all, --without-archived leaves them out",
            root.path.display(),
            self.count_text(),
            annals_layouts::text::quoted_command("annals restore", first, &self.options),
        )))
    }
}

/// Returns the sessions without what is only in the archive.
pub(super) fn without_archived(sessions: &[SessionFiles]) -> Vec<SessionFiles> {
    let roots = Root::dedupe(sessions.iter().map(|it| Root::clone(&it.root)).collect());
    let there = Inventory::scan(&roots).sessions;
    let is_kept = |files: &SessionFiles| {
        let mut volumes = files.files().flat_map(RootFile::volumes);
        volumes.any(|file| file.is_archived())
    };
    let now = sessions.iter().filter_map(|files| match is_kept(files) {
        false => Some(files.clone()),
        true => {
            let mut there = there.iter();
            let same =
                |it: &&SessionFiles| it.id == files.id && it.main_path() == files.main_path();
            there.find(same).cloned()
        }
    });
    now.collect()
}
