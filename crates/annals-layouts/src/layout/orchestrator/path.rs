//! Mapping between paths and artifacts.

use std::path::{Path, PathBuf};

use jiff::civil::Date;
use sha2::{Digest, Sha256};

use crate::layout::{AGENT_SEPARATOR, ORIGIN_FILE, path_parts};
use crate::model::{AgentId, Artifact, ArtifactKind, SessionId};

/// Number of digest characters in a folder name.
const HASH_LEN: usize = 20;

const COMPANION_SUFFIX: &str = ".annals";
// Not `.jsonl`: the design document's clean-up deletes old files with that suffix, and its parser
// reads them.
const NOTES_SUFFIX: &str = ".notes.annals";
const ORIGIN_SUFFIX: &str = ".origin.annals";
const TODOS_SUFFIX: &str = ".todos.json";

pub(super) fn may_hold_files(dir: &Path) -> bool {
    match *path_parts(dir).unwrap_or_default().as_slice() {
        ["projects"] => true,
        ["projects", folder] => is_hash(folder),
        _ => false,
    }
}

pub(super) fn classify(path: &Path) -> Option<Artifact> {
    match *path_parts(path)?.as_slice() {
        [ORIGIN_FILE] => Some(Artifact::new(ArtifactKind::Origin)),
        ["projects", folder, file] if is_hash(folder) => {
            let mut artifact = classify_in_project(folder, file)?;
            artifact.folder = Some(folder.to_owned());
            Some(artifact)
        }
        _ => None,
    }
}

fn classify_in_project(folder: &str, file: &str) -> Option<Artifact> {
    use ArtifactKind as K;
    if let Some(day) = file.strip_suffix(".jsonl").and_then(date) {
        return Some(day_log(folder, day));
    }
    if let Some(day) = file.strip_suffix(COMPANION_SUFFIX).and_then(date) {
        return Some(companion(&day_log(folder, day)));
    }
    let (kind, session, agent) = if let Some(name) = file.strip_suffix(TODOS_SUFFIX) {
        let (session, agent) = owner(name);
        // The main agent has the session's name.
        (K::Todos, session, Some(agent.unwrap_or(session)))
    } else if let Some(name) = file.strip_suffix(NOTES_SUFFIX) {
        let (session, agent) = owner(name);
        (K::Notes, session, agent)
    } else {
        let name = file.strip_suffix(ORIGIN_SUFFIX)?;
        (K::Origin, name, None)
    };
    let artifact = Artifact {
        session: Some(SessionId::new(session).ok()?),
        agent: agent.map(AgentId::new).transpose().ok()?,
        ..Artifact::new(kind)
    };
    // A sub-agent named like its session would be indistinguishable from the main agent.
    (path_for(&artifact).file_name()? == file).then_some(artifact)
}

pub(super) fn path_for(artifact: &Artifact) -> PathBuf {
    use ArtifactKind as K;
    let session = artifact.session.as_ref().map_or("", SessionId::as_str);
    let agent = artifact.agent.as_ref().map(AgentId::as_str);
    let mut path = PathBuf::from("projects");
    path.extend(&artifact.folder);
    let owner = match agent.filter(|agent| *agent != session) {
        Some(agent) => agent_session_name(session, agent),
        None => session.to_owned(),
    };
    match artifact.kind {
        K::SharedLog => match day(session) {
            Some(day) => path.join(format!("{day}.jsonl")),
            None => PathBuf::new(),
        },
        K::Companion => match day(session) {
            Some(day) => path.join(format!("{day}{COMPANION_SUFFIX}")),
            None => PathBuf::new(),
        },
        K::Notes => path.join(owner + NOTES_SUFFIX),
        K::Todos => path.join(owner + TODOS_SUFFIX),
        K::Origin if artifact.session.is_some() => path.join(format!("{session}{ORIGIN_SUFFIX}")),
        K::Origin => ORIGIN_FILE.into(),
        // The layout has no such files.
        _ => PathBuf::new(),
    }
}

/// Returns the log of a day.
pub(super) fn day_log(folder: &str, day: Date) -> Artifact {
    Artifact {
        folder: Some(folder.to_owned()),
        session: SessionId::new(&format!("{day}-{folder}")).ok(),
        ..Artifact::new(ArtifactKind::SharedLog)
    }
}

/// Returns the log named by its own session, `DAY-HASH`, or by a directory and a day,
/// `DIRECTORY/DAY`.
pub(super) fn log_from_name(text: &str) -> Option<Artifact> {
    if let Some((directory, day)) = text.rsplit_once('/') {
        let absolute = directory.starts_with('/');
        return Some(day_log(
            &folder_hash(directory),
            date(day).filter(|_| absolute)?,
        ));
    }
    let day = day(text)?;
    let folder = text.get(10..)?.strip_prefix('-')?;
    is_hash(folder).then(|| day_log(folder, day))
}

/// Describes why a text that looks like a directory and a day names no log.
pub(super) fn name_fault(text: &str) -> Option<String> {
    let (_, day) = text.rsplit_once('/')?;
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let looks_like_day = day.split('-').map(str::len).eq([4, 2, 2]) && day.split('-').all(digits);
    if !looks_like_day {
        return None;
    }
    match date(day) {
        None => Some(format!("invalid date {day}")),
        Some(_) => None,
    }
}

/// Returns the companion file of a day's log.
pub(super) fn companion(log: &Artifact) -> Artifact {
    Artifact {
        kind: ArtifactKind::Companion,
        agent: None,
        ..log.clone()
    }
}

/// Returns the day of a log from the name of the log's own session.
pub(super) fn day(session: &str) -> Option<Date> {
    date(session.get(..10)?)
}

/// Returns the id of a record without one: the day and its offset in the log.
pub(super) fn id_at(log: &Artifact, offset: u64) -> String {
    let session = log.session.as_ref().map_or("", SessionId::as_str);
    let day = day(session).map(|day| day.to_string().replace('-', ""));
    format!("{}-{offset}", day.as_deref().unwrap_or("0"))
}

/// Returns the name under which a sub-agent logs.
pub(super) fn agent_session_name(session: &str, agent: &str) -> String {
    format!("{session}{AGENT_SEPARATOR}{agent}")
}

/// Splits the name under which a record was logged into session and sub-agent.
pub(super) fn owner(name: &str) -> (&str, Option<&str>) {
    let parts = name.rsplit_once(AGENT_SEPARATOR);
    let parts = parts
        .filter(|(session, agent)| SessionId::new(session).is_ok() && AgentId::new(agent).is_ok());
    parts.map_or((name, None), |(session, agent)| (session, Some(agent)))
}

/// Parses a day in the only format that file names use.
fn date(text: &str) -> Option<Date> {
    let date: Date = text.parse().ok()?;
    (date.to_string() == text).then_some(date)
}

fn is_hash(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() == HASH_LEN && name.bytes().all(fits)
}

/// Normalizes an absolute directory as Python's `os.path.abspath` does: removes `.`, `..` and
/// redundant slashes, and keeps symbolic links. Any other text is returned unchanged.
pub(super) fn normalized(directory: &str) -> String {
    if !directory.starts_with('/') {
        return directory.to_owned();
    }
    let mut names = Vec::new();
    for name in directory.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    // POSIX gives two leading slashes a meaning of their own, but not three.
    let root = match directory.starts_with("//") && !directory.starts_with("///") {
        true => "//",
        false => "/",
    };
    root.to_owned() + &names.join("/")
}

/// Returns the folder of a working directory: the prefix of the SHA-256 of its normalized path in
/// base64url.
pub(super) fn folder_hash(directory: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digest = Sha256::digest(normalized(directory).as_bytes());
    let mut name = String::with_capacity(HASH_LEN);
    // Three bytes are four digits, so no partial byte is left over.
    for bytes in digest.chunks_exact(3).take(HASH_LEN / 4) {
        let bits = bytes
            .iter()
            .fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        for shift in [18, 12, 6, 0] {
            let digit = DIGITS.get(bits >> shift & 63).copied();
            name.extend(digit.map(char::from));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "v_FXjHoCS5zUJmfyn-5v";

    #[test]
    fn folder_hash_matches_known_digests() {
        for (directory, name) in [
            ("/Users/nick/projects/my-app", FOLDER),
            ("", "47DEQpj8HBSa-_TImW-5"),
            ("/home/dev/é", "kMYaU055JaGamSP4J7Sn"),
        ] {
            assert_eq!(folder_hash(directory), name, "{directory}");
        }
    }

    /// The expected values are those of Python's `os.path.abspath`.
    #[test]
    fn a_directory_has_one_folder_in_any_spelling() {
        for (directory, spelling) in [
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("/a//b///", "/a/b"),
            ("/a/./b/.", "/a/b"),
            ("/a/c/../b", "/a/b"),
            ("/../a/b", "/a/b"),
            ("///a/b", "/a/b"),
            ("//a/b", "//a/b"),
            ("/a/..", "/"),
            ("/", "/"),
            ("//", "//"),
            ("a/../b", "a/../b"),
            ("", ""),
        ] {
            assert_eq!(normalized(directory), spelling, "{directory}");
            assert_eq!(folder_hash(directory), folder_hash(spelling), "{directory}");
        }
    }

    #[test]
    fn log_is_found_by_session_or_by_directory_and_day() {
        let log = day_log(FOLDER, "2025-11-16".parse().unwrap());
        for text in [
            "2025-11-16-v_FXjHoCS5zUJmfyn-5v",
            "/Users/nick/projects/my-app/2025-11-16",
            "/Users/nick/projects/my-app//2025-11-16",
            "/Users/nick//projects/./my-app/2025-11-16",
            "/Users/nick/other/../projects/my-app/2025-11-16",
        ] {
            assert_eq!(log_from_name(text).as_ref(), Some(&log), "{text}");
        }
        for text in [
            "2025-11-16",
            "2025-11-16-",
            "2025-13-16-v_FXjHoCS5zUJmfyn-5v",
            "2025-11-16-v_FXjHoCS5zUJmfyn-5",
            "my-app/2025-11-16",
            "/Users/nick/projects/my-app",
            "",
        ] {
            assert_eq!(log_from_name(text), None, "{text}");
        }
    }

    #[test]
    fn an_impossible_log_name_is_refused_with_a_reason() {
        for (text, why) in [
            ("/x/2025-02-30", Some("invalid date 2025-02-30")),
            ("app/2025-13-01", Some("invalid date 2025-13-01")),
            ("./2026-11-18", None),
            ("/x/2026-11-18", None),
            ("2026-11-18", None),
            ("app/log", None),
        ] {
            let fault = name_fault(text);
            assert_eq!(fault.is_some(), why.is_some(), "{text}");
            let fault_text = fault.unwrap_or_default();
            assert!(
                fault_text.contains(why.unwrap_or_default()),
                "{text}: {fault_text}"
            );
        }
    }

    #[test]
    fn classify_and_path_for_are_inverses() {
        use ArtifactKind as K;
        for (kind, file, session, agent) in [
            (
                K::SharedLog,
                "2026-11-15.jsonl",
                "2026-11-15-v_FXjHoCS5zUJmfyn-5v",
                None,
            ),
            (
                K::Companion,
                "2026-11-15.annals",
                "2026-11-15-v_FXjHoCS5zUJmfyn-5v",
                None,
            ),
            (K::Notes, "s1.notes.annals", "s1", None),
            (K::Notes, "s1--agent-a1.notes.annals", "s1", Some("a1")),
            (K::Notes, "2026-11-15.notes.annals", "2026-11-15", None),
            (K::Todos, "s1.todos.json", "s1", Some("s1")),
            (K::Todos, "s1--agent-a1.todos.json", "s1", Some("a1")),
            (K::Origin, "s1.origin.annals", "s1", None),
        ] {
            let path = format!("projects/{FOLDER}/{file}");
            let artifact = classify(Path::new(&path)).expect(&path);
            assert_eq!(artifact.kind, kind, "{path}");
            assert_eq!(artifact.folder.as_deref(), Some(FOLDER));
            assert_eq!(
                artifact.session.as_ref().map(SessionId::as_str),
                Some(session)
            );
            assert_eq!(artifact.agent.as_ref().map(AgentId::as_str), agent);
            assert_eq!(path_for(&artifact), Path::new(&path));
            assert!(may_hold_files(Path::new(&format!("projects/{FOLDER}"))));
        }
        let whole = classify(Path::new(ORIGIN_FILE)).unwrap();
        assert_eq!(
            (whole.session.as_ref(), path_for(&whole)),
            (None, ORIGIN_FILE.into())
        );
    }

    /// Whatever a file's name, its artifact maps back to the same path, or it has none.
    #[test]
    fn classified_odd_names_map_back_to_their_path() {
        let long = "n".repeat(129);
        let names = [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/a",
            "-a",
            "a",
            "a.b",
            "a..b",
            "a.",
            "é",
            "a\0",
            &long,
            "2026-11-15",
            "2026-13-01",
            "a--agent-b",
            "a--agent-a",
            "a--agent-",
            "--agent-b",
            "a--agent-b--agent-c",
            "a--agent-b--agent-b",
            "a.notes",
            "a.origin",
        ];
        let mut meant = 0;
        for name in names {
            for ending in [
                ".jsonl",
                COMPANION_SUFFIX,
                NOTES_SUFFIX,
                TODOS_SUFFIX,
                ORIGIN_SUFFIX,
            ] {
                let path = PathBuf::from(format!("projects/{FOLDER}/{name}{ending}"));
                let Some(artifact) = classify(&path) else {
                    continue;
                };
                meant += 1;
                assert_eq!(path_for(&artifact), path);
                assert_eq!(
                    path_parts(&path).map(|parts| parts.len()),
                    Some(3),
                    "{path:?}"
                );
            }
        }
        assert!(meant > 20, "{meant}");
    }

    #[test]
    fn classify_ignores_foreign_files() {
        for file in [
            "8c549c46-16ca-47dd-b731-f4c264becc53.jsonl",
            "2026-11-31.jsonl",
            "20261115.jsonl",
            "2026-11-15T00.jsonl",
            "2026-1-5.jsonl",
            "2026-11-15.json",
            "2026-11-15.jsonl.lock",
            "2026-11-15.jsonl.bak",
            "..notes.annals",
            ".notes.annals",
            "s1.notes.jsonl",
            "s1.annals",
            ".todos.json",
            "--agent-a.todos.json",
            "a--agent-a.todos.json",
            ".origin.annals",
            "origin.annals",
            "annals-origin.jsonl",
            "inner/2026-11-15.jsonl",
        ] {
            let path = format!("projects/{FOLDER}/{file}");
            assert_eq!(classify(Path::new(&path)), None, "{path}");
        }
        for path in [
            "2026-11-15.jsonl",
            "projects/2026-11-15.jsonl",
            "projects/-home-dev/2026-11-15.jsonl",
            "projects/v_FXjHoCS5zUJmfyn.5v/2026-11-15.jsonl",
            "projects/../v_FXjHoCS5zUJmfyn-5v/2026-11-15.jsonl",
            "/projects/v_FXjHoCS5zUJmfyn-5v/2026-11-15.jsonl",
            "other/v_FXjHoCS5zUJmfyn-5v/2026-11-15.jsonl",
        ] {
            assert_eq!(classify(Path::new(path)), None, "{path}");
        }
        assert!(!may_hold_files(Path::new("projects/-home-dev")));
        assert!(!may_hold_files(Path::new("todos")));
    }
}
