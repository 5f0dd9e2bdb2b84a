//! Unknown names are reported with the nearest known ones.

use crate::harness::Stage;

#[test]
fn unknown_project_is_reported_with_the_nearest_name() {
    let stage = Stage::with_fixture("2.1.325-s01-multiturn");
    let sessions = stage.annals(&["sessions", "--json"]).json();
    let path = sessions["sessions"][0]["project"].as_str().unwrap();
    let name = path.rsplit('/').next().unwrap().to_owned();
    let near = format!("{name}x");
    let verbs: [&[&str]; 5] = [
        &["sessions"],
        &["conversations"],
        &["projects"],
        &["cost"],
        &["search", "the"],
    ];
    for verb in verbs {
        let run = stage.annals(&[verb, &["--project", &near]].concat());
        assert_eq!(run.code, 1, "{verb:?}: {run}");
        let reported = format!("no project matches `{near}`; similar: `");
        assert!(run.err.contains(&reported), "{verb:?}: {run}");
        let run = stage.annals(&[verb, &["--project", "q~q~q", "--json"]].concat());
        assert_eq!(run.code, 1, "{verb:?}: {run}");
        assert!(
            run.err.contains("no project matches `q~q~q` ("),
            "{verb:?}: {run}"
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(&run.out).is_ok(),
            "{run}"
        );
        let run = stage.annals(&[verb, &["--project", &name]].concat());
        assert!(!run.err.contains("no project matches"), "{verb:?}: {run}");
    }
    let verbs: [&[&str]; 4] = [
        &["delete"],
        &["clean", "--older-than", "30d"],
        &["archive"],
        &["export"],
    ];
    for verb in verbs {
        let run = stage.refused(&[verb, &["--project", &near]].concat(), "");
        assert!(run.err.contains("similar: `"), "{verb:?}: {run}");
    }
}

#[test]
fn export_accepts_a_project_folder_with_leading_hyphen() {
    let stage = Stage::with_fixture("2.1.325-s01-multiturn");
    let folder = "-home-dev-work-s01-multiturn";
    let whole = stage.annals(&["export", "--project", folder]).fine();
    let named = stage.annals(&["export", folder]).fine();
    assert_eq!(named.out, whole.out);
    assert!(!named.out.is_empty());
    let run = stage.refused(&["export", "--nonesuch"], "");
    assert!(run.err.contains("unknown option"), "{run}");
}
