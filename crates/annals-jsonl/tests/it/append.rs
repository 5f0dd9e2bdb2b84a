//! Appends by many threads and processes, with foreign writers, on a full disk.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use annals_jsonl::Error;
use annals_jsonl::{AppendOptions, Create, Durability, Log, read_span};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::gates::{self, Counts};

const OS: AppendOptions = AppendOptions {
    durability: Durability::Os,
    lock_wait: Duration::from_secs(30),
    create: Create::Never,
    network: false,
    lock_file: false,
    lock_only: false,
};
const DISK: AppendOptions = AppendOptions {
    durability: Durability::Disk,
    ..OS
};

/// Returns the record with this name; some are long enough to cross pages.
fn record(name: &str) -> String {
    format!(
        r#"{{"id":"{name}","pad":"{}"}}"#,
        "x".repeat(name.len() * 97 % 3_000)
    )
}

fn log_in(dir: &tempfile::TempDir, content: &str) -> PathBuf {
    let path = dir.path().join("log.jsonl");
    fs::write(&path, content).unwrap();
    path
}

/// Counts how often each line occurs in the file.
fn lines(path: &Path) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for line in String::from_utf8(fs::read(path).unwrap()).unwrap().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

fn assert_exactly(path: &Path, names: impl Iterator<Item = String>) {
    let mut found = lines(path);
    let mut wanted = 0;
    for name in names {
        wanted += 1;
        assert_eq!(found.remove(&record(&name)), Some(1), "{name}");
    }
    assert!(
        found.is_empty(),
        "{} lines beside the {wanted}",
        found.len()
    );
}

fn append_many(log: &Log, writer: &str, count: usize) {
    for n in 0..count {
        log.append(record(&format!("{writer}-{n}")).as_bytes())
            .unwrap();
    }
}

/// Returns a command that runs this binary with a part of [`role`].
fn player(part: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "append::role",
        "--include-ignored",
        "--nocapture",
    ]);
    command
        .env("ANNALS_TEST_PART", part)
        .env("ANNALS_TEST_LOG", path)
        .stdout(Stdio::null());
    command
}

#[test]
#[ignore = "a part that other tests give to a child process"]
fn role() {
    let Ok(part) = std::env::var("ANNALS_TEST_PART") else {
        return;
    };
    let path = PathBuf::from(std::env::var_os("ANNALS_TEST_LOG").unwrap());
    match part.split_once(' ').unwrap() {
        ("append", writer) => {
            let count = std::env::var("ANNALS_TEST_COUNT").unwrap().parse().unwrap();
            append_many(&Log::open(path, crowd()).unwrap(), writer, count);
        }
        ("limit", "sealing") => {
            let log = Log::open(&path, OS).unwrap();
            write_within_limits(&path, &|line| log.append(line.as_bytes()).map(drop));
        }
        ("limit", "plain") => {
            let file = File::options().append(true).open(&path).unwrap();
            write_within_limits(&path, &|line| {
                let line = format!("{line}\n");
                { &file }
                    .write_all(line.as_bytes())
                    .map_err(|source| Error::io("write", &path, source))
            });
        }
        other => panic!("{other:?}"),
    }
}

/// Many writers wait long for the lock. The test does not depend on syncs, which would take hours
/// in the full form.
fn crowd() -> AppendOptions {
    AppendOptions {
        durability: if gates::full() {
            Durability::Os
        } else {
            Durability::Disk
        },
        lock_wait: Duration::from_secs(600),
        ..OS
    }
}

/// Gate 2: in the full form 64 writers of 10,000 records each.
#[test]
fn threads_and_processes_lose_nothing_and_add_nothing() {
    let dir = gates::dir();
    let path = log_in(&dir, "");
    let half = if gates::full() { 32 } else { 6 };
    let count = gates::size("ANNALS_GATE_APPENDS", 400, 10_000);
    let mut children: Vec<_> = (0..half)
        .map(|child| {
            let mut player = player(&format!("append p{child}"), &path);
            player.env("ANNALS_TEST_COUNT", count.to_string());
            player.spawn().unwrap()
        })
        .collect();
    let log = Log::open(&path, crowd()).unwrap();
    thread::scope(|scope| {
        for thread in 0..half {
            let log = &log;
            scope.spawn(move || append_many(log, &format!("t{thread}"), count));
        }
    });
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let names = |kind: char| {
        (0..half).flat_map(move |writer| (0..count).map(move |n| format!("{kind}{writer}-{n}")))
    };
    assert_exactly(&path, names('t').chain(names('p')));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no lock file");
    let what = format!("{} writers, each {count} records", 2 * half);
    let acks = 2 * half * count;
    let counts = Counts {
        acks,
        ..Counts::default()
    };
    gates::print_counts(2, &what, counts);
}

#[test]
fn control_writers_that_use_two_writes_are_caught() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "");
    let mut writers =
        ["a", "b"].map(|name| (name, File::options().append(true).open(&path).unwrap()));
    for (name, file) in &mut writers {
        file.write_all(record(name).as_bytes()).unwrap();
    }
    for (_, file) in &mut writers {
        file.write_all(b"\n").unwrap();
    }
    assert_eq!(lines(&path).get(&record("a")), None);
    gates::print_control(2, "two writes");
}

#[test]
fn foreign_writer_without_lock_damages_no_acknowledged_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "");
    let log = Log::open(&path, OS).unwrap();
    let (done, start) = (AtomicBool::new(false), Barrier::new(2));
    let placed = thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            start.wait();
            // Bounded, so that a failure of the other thread cannot fill the disk.
            for _ in 0..1_000_000 {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all(b"{\"foreign\":").unwrap();
                file.write_all(b"true}\n").unwrap();
            }
        });
        start.wait();
        let placed: Vec<_> = (0..3_000)
            .map(|n| (n, log.append(record(&format!("ours-{n}")).as_bytes())))
            .collect();
        done.store(true, Ordering::Relaxed);
        placed
    });
    let bytes = fs::read(&path).unwrap();
    for (n, at) in placed {
        let at = at.unwrap();
        let (start, end) = (at.offset as usize, at.end as usize);
        assert_eq!(
            &bytes[start..end],
            format!("{}\n", record(&format!("ours-{n}"))).as_bytes()
        );
        assert!(
            start == 0 || bytes[start - 1] == b'\n',
            "record {n} is glued"
        );
    }
}

#[test]
fn torn_tail_becomes_its_own_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "{\"a\":1}\n{\"torn\":");
    let log = Log::open(&path, DISK).unwrap();
    let at = log.append(b"{\"b\":2}").unwrap();
    assert_eq!((at.offset, at.end), (17, 25));
    let all = log.append_all(&["{\"c\":3}", "{\"d\":4}\n"]).unwrap();
    assert_eq!(
        all.iter().map(|at| (at.offset, at.end)).collect::<Vec<_>>(),
        [(25, 33), (33, 41)]
    );
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"a\":1}\n{\"torn\":\n{\"b\":2}\n{\"c\":3}\n{\"d\":4}\n"
    );
}

#[test]
fn record_that_is_not_one_line_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "torn");
    let log = Log::open(&path, OS).unwrap();
    for bad in ["", "\n", "a\nb", "\na", "a\n\n"] {
        assert!(
            log.append(bad.as_bytes())
                .is_err_and(|error| error.is_refusal()),
            "{bad:?}"
        );
        assert!(
            log.append_all(&["fine", bad])
                .is_err_and(|error| error.is_refusal()),
            "{bad:?}"
        );
    }
    assert_eq!(log.append_all::<&str>(&[]).unwrap(), []);
    assert!(matches!(
        log.append_with(|_, _| Err(Error::EmptyRecord)),
        Err(Error::EmptyRecord)
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), "torn");
}

#[test]
fn append_with_sees_all_earlier_records() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "0\n");
    let logs = [
        Log::open(&path, OS).unwrap(),
        Log::open(&path, DISK).unwrap(),
    ];
    thread::scope(|scope| {
        for log in logs.iter().cycle().take(8) {
            scope.spawn(move || {
                for _ in 0..50 {
                    let next = |end: u64, file: &File| {
                        let tail = read_span(file, end.saturating_sub(8), end.min(8)).unwrap();
                        let tail = String::from_utf8(tail).unwrap();
                        let last: u64 = tail.lines().next_back().unwrap().parse().unwrap();
                        Ok::<_, Error>((last + 1).to_string().into_bytes())
                    };
                    let at = log.append_with(next).unwrap();
                    let len = log
                        .with_lock(|file| Ok::<_, Error>(file.metadata().unwrap().len()))
                        .unwrap();
                    assert!(at.end <= len);
                }
            });
        }
    });
    let wanted: String = (0..=400).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    let all = logs[0]
        .append_all_with(|end, _| Ok::<_, Error>(vec![end.to_string().into_bytes(), b"x".to_vec()]))
        .unwrap();
    assert_eq!((all.len(), all[0].offset), (2, wanted.len() as u64));
}

#[test]
fn link_directory_and_pipe_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "");
    let (link, pipe) = (dir.path().join("link"), dir.path().join("pipe"));
    symlink(&path, &link).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let refused = Log::open(&link, OS).unwrap_err();
    assert!(
        matches!(&refused, Error::ThroughLink { why, .. } if why.contains("symbolic link")),
        "{refused}"
    );
    let refused = Log::open(&pipe, OS).unwrap_err();
    assert!(matches!(&refused, Error::NotAFile { .. }), "{refused}");
    assert!(Log::open(dir.path(), OS).is_err());
    let log = Log::open(&path, OS).unwrap();
    fs::rename(&path, dir.path().join("moved")).unwrap();
    symlink(dir.path().join("moved"), &path).unwrap();
    assert!(
        matches!(log.append(b"{}"), Err(Error::ThroughLink { .. })),
        "swapped in while open"
    );
    assert_eq!(fs::read(dir.path().join("moved")).unwrap(), b"");
}

#[test]
fn new_log_is_private_and_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.jsonl");
    assert!(matches!(
        Log::open(&path, DISK),
        Err(Error::Io { action: "open", .. })
    ));
    let new = AppendOptions {
        create: Create::New,
        ..DISK
    };
    let log = Log::open(&path, new).unwrap();
    log.append(b"{}").unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    assert!(matches!(
        Log::open(&path, new),
        Err(Error::Io {
            action: "create",
            ..
        })
    ));
    assert_eq!(fs::read(&path).unwrap(), b"{}\n");
}

#[test]
fn append_follows_the_path_to_a_replaced_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "old\n");
    let log = Log::open(&path, DISK).unwrap();
    log.append(b"1").unwrap();
    let mut old = File::open(&path).unwrap();
    let new = dir.path().join("new");
    fs::write(&new, "new\n").unwrap();
    fs::rename(&new, &path).unwrap();
    log.append(b"2").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n2\n");
    fs::remove_file(&path).unwrap();
    let gone = log.append(b"3").unwrap_err();
    assert!(matches!(&gone, Error::Io { action: "open", .. }), "{gone}");
    assert!(!path.exists());
    let mut text = String::new();
    old.read_to_string(&mut text).unwrap();
    assert_eq!(text, "old\n1\n");
}

#[test]
fn append_without_lock_wait_follows_a_replaced_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "old\n");
    let hasty = AppendOptions {
        lock_wait: Duration::ZERO,
        ..OS
    };
    let log = Log::open(&path, hasty).unwrap();
    let new = dir.path().join("new");
    fs::write(&new, "new\n").unwrap();
    fs::rename(&new, &path).unwrap();
    log.append(b"1").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n1\n");
    // If the directory no longer exists, the error gives the reason.
    fs::rename(dir.path(), dir.path().with_extension("moved")).unwrap();
    fs::write(dir.path(), "").unwrap();
    let reported = log.append(b"2").unwrap_err();
    fs::remove_file(dir.path()).unwrap();
    fs::rename(dir.path().with_extension("moved"), dir.path()).unwrap();
    assert!(
        matches!(&reported, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotADirectory),
        "{reported}"
    );
}

#[test]
fn held_lock_times_out_with_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = log_in(&dir, "");
    let inode = fs::metadata(&path).unwrap().ino();
    let holder = File::open(&path).unwrap();
    holder.lock().unwrap();
    let wait = Duration::from_millis(30);
    let log = Log::open(
        &path,
        AppendOptions {
            lock_wait: wait,
            ..OS
        },
    )
    .unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| match log.append(b"{}").unwrap_err() {
                Error::Busy {
                    path: reported,
                    waited,
                } => {
                    assert_eq!(reported, path);
                    assert!(waited >= wait && waited < 50 * wait, "{waited:?}");
                }
                other => panic!("{other}"),
            });
        }
    });
    holder.unlock().unwrap();
    log.append(b"{}").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
}

/// For each file size limit, appends a record that does not fit, then one that does; lists the
/// acknowledged ones in a second file.
fn write_within_limits(path: &Path, append: &dyn Fn(&str) -> annals_jsonl::Result<()>) {
    let mut acknowledged = File::create(path.with_extension("acks")).unwrap();
    let unlimited = getrlimit(Resource::Fsize);
    let long = "y".repeat(8_192);
    let step = if gates::full() { 1 } else { 37 };
    for room in (0..=8_192).step_by(step) {
        let len = fs::metadata(path).unwrap().len();
        setrlimit(
            Resource::Fsize,
            Rlimit {
                current: Some(len + room),
                maximum: unlimited.maximum,
            },
        )
        .unwrap();
        let full = append(&long);
        setrlimit(Resource::Fsize, unlimited).unwrap();
        assert!(full.is_err(), "{room} bytes of room were enough");
        if path.ends_with("sealing.jsonl") {
            assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        }
        append(&record(&format!("after-{room}"))).unwrap();
        writeln!(acknowledged, "after-{room}").unwrap();
    }
}

/// Runs [`write_within_limits`] in a child process that ignores SIGXFSZ.
fn lost_within_limits(variant: &str) -> Counts {
    let dir = gates::dir();
    let path = dir.path().join(format!("{variant}.jsonl"));
    File::create(&path)
        .unwrap()
        .write_all_at(b"{}\n", 0)
        .unwrap();
    let part = player(&format!("limit {variant}"), &path);
    let mut shell = Command::new("bash");
    shell.args(["-c", r#"trap "" XFSZ; exec "$@""#, "bash"]);
    shell
        .arg(part.get_program())
        .args(part.get_args())
        .stdout(Stdio::null());
    shell.envs(
        part.get_envs()
            .filter_map(|(key, value)| Some((key, value?))),
    );
    assert!(shell.status().unwrap().success());
    let found = lines(&path);
    let acknowledged = fs::read_to_string(path.with_extension("acks")).unwrap();
    let acks = acknowledged.lines().count();
    assert!(acks > 200);
    let mut names = acknowledged.lines();
    let lost = names
        .by_ref()
        .filter(|name| !found.contains_key(&record(name)));
    Counts {
        points: acks,
        acks,
        lost: lost.count(),
        ..Counts::default()
    }
}

#[test]
fn a_file_size_limit_at_any_byte_loses_no_acknowledged_record() {
    let counts = lost_within_limits("sealing");
    assert_eq!(counts.lost, 0);
    gates::print_counts(4, "no room after any byte of a record", counts);
}

#[test]
fn control_a_writer_that_does_not_seal_loses_at_the_limit() {
    assert!(lost_within_limits("plain").lost > 100);
    gates::print_control(4, "no sealing");
}
