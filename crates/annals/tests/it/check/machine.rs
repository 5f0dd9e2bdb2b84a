//! Checks of the environment of the logs.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;

use annals::check;
use annals::model::FlawKind as F;
use annals::store::Store;
use jiff::{SignedDuration, Timestamp};

use super::{Made, SESSION, user};

/// Returns the flaws of the environment at `now`.
fn found(made: &Made, now: Timestamp) -> Vec<(F, String)> {
    let store = Store::new(vec![made.root()]);
    let reports = check::environment(&store, &made.inventory(), now);
    let flaws = reports.into_iter().flat_map(|report| report.flaws);
    flaws.map(|flaw| (flaw.kind, flaw.detail)).collect()
}

fn mode(made: &Made, path: &str, mode: u32) {
    let path = made.path().join(path);
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn logs_readable_by_others_are_reported_once() {
    let made = Made::from_lines(&[user(1, None)]);
    let log = format!("projects/-w/{SESSION}.jsonl");
    let now = Timestamp::now();
    for (of_root, of_log, said) in [
        (0o700, 0o644, None),
        (0o755, 0o600, None),
        (
            0o755,
            0o644,
            Some("other users can read 1 log: chmod -R go-rwx /"),
        ),
        (0o711, 0o640, Some("other users can read 1 log")),
        (0o755, 0o666, Some("other users can change 1 log")),
    ] {
        mode(&made, "", of_root);
        mode(&made, &log, of_log);
        let found = found(&made, now);
        match said {
            None => assert_eq!(found, [], "{of_root:o} {of_log:o}"),
            Some(said) => {
                assert_eq!(found.len(), 1, "{of_root:o} {of_log:o}: {found:?}");
                assert_eq!(found[0].0, F::OpenMode);
                assert!(found[0].1.starts_with(said), "{found:?}");
            }
        }
    }
}

#[test]
fn sessions_about_to_expire_are_reported_with_the_date() {
    let made = Made::from_lines(&[user(1, None)]);
    mode(&made, "", 0o700);
    let written: Timestamp = "2026-03-02T09:00:00Z".parse().unwrap();
    let log = made.path().join(format!("projects/-w/{SESSION}.jsonl"));
    let times = FileTimes::new().set_modified(SystemTime::from(written));
    let file = File::options().write(true).open(log).unwrap();
    file.set_times(times).unwrap();
    let after = |days: i64| written + SignedDuration::from_hours(24 * days);
    let said = |days| {
        let found = found(&made, after(days));
        let found = found.into_iter().map(|(kind, detail)| {
            assert_eq!(kind, F::Expiring);
            detail
        });
        found.collect::<Vec<String>>()
    };
    assert_eq!(said(22), [""; 0]);
    assert_eq!(
        said(23),
        [
            "claude-code will delete 1 session within a week, the first on 2026-04-01 (it keeps them for 30 days)"
        ]
    );
    assert_eq!(
        said(31),
        ["claude-code will delete 1 session at its next start (it keeps them for 30 days)"]
    );
    made.put("settings.json", br#"{"cleanupPeriodDays":365}"#);
    assert_eq!(said(31), [""; 0]);
}
