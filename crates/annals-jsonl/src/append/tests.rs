//! Appends on a device that shortens, tears and fails writes on demand.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// A device of two closures.
struct FakeIo<W, S> {
    write: W,
    sync: S,
}

impl<W, S> WriteIo for FakeIo<W, S>
where
    W: Fn(&File, &[u8]) -> io::Result<usize> + Send + Sync,
    S: Fn(&File) -> io::Result<()> + Send + Sync,
{
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        (self.write)(file, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        (self.sync)(file)
    }
}

struct TestLog {
    dir: tempfile::TempDir,
}

impl TestLog {
    fn new(content: &[u8]) -> Self {
        let bench = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::write(bench.path(), content).unwrap();
        bench
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn open(&self, durability: Durability, device: impl WriteIo + 'static) -> Log {
        let options = AppendOptions {
            durability,
            ..AppendOptions::default()
        };
        Log::with_io(self.path(), options, Box::new(device)).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Number of acknowledged records that are not lines of the log.
    fn lost(&self, acknowledged: &[Vec<u8>]) -> usize {
        let bytes = fs::read(self.path()).unwrap();
        let lines: HashSet<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        acknowledged
            .iter()
            .filter(|record| !lines.contains(&record[..]))
            .count()
    }
}

fn write_through(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    file.write(bytes)
}

fn record(n: usize) -> Vec<u8> {
    format!(r#"{{"n":{n},"pad":"{}"}}"#, "x".repeat(600)).into_bytes()
}

#[test]
fn append_completes_write_shortened_at_any_byte() {
    let bench = TestLog::new(b"");
    let cut = Arc::new(AtomicUsize::new(0));
    let write = {
        let cut = Arc::clone(&cut);
        move |file: &File, bytes: &[u8]| match cut.swap(usize::MAX, Ordering::Relaxed) {
            0 => Err(io::ErrorKind::Interrupted.into()),
            most => write_through(file, &bytes[..bytes.len().min(most)]),
        }
    };
    let log = bench.open(
        Durability::Os,
        FakeIo {
            write,
            sync: |_: &File| Ok(()),
        },
    );
    let mut wanted = String::new();
    for at in 0..=record(0).len() {
        cut.store(at, Ordering::Relaxed);
        let appended = log.append(&record(at)).unwrap();
        assert_eq!(appended.offset, wanted.len() as u64);
        wanted += &format!("{}\n", String::from_utf8(record(at)).unwrap());
        assert_eq!(appended.end, wanted.len() as u64);
    }
    assert_eq!(bench.text(), wanted);
}

#[test]
fn full_disk_at_any_byte_neither_loses_nor_glues_records() {
    for (sealable, errno) in [(true, 28), (false, 28), (true, 122), (false, 27)] {
        let bench = TestLog::new(b"");
        let room = Arc::new(AtomicUsize::new(usize::MAX));
        let write = {
            let room = Arc::clone(&room);
            move |file: &File, bytes: &[u8]| match room.load(Ordering::Relaxed) {
                0 if sealable && bytes == b"\n" => write_through(file, bytes),
                0 => Err(io::Error::from_raw_os_error(errno)),
                room_now => {
                    let written = write_through(file, &bytes[..bytes.len().min(room_now)])?;
                    room.store(room_now - written, Ordering::Relaxed);
                    Ok(written)
                }
            }
        };
        let log = bench.open(
            Durability::Os,
            FakeIo {
                write,
                sync: |_: &File| Ok(()),
            },
        );
        let mut acknowledged = Vec::new();
        for at in 0..=record(0).len() {
            room.store(at, Ordering::Relaxed);
            let full = log.append(&record(at)).unwrap_err();
            assert!(matches!(full, Error::Full { .. }), "{full}");
            if sealable {
                assert!(
                    bench.text().is_empty() || bench.text().ends_with('\n'),
                    "cut at {at}"
                );
            }
            room.store(usize::MAX, Ordering::Relaxed);
            log.append(&record(10_000 + at)).unwrap();
            acknowledged.push(record(10_000 + at));
        }
        assert_eq!(bench.lost(&acknowledged), 0);
        assert!(
            !bench.text().contains("\n\n"),
            "sealed where nothing was torn"
        );
    }
}

#[test]
fn control_writer_without_tail_sealing_loses_records() {
    let bench = TestLog::new(b"");
    let mut file = File::options().append(true).open(bench.path()).unwrap();
    let mut acknowledged = Vec::new();
    for at in 1..10 {
        file.write_all(&record(at)[..at]).unwrap();
        file.write_all(&[record(10_000 + at), b"\n".to_vec()].concat())
            .unwrap();
        acknowledged.push(record(10_000 + at));
    }
    assert_eq!(bench.lost(&acknowledged), 9);
}

#[test]
fn append_retries_record_damaged_by_foreign_write() {
    let bench = TestLog::new(b"{\"first\":1}\n");
    let path = bench.path();
    let turns = AtomicUsize::new(0);
    let write = move |file: &File, bytes: &[u8]| {
        // A foreign writer gets in after our check of the last byte: first with an unfinished line,
        // then with a whole one.
        let foreign: &[u8] = match turns.fetch_add(1, Ordering::Relaxed) {
            0 => b"{\"foreign\":",
            1 => b"{\"whole\":1}\n",
            _ => b"",
        };
        let mut other = File::options().append(true).open(&path)?;
        other.write_all(foreign)?;
        let written = write_through(file, bytes)?;
        other.write_all(b"0}\n")?;
        Ok(written)
    };
    let log = bench.open(
        Durability::Os,
        FakeIo {
            write,
            sync: |_: &File| Ok(()),
        },
    );
    let appended = log.append(b"{\"ours\":1}").unwrap();
    let text = bench.text();
    assert_eq!(
        &text[appended.offset as usize..appended.end as usize],
        "{\"ours\":1}\n"
    );
    assert_eq!(
        &text[..appended.offset as usize].chars().next_back(),
        &Some('\n'),
        "{text}"
    );
    assert_eq!(
        bench.lost(&[b"{\"ours\":1}".to_vec(), b"{\"whole\":1}".to_vec()]),
        0
    );
}

#[test]
fn append_verifies_long_record_to_its_end() {
    let long = [b"\"", &[b'x'; 30_000][..], b"\""].concat();
    for damaged in [None, Some(100), Some(9_000), Some(17_000), Some(29_999)] {
        let bench = TestLog::new(b"{}\n");
        let turns = AtomicUsize::new(0);
        let write = move |file: &File, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if turns.fetch_add(1, Ordering::Relaxed) == 0
                && let Some(at) = damaged
            {
                bytes[at] = b'?';
            }
            write_through(file, &bytes)
        };
        let log = bench.open(
            Durability::Os,
            FakeIo {
                write,
                sync: |_: &File| Ok(()),
            },
        );
        let appended = log.append(&long).unwrap();
        let text = bench.text();
        assert_eq!(
            &text.as_bytes()[appended.offset as usize..appended.end as usize - 1],
            long,
            "{damaged:?}"
        );
        let writes = text.lines().filter(|line| line.len() == long.len());
        assert_eq!(writes.count(), 1 + usize::from(damaged.is_some()));
    }
}

#[test]
fn persistent_foreign_writer_costs_one_extra_write() {
    let bench = TestLog::new(b"");
    let path = bench.path();
    let writes = Arc::new(AtomicUsize::new(0));
    let write = {
        let writes = Arc::clone(&writes);
        move |file: &File, bytes: &[u8]| {
            writes.fetch_add(1, Ordering::Relaxed);
            File::options()
                .append(true)
                .open(&path)?
                .write_all(b"}\n{")?;
            write_through(file, bytes)
        }
    };
    let log = bench.open(
        Durability::Os,
        FakeIo {
            write,
            sync: |_: &File| Ok(()),
        },
    );
    log.append(b"[1]").unwrap();
    assert_eq!(writes.load(Ordering::Relaxed), 2);
    assert_eq!(bench.text(), "}\n{[1]\n}\n{\n[1]\n");
}

#[test]
fn record_truncated_on_every_attempt_is_not_acknowledged() {
    let bench = TestLog::new(b"");
    let path = bench.path();
    let write = move |file: &File, bytes: &[u8]| {
        let written = write_through(file, bytes)?;
        File::options()
            .write(true)
            .open(&path)?
            .set_len(file.metadata()?.len() - 1)?;
        Ok(written)
    };
    let log = bench.open(
        Durability::Os,
        FakeIo {
            write,
            sync: |_: &File| Ok(()),
        },
    );
    assert!(matches!(log.append(b"{}"), Err(Error::Io { .. })));
}

#[test]
fn lock_is_released_before_sync() {
    let bench = TestLog::new(b"");
    let path = bench.path();
    let sync = move |_: &File| {
        let other = File::open(&path)?;
        other
            .try_lock()
            .map_err(|_| io::Error::other("still locked"))
    };
    let log = bench.open(
        Durability::Disk,
        FakeIo {
            write: write_through,
            sync,
        },
    );
    log.append(b"{}").unwrap();
}

#[test]
fn waiting_appends_share_one_sync() {
    const WRITERS: usize = 16;
    let bench = TestLog::new(b"");
    let syncs = Arc::new(AtomicUsize::new(0));
    let sync = {
        let syncs = Arc::clone(&syncs);
        move |file: &File| {
            if syncs.fetch_add(1, Ordering::Relaxed) == 0 {
                let limit = Instant::now() + Duration::from_secs(10);
                while file.metadata()?.len() < 3 * WRITERS as u64 && Instant::now() < limit {
                    thread::yield_now();
                }
            }
            Ok(())
        }
    };
    let log = bench.open(
        Durability::Disk,
        FakeIo {
            write: write_through,
            sync,
        },
    );
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| log.append(b"{}").unwrap());
        }
    });
    assert_eq!(bench.text(), "{}\n".repeat(WRITERS));
    // One for the first writer, one for all others, and one more if a ticket came too late.
    let syncs = syncs.load(Ordering::Relaxed);
    assert!((2..=3).contains(&syncs), "{syncs} syncs");
}

/// A disk on which one sync fails and drops what was written since the previous sync, as Linux
/// does: the next sync succeeds.
#[derive(Default)]
struct LossyDisk {
    syncs: AtomicUsize,
    failed: AtomicBool,
    durable: Mutex<Vec<(u64, u64)>>,
    from: Mutex<u64>,
}

impl LossyDisk {
    fn sync(&self, file: &File) -> io::Result<()> {
        let mut from = self.from.lock().unwrap();
        let span = (*from, file.metadata()?.len());
        *from = span.1;
        let late = self.syncs.fetch_add(1, Ordering::Relaxed) >= 2;
        if late && span.0 < span.1 && !self.failed.swap(true, Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(5));
        }
        self.durable.lock().unwrap().push(span);
        Ok(())
    }

    fn is_durable(&self, appended: Appended) -> bool {
        let kept = self.durable.lock().unwrap();
        kept.iter()
            .any(|(from, to)| *from <= appended.offset && appended.end <= *to)
    }
}

/// Appends from many threads until all have failed or finished; counts acknowledged losses.
fn acknowledged_but_dropped(retry: bool) -> (usize, usize) {
    let bench = TestLog::new(b"");
    let disk = Arc::new(LossyDisk::default());
    let sync = {
        let disk = Arc::clone(&disk);
        move |file: &File| match disk.sync(file) {
            Err(_) if retry => disk.sync(file),
            outcome => outcome,
        }
    };
    let log = bench.open(
        Durability::Disk,
        FakeIo {
            write: write_through,
            sync,
        },
    );
    let (acknowledged, refused) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    match log.append(b"{}") {
                        Ok(appended) => acknowledged.lock().unwrap().push(appended),
                        Err(Error::Io { .. } | Error::Poisoned { .. }) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    let dropped = acknowledged
        .iter()
        .filter(|appended| !disk.is_durable(**appended))
        .count();
    (dropped, refused.into_inner())
}

#[test]
fn failed_sync_poisons_log_for_all_threads() {
    let (dropped, refused) = acknowledged_but_dropped(false);
    assert_eq!(dropped, 0);
    assert!(refused > 0);
}

#[test]
fn control_writer_that_retries_sync_loses_records() {
    let (dropped, _) = acknowledged_but_dropped(true);
    assert!(dropped > 0);
}

#[test]
fn failed_sync_is_reported_once_then_appends_are_refused() {
    let bench = TestLog::new(b"");
    let syncs = AtomicUsize::new(0);
    let sync = move |_: &File| match syncs.fetch_add(1, Ordering::Relaxed) {
        1 => Err(io::Error::from_raw_os_error(5)),
        _ => Ok(()),
    };
    let log = bench.open(
        Durability::Disk,
        FakeIo {
            write: write_through,
            sync,
        },
    );
    log.append(b"1").unwrap();
    assert!(matches!(
        log.append(b"2"),
        Err(Error::Io { action: "sync", .. })
    ));
    for _ in 0..2 {
        assert!(matches!(log.append(b"3"), Err(Error::Poisoned { path }) if path == bench.path()));
    }
    assert_eq!(bench.text(), "1\n2\n");
}

/// Appends a record while a foreign program does `foreign` at the first write. Returns what `moved`
/// got, the offset of the record, and the log.
fn append_tracked(
    foreign: impl Fn(&Path, &File, &[u8]) -> io::Result<usize> + Send + Sync + 'static,
) -> (Vec<u64>, u64, String) {
    let bench = TestLog::new(b"{\"first\":1}\n");
    let path = bench.path();
    let turns = AtomicUsize::new(0);
    let write = move |file: &File, bytes: &[u8]| match turns.fetch_add(1, Ordering::Relaxed) {
        0 => foreign(&path, file, bytes),
        _ => write_through(file, bytes),
    };
    let device = FakeIo {
        write,
        sync: |_: &File| Ok(()),
    };
    let options = AppendOptions {
        durability: Durability::Os,
        lock_file: true,
        ..AppendOptions::default()
    };
    let log = Log::with_io(bench.path(), options, Box::new(device)).unwrap();
    let mut ends = Vec::new();
    let appended = log.append_all_tracked(
        |_, _| Ok::<_, Error>((vec![b"{\"ours\":1}".to_vec()], ())),
        |_, end, _| {
            ends.push(end);
            Ok(())
        },
    );
    let offset = appended.unwrap()[0].offset;
    (ends, offset, bench.text())
}

#[test]
fn append_reports_where_a_foreign_program_moved_its_records() {
    const FIRST: &str = "{\"first\":1}\n";
    const FOREIGN: &str = "{\"foreign\":1}\n";
    const OURS: &str = "{\"ours\":1}\n";
    let replace = |path: &Path, text: &str| {
        let copy = path.with_file_name("other");
        fs::write(&copy, text)?;
        fs::rename(copy, path)
    };
    assert_eq!(
        append_tracked(|_, file, bytes| write_through(file, bytes)),
        (vec![], 12, format!("{FIRST}{OURS}"))
    );
    let appended = append_tracked(|path, file, bytes| {
        let mut other = File::options().append(true).open(path)?;
        other.write_all(FOREIGN.as_bytes())?;
        write_through(file, bytes)
    });
    let after = format!("{FIRST}{FOREIGN}{OURS}");
    assert_eq!(appended, (vec![26], 26, after.clone()));
    // A copy from before the write replaces the log.
    let lost = append_tracked(move |path, file, bytes| {
        let written = write_through(file, bytes)?;
        replace(path, &format!("{FIRST}{FOREIGN}"))?;
        Ok(written)
    });
    assert_eq!(lost, (vec![26], 26, after.clone()));
    // The log is replaced by one that has the record elsewhere, or in the same place.
    let found = append_tracked(move |path, file, bytes| {
        let written = write_through(file, bytes)?;
        replace(path, &format!("{FIRST}{FOREIGN}{OURS}"))?;
        Ok(written)
    });
    assert_eq!(found, (vec![26], 26, after));
    let copied = append_tracked(move |path, file, bytes| {
        let written = write_through(file, bytes)?;
        replace(path, &format!("{FIRST}{OURS}{FOREIGN}"))?;
        Ok(written)
    });
    assert_eq!(copied, (vec![], 12, format!("{FIRST}{OURS}{FOREIGN}")));
}

#[test]
fn log_is_usable_after_panic_under_lock() {
    let bench = TestLog::new(b"");
    let log = bench.open(Durability::Os, SystemIo);
    let panicked = thread::scope(|scope| {
        scope
            .spawn(|| log.append_with::<Error>(|_, _| panic!("on purpose")))
            .join()
    });
    assert!(panicked.is_err());
    log.append(b"{}").unwrap();
    assert_eq!(bench.text(), "{}\n");
}
