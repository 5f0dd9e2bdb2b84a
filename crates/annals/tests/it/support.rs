//! Shared by the tests of the library: fixtures, copies of them, and snapshots of whole trees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use annals::layout::{LAYOUTS, Layout};
use annals::model::{ArtifactKind, Block, Body, Entry, Framing};
use annals::store::{
    Inventory, Root, RootFile, Session, SessionFiles, SessionWriter, Store, WriteOptions,
};
use sha2::Digest as _;
use tempfile::TempDir;

/// One fixture: a whole root of one layout.
pub(crate) struct Case {
    pub(crate) layout: &'static dyn Layout,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Returns every fixture of every layout.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for layout in LAYOUTS {
        let folder = fixtures().join(layout.name());
        let mut found: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .collect();
        assert!(!found.is_empty(), "{} has no fixtures", layout.name());
        found.sort();
        cases.extend(found.into_iter().map(|path| Case {
            layout: *layout,
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            path: match layout.root_is_file() {
                true => fs::read_dir(path).unwrap().next().unwrap().unwrap().path(),
                false => path,
            },
        }));
    }
    cases
}

/// Returns whether a log is one document of an older Gemini CLI.
fn is_gemini_document(log: &RootFile) -> bool {
    let is_gemini = matches!(log.artifact.framing, Framing::Document(format) if format.name.starts_with("gemini-"));
    is_gemini && fs::read(&log.path).is_ok_and(|bytes| bytes.starts_with(b"{\n"))
}

/// Returns every layout that annals writes.
pub(crate) fn writable_layouts() -> impl Iterator<Item = &'static dyn Layout> + Clone {
    let layouts = LAYOUTS.iter().copied();
    layouts.filter(|layout| layout.writer().is_some())
}

/// Returns every fixture of every layout that annals writes.
pub(crate) fn writable_cases() -> impl Iterator<Item = Case> {
    let cases = cases().into_iter();
    cases.filter(|case| case.layout.writer().is_some())
}

pub(crate) fn case(name: &str) -> Case {
    cases()
        .into_iter()
        .find(|case| case.name == name)
        .unwrap_or_else(|| panic!("no fixture {name}"))
}

impl Case {
    /// Whether its format is read but not written.
    pub(crate) fn is_closed(&self) -> bool {
        self.layout.name() == "clog" && self.name == "header-of-another-version"
    }

    /// Whether the format of one of its sessions is read but not written.
    pub(crate) fn is_closed_session(&self, files: &SessionFiles) -> bool {
        let first_version = "01a1e48b-a58f-7175-b111-f2f8ae3f5db3";
        self.is_closed()
            || (self.layout.name() == "pi"
                && self.name == "made-odd"
                && files.id.as_str() == first_version)
            || files.log.as_ref().is_some_and(is_gemini_document)
    }

    /// Returns the root of the fixture itself, read-only.
    pub(crate) fn root(&self) -> Root {
        Root::new(self.layout.name(), &self.path).unwrap()
    }

    pub(crate) fn inventory(&self) -> Inventory {
        Store::new(vec![self.root()]).inventory()
    }

    pub(crate) fn sessions(&self) -> Vec<SessionFiles> {
        self.inventory().sessions
    }

    /// Returns the only session of the fixture.
    pub(crate) fn only(&self) -> Session {
        let mut sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{} has one session", self.name);
        Session::read(sessions.remove(0)).unwrap()
    }

    /// Returns the session with this id prefix.
    pub(crate) fn session(&self, prefix: &str) -> Session {
        let mut sessions = self.sessions();
        sessions.retain(|files| files.id.as_str().starts_with(prefix));
        assert_eq!(sessions.len(), 1, "{} {prefix}", self.name);
        Session::read(sessions.remove(0)).unwrap()
    }

    /// Returns all classified files of the fixture, each once and whole, even if several sessions
    /// share it.
    pub(crate) fn files(&self) -> Vec<RootFile> {
        let inventory = self.inventory();
        let of_sessions = inventory.sessions.iter().flat_map(|files| files.files());
        let others = inventory.others.iter().map(|(_, file)| file);
        let mut files: Vec<RootFile> = of_sessions
            .chain(others)
            .flat_map(|file| file.volumes().cloned())
            .collect();
        for file in &mut files {
            file.earlier.clear();
            if file.slice.take().is_some() {
                file.artifact.agent = None;
            }
        }
        let mut seen = BTreeSet::new();
        files.retain(|file| seen.insert(file.path.clone()));
        files
    }

    /// Returns a writable copy.
    pub(crate) fn copy(&self) -> Copy {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        match self.layout.root_is_file() {
            true => _ = fs::copy(&self.path, &root).unwrap(),
            false => copy_tree(&self.path, &root),
        }
        Copy {
            root: Root::new(self.layout.name(), root).unwrap(),
            dir,
        }
    }
}

/// A copy of a fixture, and a state directory.
pub(crate) struct Copy {
    pub(crate) root: Root,
    pub(crate) dir: TempDir,
}

impl Copy {
    pub(crate) fn store(&self) -> Store {
        Store::new(vec![self.root.clone()]).with_state(self.state())
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn sessions(&self) -> Vec<SessionFiles> {
        self.store().inventory_without_archive().sessions
    }

    pub(crate) fn files(&self, prefix: &str) -> SessionFiles {
        let mut sessions = self.sessions();
        sessions.retain(|files| files.id.as_str().starts_with(prefix));
        assert_eq!(sessions.len(), 1, "{prefix}");
        sessions.remove(0)
    }

    /// Reads the session again: it may have continued in another file.
    pub(crate) fn again(&self, files: &SessionFiles) -> Session {
        let mut sessions = self.sessions();
        sessions.retain(|now| now.id == files.id && now.folder() == files.folder());
        assert_eq!(sessions.len(), 1, "{}", files.id);
        Session::read(sessions.remove(0)).unwrap()
    }

    pub(crate) fn read(&self, prefix: &str) -> Session {
        Session::read(self.files(prefix)).unwrap()
    }

    pub(crate) fn writer(&self, prefix: &str) -> SessionWriter {
        self.store()
            .open_writer(&self.files(prefix), QUICK)
            .unwrap()
    }
}

/// Most tests need not survive a power loss.
pub(crate) const QUICK: WriteOptions = WriteOptions {
    durability: annals::jsonl::Durability::Os,
    live: false,
    network: false,
    now: None,
};

/// Returns the CPU time of this process: wall-clock time is unreliable on a busy machine.
pub(crate) fn processor_time() -> std::time::Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// Returns a store of the same roots that answers from an index in `state`.
pub(crate) fn indexed(store: &Store, state: &Path) -> Store {
    let store = Store::new(store.roots().to_vec());
    store.with_state(state).with_index()
}

/// Returns the problems of a store with its index.
pub(crate) fn index_warnings(store: &Store) -> Vec<annals::index::Warning> {
    store.index().unwrap().take_warnings()
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Returns every path below a directory with its content: a digest, the target of a link, or an
/// empty text for a directory. Links are not followed.
pub(crate) fn picture(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = BTreeMap::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            // The lock file of a log is empty and is never removed.
            if entry
                .path()
                .to_str()
                .is_some_and(|path| path.ends_with(".jsonl.lock"))
            {
                continue;
            }
            let what = if kind.is_symlink() {
                format!("-> {}", fs::read_link(entry.path()).unwrap().display())
            } else if kind.is_dir() {
                pending.push(entry.path());
                String::new()
            } else {
                let bytes = fs::read(entry.path()).unwrap();
                format!("{} {:x}", bytes.len(), sha2::Sha256::digest(&bytes))
            };
            let within = entry.path().strip_prefix(dir).unwrap().to_owned();
            picture.insert(within, what);
        }
    }
    picture
}

/// Returns the same without files derived from logs: session lists, and saved copies of damaged
/// ones.
pub(crate) fn underived(layout: &dyn Layout, dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = picture(dir);
    picture.retain(|path, _| {
        let meaning = layout.classify(path);
        let listed = meaning.is_some_and(|meaning| {
            meaning.kind == ArtifactKind::SessionList && meaning.folder.is_some()
        });
        !listed && !path.to_str().is_some_and(|path| path.contains(".damaged-"))
    });
    picture
}

/// Returns the text of a message's first block, or a placeholder.
pub(crate) fn says(entry: &Entry) -> String {
    match &entry.body {
        Body::Message(message) => match message.blocks.first() {
            Some(Block::Text(text)) => text.chars().take(60).collect(),
            Some(Block::ToolUse { name, .. }) => format!("[{name}]"),
            Some(Block::ToolResult { call, .. }) => format!("[result of {call}]"),
            Some(other) => format!("[{}]", other.kind()),
            None => "[]".to_owned(),
        },
        Body::Compaction { .. } => "[compaction]".to_owned(),
        Body::System { subtype, .. } => format!("[system {subtype}]"),
        Body::Attachment { kind, .. } => format!("[attachment {kind}]"),
        Body::Opaque { kind, .. } => format!("[opaque {}]", kind.as_deref().unwrap_or_default()),
        _ => "[aside]".to_owned(),
    }
}

/// Returns the messages of each conversation of the main log.
pub(crate) fn conversations(session: &Session) -> Vec<Vec<String>> {
    let Some(tree) = session.tree() else {
        return Vec::new();
    };
    let said = |conversation| {
        let mut said = Vec::new();
        session
            .each_entry(conversation, |entry| {
                if matches!(entry.body, Body::Message(_)) {
                    said.push(says(&entry));
                }
                Ok(true)
            })
            .unwrap();
        said
    };
    tree.conversations.iter().map(said).collect()
}

/// Returns the entry ids of each conversation, and the index of the one that is resumed.
pub(crate) fn paths(session: &Session) -> (Vec<Vec<String>>, Option<usize>) {
    let Some(tree) = session.tree() else {
        return (Vec::new(), None);
    };
    let ids = |conversation| {
        let path = tree.path(conversation);
        path.iter()
            .map(|&at| session.entry_id(at).unwrap().to_string())
            .collect()
    };
    (tree.conversations.iter().map(ids).collect(), tree.resume)
}

/// Returns the members of an object as written, without a JSON library: strings and nesting are
/// enough to separate members.
pub(crate) fn members(object: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inner = object.trim_ascii();
    let inner = inner
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"));
    let inner = inner.expect("an object");
    let mut found = Vec::new();
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let (mut start, mut colon) = (0, None);
    let mut cut = |start: usize, colon: Option<usize>, end: usize| {
        let colon = colon.expect("a member has a colon");
        let key = inner[start..colon].trim_ascii().to_owned();
        found.push((key, inner[colon + 1..end].trim_ascii().to_owned()));
    };
    for (at, &byte) in inner.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 0 && colon.is_none() => colon = Some(at),
            b',' if depth == 0 => {
                cut(start, colon, at);
                (start, colon) = (at + 1, None);
            }
            _ => {}
        }
    }
    if !inner.trim_ascii().is_empty() {
        cut(start, colon, inner.len());
    }
    found
}

/// Completes response keys of entries that omit the request.
pub(crate) fn whole_names(
    outlines: &[annals::model::Outline],
) -> impl Fn(annals::model::ResponseKey) -> annals::model::ResponseKey {
    let replies = outlines.iter().filter_map(|outline| outline.reply.as_ref());
    let keys: Vec<_> = replies.filter_map(|reply| reply.response).collect();
    move |key| {
        let named = keys.iter().filter(|other| other.message == key.message);
        let named = named.filter(|other| other.request != 0);
        let least = named.min_by_key(|other| other.request).copied();
        least.filter(|_| key.request == 0).unwrap_or(key)
    }
}

/// Returns the path of the file that holds a log: that of the database, for a session of one.
pub(crate) fn disk_path(path: &Path) -> &Path {
    path.ancestors().find(|path| path.is_file()).unwrap()
}
