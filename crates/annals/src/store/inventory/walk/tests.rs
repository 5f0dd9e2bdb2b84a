use super::*;
use std::fs;
use std::os::unix::fs::symlink;

const IDS: [&str; 2] = [
    "8c549c46-16ca-47dd-b731-f4c264becc53",
    "8c549c46-16ca-47dd-b731-f4c264becc54",
];

fn put(root: &Path, path: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "{}\n").unwrap();
}

fn found(root: &Path) -> (Vec<String>, Vec<Error>) {
    let mut troubles = Vec::new();
    let files = walk(
        &Root::claude_code(root),
        Path::new(""),
        &|_| true,
        &mut troubles,
    );
    for file in &files {
        let metadata = fs::metadata(&file.path).unwrap();
        assert!(file.id.untouched(&FileId::from(&metadata)));
    }
    let within = |file: &RootFile| file.path.strip_prefix(root).unwrap().to_owned();
    let names = files.iter().map(|file| within(file).display().to_string());
    (names.collect(), troubles)
}

/// A log precedes the directory of the same name, whose files precede the next log.
#[test]
fn walk_orders_files_by_path_bytes() {
    let root = tempfile::tempdir().unwrap();
    for folder in ["-w", "-w-", "-w.x", "-", "-w0"] {
        for id in IDS {
            put(root.path(), &format!("projects/{folder}/{id}.jsonl"));
            put(
                root.path(),
                &format!("projects/{folder}/{id}/tool-results/a"),
            );
            put(
                root.path(),
                &format!("projects/{folder}/{id}/tool-results-b"),
            );
            put(
                root.path(),
                &format!("projects/{folder}/{id}/subagents/agent-1.jsonl"),
            );
        }
    }
    put(root.path(), "history.jsonl");
    put(root.path(), "projects/-w/not-ours.txt");
    put(root.path(), "elsewhere/x.jsonl");
    let (names, troubles) = found(root.path());
    let mut sorted = names.clone();
    sorted.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    assert_eq!(names, sorted);
    assert_eq!((names.len(), troubles.len()), (41, 0));
}

#[test]
fn walk_reports_unfollowed_links_that_hide_files() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = format!("{}.jsonl", IDS[0]);
    put(root.path(), &format!("projects/-w/{log}"));
    put(root.path(), &format!("kept/{log}"));
    put(elsewhere.path(), &log);
    put(elsewhere.path(), "settings.json");
    let projects = root.path().join("projects");
    // All of these are found under their own names, or have no meaning.
    symlink(projects.join("-w"), projects.join("-a")).unwrap();
    symlink(root.path(), projects.join("-loop")).unwrap();
    symlink("nowhere", projects.join("-none")).unwrap();
    symlink(projects.join("-w").join(&log), projects.join("-w/x.jsonl")).unwrap();
    symlink("/", root.path().join("other")).unwrap();
    let outside = elsewhere.path();
    symlink(
        outside.join("settings.json"),
        root.path().join("settings.json"),
    )
    .unwrap();
    let (names, troubles) = found(root.path());
    assert_eq!(names, [format!("projects/-w/{log}")]);
    assert_eq!(troubles.len(), 0, "{troubles:?}");
    // Each of these hides something.
    let missed = [
        ("projects/-b", outside.to_owned()),
        ("projects/-inside", root.path().join("kept")),
        ("projects/-w/y.jsonl", outside.join(&log)),
        ("todos", "/".into()),
        ("projects/-w/zero.jsonl", "/dev/zero".into()),
        ("tasks", "/dev/null".into()),
        ("settings.json", "/dev/null".into()),
    ];
    fs::remove_file(root.path().join("settings.json")).unwrap();
    for (link, target) in &missed {
        symlink(target, root.path().join(link)).unwrap();
    }
    let (names, troubles) = found(root.path());
    assert_eq!(names, [format!("projects/-w/{log}")]);
    let mut reported: Vec<(PathBuf, PathBuf)> = troubles
        .into_iter()
        .map(|trouble| match trouble {
            Error::Link { path, target } => (path, target),
            other => panic!("{other}"),
        })
        .collect();
    let mut missed = missed.map(|(link, target)| (root.path().join(link), target));
    reported.sort();
    missed.sort();
    assert_eq!(reported, missed);
}

/// A session may be missing without it.
#[test]
fn files_that_a_removal_renamed_are_reported_and_not_found() {
    let root = tempfile::tempdir().unwrap();
    let log = format!("projects/-w/{}.jsonl", IDS[0]);
    put(root.path(), &log);
    let missed = [
        format!("projects/-w/.annals-{}.jsonl.removed", IDS[1]),
        format!("projects/-w/{}.jsonl.annals-saved", IDS[1]),
        format!("projects/-w/{}/tool-results/.annals-a.removed", IDS[0]),
        format!("projects/-w/{}/.annals-state.removed", IDS[0]),
        format!(
            "projects/-w/{}/subagents/.annals-agent-1.jsonl.removed",
            IDS[0]
        ),
        "todos/.annals-0123456789abcdef.removed".to_owned(),
    ];
    missed.iter().for_each(|path| put(root.path(), path));
    // Names of other programs, and a temporary file.
    put(root.path(), "projects/-w/x.jsonl.removed");
    put(root.path(), "projects/-w/.annals-0123456789abcdef.tmp");
    let (names, troubles) = found(root.path());
    assert_eq!(names, [log]);
    let paths = |troubles: Vec<Error>| {
        let path = |trouble: Error| match trouble {
            Error::UnfinishedRemoval { path, .. } => path,
            other => panic!("{other}"),
        };
        let mut paths: Vec<PathBuf> = troubles.into_iter().map(path).collect();
        paths.sort();
        paths
    };
    let mut wanted: Vec<PathBuf> = missed.iter().map(|it| root.path().join(it)).collect();
    wanted.sort();
    assert_eq!(paths(troubles), wanted);
    // A walk for logs reports only errors of logs and of files that may be logs.
    let mut troubles = Vec::new();
    let kinds = |kind: ArtifactKind| kind.is_conversation();
    let claude = Root::claude_code(root.path());
    walk(&claude, Path::new(""), &kinds, &mut troubles);
    let logs = [0, 1, 4, 5].map(|at| root.path().join(&missed[at]));
    let mut logs = logs.to_vec();
    logs.sort();
    assert_eq!(paths(troubles), logs);
}

#[test]
fn directory_in_the_place_of_a_log_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let folder = format!("projects/-w/{}", IDS[0]);
    put(root.path(), &format!("{folder}.jsonl"));
    put(root.path(), &format!("{folder}/tool-results/deeper/a"));
    put(root.path(), &format!("{folder}/state/a"));
    assert_eq!(found(root.path()).1.len(), 0);
    let log = root.path().join(folder).join("subagents/agent-1.jsonl");
    fs::create_dir_all(&log).unwrap();
    let (names, troubles) = found(root.path());
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(
        matches!(troubles.as_slice(), [Error::NotRegular { path }] if *path == log),
        "{troubles:?}"
    );
}

#[test]
fn a_pipe_or_a_socket_in_the_place_of_a_file_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let log = format!("projects/-w/{}.jsonl", IDS[0]);
    put(root.path(), &log);
    let pipe = |path: &str| {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, root.path().join(path), mode).unwrap();
    };
    // A name without meaning is not read.
    pipe("notes.txt");
    assert_eq!(found(root.path()).1.len(), 0);
    let other = format!("projects/-w/{}.jsonl", IDS[1]);
    let missed = ["history.jsonl", other.as_str(), "settings.json", "todos"];
    missed.iter().for_each(|path| pipe(path));
    std::os::unix::net::UnixListener::bind(root.path().join("tasks")).unwrap();
    let (names, troubles) = found(root.path());
    assert_eq!(names, [log]);
    let mut reported: Vec<PathBuf> = troubles
        .into_iter()
        .map(|trouble| match trouble {
            Error::NotRegular { path } => path,
            other => panic!("{other}"),
        })
        .collect();
    reported.sort();
    let missed = [
        "history.jsonl",
        other.as_str(),
        "settings.json",
        "tasks",
        "todos",
    ];
    assert_eq!(reported, missed.map(|path| root.path().join(path)));
}

#[test]
fn walk_follows_named_links_once() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = format!("{}.jsonl", IDS[0]);
    put(elsewhere.path(), &format!("-w/{log}"));
    symlink("../-w", elsewhere.path().join("-w/other")).unwrap();
    symlink("/", elsewhere.path().join("-slash")).unwrap();
    let projects = root.path().join("projects");
    symlink(elsewhere.path(), &projects).unwrap();
    let mut troubles = Vec::new();
    let mut found = |links: &[PathBuf]| {
        let root = Root::claude_code(root.path()).follow_links(links);
        let files = walk(&root, Path::new(""), &|_| true, &mut troubles);
        (files.len(), std::mem::take(&mut troubles).len())
    };
    assert_eq!(found(&[]), (0, 1));
    assert_eq!(found(&[root.path().join("todos")]), (0, 1));
    let gone = root.path().join("todos");
    symlink("not-mounted", &gone).unwrap();
    assert_eq!(found(&[]), (0, 2));
    assert_eq!(found(&[gone]), (0, 2));
    fs::remove_file(root.path().join("todos")).unwrap();
    // The target of the followed link contains a link that was not named.
    assert_eq!(found(&[projects]), (1, 1));
}

/// A link may replace a directory between listing and opening it.
#[cfg(target_os = "linux")]
#[test]
fn open_beneath_refuses_links() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "real/inner/file");
    symlink("real", root.path().join("link")).unwrap();
    let top = open(root.path(), DIRECTORY, Mode::empty()).unwrap();
    assert!(open_beneath(&top, "real/inner", DIRECTORY).is_ok());
    for name in ["link", "link/inner", "..", "/"] {
        assert!(open_beneath(&top, name, DIRECTORY).is_err(), "{name}");
    }
}

/// Users other than root cannot `stat` files in a directory without search permission.
#[test]
fn walk_reports_files_it_may_not_stat() {
    let root = tempfile::tempdir().unwrap();
    let layout = Root::claude_code(root.path());
    let mut troubles = Vec::new();
    let mut walk = Walk {
        root: &layout,
        wanted: &|_| true,
        errors: &mut troubles,
        on_directory: &mut |_, _| {},
        visited: HashSet::new(),
        links: BTreeSet::new(),
        unfollowed: BTreeMap::new(),
        steps: Vec::new(),
        found: Vec::new(),
        listing: DirListing::default(),
        refused: None,
    };
    let mut listing = DirListing::default();
    let dir = root.path().join("projects/-w");
    for id in IDS {
        put(root.path(), &format!("projects/-w/{id}.jsonl"));
    }
    listing
        .read(&open(&dir, DIRECTORY, Mode::empty()).unwrap())
        .unwrap();
    walk.visit_names("projects/-w", &listing, &|_, _| Err(Errno::NOENT));
    assert_eq!(walk.errors.len(), 0);
    walk.visit_names("projects/-w", &listing, &|_, _| Err(Errno::ACCESS));
    assert_eq!(walk.errors.len(), 1);
    assert!(walk.errors[0].to_string().contains("projects/-w"));
}

#[test]
fn walk_reports_missing_root() {
    let root = tempfile::tempdir().unwrap();
    let (names, troubles) = found(&root.path().join("none"));
    assert_eq!((names.len(), troubles.len()), (0, 1));
}
