//! The schedule of verification.

use super::*;

/// What is read back after a run that is part of a round after the last one.
#[test]
fn verification_continues_after_what_was_verified_last() {
    let dir = Path::new("/archive");
    let paths: Vec<PathBuf> = (0..10).map(|n| dir.join(format!("r/{n}"))).collect();
    let sizes: Vec<(&Path, u64)> = paths.iter().map(|path| (&**path, 10)).collect();
    let now = Timestamp::UNIX_EPOCH + ROUND;
    let note = |part: f64, last: Option<&str>| Note {
        version: VERSION,
        verified: now - SignedDuration::from_secs_f64(ROUND.as_secs_f64() * part),
        last: last.map(PathBuf::from),
        damaged: BTreeSet::new(),
    };
    let names = |note: &Note| {
        let (due, upto) = due(dir, &sizes, note, now);
        let names = due
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap());
        (names.collect::<String>(), upto)
    };
    assert_eq!(names(&note(0.31, None)).0, "012");
    assert_eq!(names(&note(0.31, Some("r/7"))).0, "890");
    assert_eq!(names(&note(0.05, Some("r/7"))).0, "");
    assert_eq!(
        names(&note(3.0, Some("r/7"))),
        ("8901234567".to_owned(), now)
    );
    // The time that was not used counts for the next run.
    let (_, upto) = names(&note(0.39, None));
    let left = now.duration_since(upto).as_secs_f64() / ROUND.as_secs_f64();
    assert!((left - 0.09).abs() < 0.001, "{left}");
    // A time in the future is invalid.
    assert_eq!(names(&note(-1.0, None)), ("0123456789".to_owned(), now));
}
