//! A script of appends and replacements, killed or failing at every system call.
//!
//! Needs `strace`, which sees calls that a preloaded library would miss; without it these tests
//! print that they were skipped, and pass.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use annals_jsonl::{AppendOptions, Create, Digest, Durability, Error, Log, create_new, replace};

/// Every system call of the script, and a few that another version of std would use instead.
const CALLS: [&str; 16] = [
    "openat",
    "flock",
    "fstat",
    "statx",
    "fstatfs",
    "read",
    "pread64",
    "write",
    "lseek",
    "fdatasync",
    "fsync",
    "fchown",
    "fchmod",
    "renameat",
    "renameat2",
    "close",
];

fn acknowledge(what: &str) {
    io::stderr()
        .write_all(format!("ack {what}\n").as_bytes())
        .unwrap();
}

#[test]
#[ignore = "a part that other tests give to a child process"]
fn role() {
    let Some(dir) = std::env::var_os("ANNALS_TEST_DIR") else {
        return;
    };
    let dir = Path::new(&dir);
    acknowledge("start");
    let options = AppendOptions {
        create: Create::New,
        ..AppendOptions::default()
    };
    let log = Log::open(dir.join("log"), options).unwrap();
    if std::env::var_os("ANNALS_TEST_EARLY").is_some() {
        acknowledge("one");
    }
    for record in ["one", "two"] {
        log.append(record.as_bytes()).unwrap();
        acknowledge(record);
    }
    log.append_all(&["three", "four"]).unwrap();
    acknowledge("three");
    acknowledge("four");
    let log = Log::open(
        dir.join("log"),
        AppendOptions {
            durability: Durability::Os,
            ..AppendOptions::default()
        },
    );
    log.unwrap()
        .append_with(|end, _| Ok::<_, Error>(format!("after {end}").into_bytes()))
        .unwrap();
    acknowledge("after 19");
    create_new(&dir.join("doc"), b"first").unwrap();
    acknowledge("first");
    replace(
        &dir.join("doc"),
        b"second",
        Some(&Digest::compute(b"first")),
    )
    .unwrap();
    acknowledge("second");
}

fn run(dir: &Path, inject: &str) -> Option<Output> {
    strace(dir, inject).output().ok()
}

fn strace(dir: &Path, inject: &str) -> Command {
    let trace = inject.split(':').next().unwrap();
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &format!("trace={trace}"),
    ]);
    strace.args(["-e", &format!("inject={inject}")]);
    // Only calls on these paths count: the start of the process makes calls of its own.
    let tag: String = Digest::compute(b"doc").0[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    for name in ["", "log", "doc", &format!(".annals-{tag}.tmp")] {
        strace.arg("-P").arg(dir.join(name).components().as_path());
    }
    strace.arg(std::env::current_exe().unwrap());
    strace.args(["--exact", "crash::role", "--include-ignored", "--nocapture"]);
    strace
        .env("ANNALS_TEST_DIR", dir)
        .stdout(Stdio::null())
        .stdin(Stdio::null());
    strace
}

fn acknowledged(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines()
        .filter_map(|line| line.strip_prefix("ack "))
        .map(str::to_owned)
        .collect()
}

/// Returns the acknowledged records that are missing.
fn lost(dir: &Path, acknowledged: &[String]) -> Vec<String> {
    let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
    let doc = fs::read_to_string(dir.join("doc")).unwrap_or_default();
    let stands = |name: &str| match name {
        "start" => true,
        "first" => ["first", "second"].contains(&doc.as_str()),
        "second" => doc == "second",
        record => log.lines().any(|line| line == record),
    };
    assert!(
        ["", "first", "second"].contains(&doc.as_str()),
        "half a document: {doc}"
    );
    acknowledged
        .iter()
        .filter(|name| !stands(name))
        .cloned()
        .collect()
}

#[test]
fn kill_at_every_system_call_loses_nothing_and_allows_recovery() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("strace is not installed: not checked");
        return;
    }
    let mut points = 0;
    let mut finished = 0;
    for call in CALLS {
        for k in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let output = run(dir.path(), &format!("{call}:signal=KILL:when={k}")).unwrap();
            let acks = acknowledged(&output);
            assert_eq!(lost(dir.path(), &acks), [""; 0], "{call} {k}");
            if output.status.success() {
                assert_eq!(acks.len(), 8);
                finished += 1;
                break;
            }
            assert_eq!(
                acks.first().map(String::as_str),
                Some("start"),
                "killed too early"
            );
            points += 1;
            go_on(dir.path());
            assert_eq!(
                lost(dir.path(), &acks),
                [""; 0],
                "{call} {k}, after recovery"
            );
        }
    }
    assert_eq!(finished, CALLS.len());
    assert!(points > 70, "only {points} points");
}

fn go_on(dir: &Path) {
    let create = if dir.join("log").exists() {
        Create::Never
    } else {
        Create::New
    };
    let log = Log::open(
        dir.join("log"),
        AppendOptions {
            create,
            ..AppendOptions::default()
        },
    )
    .unwrap();
    log.append(b"recovered").unwrap();
    let text = fs::read_to_string(dir.join("log")).unwrap();
    assert!(
        text.ends_with("\nrecovered\n") || text == "recovered\n",
        "{text}"
    );
    let doc = dir.join("doc");
    let kept = fs::read(&doc).ok();
    replace(&doc, kept.as_deref().unwrap_or_default(), None).unwrap();
    assert_eq!(
        fs::read_dir(dir).unwrap().count(),
        2,
        "something was left behind"
    );
}

#[test]
fn failed_sync_fails_the_append() {
    let dir = tempfile::tempdir().unwrap();
    let Some(output) = run(dir.path(), "fdatasync:error=EIO:when=2") else {
        println!("strace is not installed: not checked");
        return;
    };
    assert!(!output.status.success());
    assert_eq!(acknowledged(&output), ["start", "one"]);
}

#[test]
fn control_early_acknowledgement_is_caught() {
    let dir = tempfile::tempdir().unwrap();
    let mut strace = strace(dir.path(), "write:signal=KILL:when=1");
    let Ok(output) = strace.env("ANNALS_TEST_EARLY", "1").output() else {
        println!("strace is not installed: not checked");
        return;
    };
    assert_eq!(lost(dir.path(), &acknowledged(&output)), ["one"]);
}

#[test]
fn syncs_happen_in_the_promised_order() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().with_extension("trace");
    let calls = "trace=write,fdatasync,fsync,flock,renameat,renameat2";
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-y", "-e", calls, "-o"])
        .arg(&trace);
    strace.arg(std::env::current_exe().unwrap());
    strace.args(["--exact", "crash::role", "--include-ignored", "--nocapture"]);
    let Ok(output) = strace
        .env("ANNALS_TEST_DIR", dir.path())
        .stdout(Stdio::null())
        .output()
    else {
        println!("strace is not installed: not checked");
        return;
    };
    assert!(output.status.success());
    let text = fs::read_to_string(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    let root = dir.path().to_str().unwrap();
    let seen: Vec<&str> = text.lines().filter_map(|line| event(line, root)).collect();
    let first = ["lock", "write log", "unlock", "sync log", "sync dir", "ack"];
    let later = ["lock", "write log", "unlock", "sync log", "ack"];
    let os = ["ack", "lock", "write log", "unlock", "ack"];
    let document = [
        "lock",
        "write temp",
        "sync temp",
        "rename",
        "sync dir",
        "unlock",
        "ack",
    ];
    let wanted = [
        &["ack"][..],
        &first,
        &later,
        &later,
        &os,
        &document,
        &document,
    ]
    .concat();
    assert_eq!(seen, wanted);
}

fn event(line: &str, root: &str) -> Option<&'static str> {
    let call = line.split_once(' ')?.1.trim_start();
    let on = |name: &str| call.contains(&format!("<{root}{name}"));
    Some(match call.split('(').next()? {
        "write" if call.contains("\"ack ") => "ack",
        "write" if on("/log>") => "write log",
        "write" if on("/.annals-") => "write temp",
        "fdatasync" if on("/log>") => "sync log",
        "fsync" if on("/.annals-") => "sync temp",
        "fsync" if on(">") => "sync dir",
        "flock" if call.contains("LOCK_UN") => "unlock",
        "flock" => "lock",
        "renameat" | "renameat2" | "rename" => "rename",
        _ => return None,
    })
}
