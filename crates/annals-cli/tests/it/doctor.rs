//! `annals doctor`: what it shows, and what it must not show.

use crate::harness::Stage;

#[test]
fn report_names_no_path_session_or_project() {
    let stage = Stage::with_fixture("2.1.325-s03-todos");
    let session = stage.annals(&["sessions", "--json"]).json();
    let session = &session["sessions"][0];
    for format in [&["doctor"][..], &["doctor", "--json"]] {
        let mut command = stage.command();
        let report = command
            .arg("--root")
            .arg(&stage.root)
            .args(format)
            .output()
            .unwrap();
        let report = String::from_utf8(report.stdout).unwrap();
        let private = [
            stage.root.to_str().unwrap(),
            session["id"].as_str().unwrap(),
            session["title"].as_str().unwrap(),
            session["project"]["path"].as_str().unwrap_or("/no/project"),
        ];
        for text in private {
            assert!(!report.contains(text), "{text} is in {report}");
        }
        assert!(report.contains("elsewhere"), "{report}");
        assert!(
            report.contains("2.1.325"),
            "the version is missing in {report}"
        );
    }
}

#[test]
fn option_paths_shows_the_roots() {
    let stage = Stage::with_fixture("2.1.325-s03-todos");
    let mut command = stage.command();
    let report = command
        .arg("--root")
        .arg(&stage.root)
        .args(["doctor", "--paths", "--json"]);
    let report: serde_json::Value =
        serde_json::from_slice(&report.output().unwrap().stdout).unwrap();
    let place = report["programs"][0]["root"]["place"].as_str().unwrap();
    assert!(
        place.ends_with(stage.root.file_name().unwrap().to_str().unwrap()),
        "{place}"
    );
}

#[test]
fn unwritable_root_is_reported_as_such() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    let stage = Stage::with_fixture("2.1.325-s03-todos");
    set_permissions(&stage.root, Permissions::from_mode(0o555)).unwrap();
    let report = stage.annals(&["doctor"]);
    set_permissions(&stage.root, Permissions::from_mode(0o755)).unwrap();
    // The superuser may write anywhere.
    let expected = match rustix::process::geteuid().is_root() {
        true => "read and write",
        false => "no permission to write",
    };
    assert!(report.out.contains(expected), "{}", report.out);
}

#[test]
fn empty_home_has_nothing_to_do() {
    let stage = Stage::empty();
    // Programs that are installed on this machine are listed too.
    let output = stage
        .command()
        .env("PATH", "")
        .arg("doctor")
        .output()
        .unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        report.contains("No agent history and no agent program was found."),
        "{report}"
    );
    assert!(report.contains("Nothing to do."), "{report}");
}

#[test]
fn timer_is_reported_with_what_enables_it() {
    let stage = Stage::with_fixture("2.1.325-s03-todos");
    let units = stage
        .root
        .with_file_name("home")
        .join(".config/systemd/user");
    let report = || stage.annals(&["doctor", "--json"]).json();
    std::fs::create_dir_all(units.join("timers.target.wants")).unwrap();
    std::fs::write(units.join("annals-keep.timer"), "").unwrap();
    assert_eq!(report()["timer"], "systemd user timer, not enabled");
    let advice = report()["advice"].to_string();
    assert!(advice.contains("systemctl --user enable"), "{advice}");
    std::fs::write(units.join("timers.target.wants/annals-keep.timer"), "").unwrap();
    assert_eq!(report()["timer"], "systemd user timer");
    let advice = report()["advice"].to_string();
    assert!(!advice.contains("timer"), "{advice}");
}
