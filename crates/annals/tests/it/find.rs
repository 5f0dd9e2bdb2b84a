//! What links in a root mean, and what a path means.

use std::fs;
use std::os::unix::fs::symlink;

use annals::Error;
use annals::model::ArtifactKind;
use annals::store::Store;

use crate::support::{case, cases};

/// A link to a folder stands beside it; in which order a directory lists them must not matter.
#[test]
fn a_link_never_hides_the_real_folder() {
    let copy = case("same-session-two-projects").copy();
    let projects = copy.root.path.join("projects");
    let real = copy.sessions();
    for name in ["-a", "-m", "-z", "-home", "-home-dev-b", "-zzz", "-0", "-1"] {
        for folder in ["-home-dev-copy", "-home-dev-original"] {
            symlink(
                projects.join(folder),
                projects.join(format!("{name}{folder}")),
            )
            .unwrap();
        }
    }
    let paths = |sessions: &[annals::store::SessionFiles]| -> Vec<_> {
        let logs = sessions.iter().flat_map(|files| files.logs());
        logs.map(|file| file.path.clone()).collect()
    };
    assert_eq!(paths(&copy.sessions()), paths(&real));
}

#[test]
fn files_that_are_links_are_not_read() {
    let copy = case("todos").copy();
    let root = &copy.root.path;
    for (name, kind) in [
        ("settings.json", ArtifactKind::Settings),
        ("history.jsonl", ArtifactKind::History),
    ] {
        let elsewhere = copy.dir.path().join(name);
        let _ = fs::remove_file(root.join(name));
        fs::write(&elsewhere, "{\"cleanupPeriodDays\":7}\n").unwrap();
        symlink(&elsewhere, root.join(name)).unwrap();
        let inventory = copy.store().inventory();
        assert_eq!(inventory.others_of(kind).count(), 0, "{name}");
        // Settings hold no history, and many people keep them elsewhere.
        let reported = usize::from(name != "settings.json");
        assert_eq!(inventory.troubles.len(), reported, "{name}");
        fs::remove_file(root.join(name)).unwrap();
    }
    // A link that leads nowhere, or round in circles, is no trouble.
    symlink("nowhere", root.join("projects/gone")).unwrap();
    symlink("..", root.join("projects/round")).unwrap();
    assert!(copy.store().inventory().troubles.is_empty());
}

#[test]
fn the_path_of_a_file_means_that_file() {
    let mut seen = (0, 0, 0);
    for case in cases() {
        let store = Store::new(vec![case.root()]);
        let inventory = store.inventory();
        // Also where the root was not named.
        let bare = Store::new(Vec::new());
        let nothing = bare.inventory();
        for files in &inventory.sessions {
            for file in files.files() {
                let text = file.path.to_str().unwrap();
                let both = [store.find(&inventory, text), bare.find(&nothing, text)];
                for found in both {
                    match (file.artifact.kind, found) {
                        (ArtifactKind::SessionLog, Ok(target)) => {
                            seen.0 += 1;
                            assert_eq!(target.log.as_ref().unwrap().path, file.path);
                            assert!(target.refuse_agent().is_ok());
                        }
                        (ArtifactKind::AgentLog, Ok(target)) => {
                            seen.1 += 1;
                            assert_eq!(target.files.id, files.id);
                            assert_eq!(target.agent_log().unwrap().path, file.path);
                            assert!(target.refuse_agent().is_err());
                            assert!(store.session(text).is_err());
                        }
                        (ArtifactKind::SharedLog, Ok(target)) => {
                            assert_eq!(target.files.id, files.id);
                        }
                        (ArtifactKind::SharedLog, Err(Error::Ambiguous { candidates, .. })) => {
                            assert!(candidates.contains(&files.id.to_string()));
                        }
                        (_, Err(Error::Refused(_))) => seen.2 += 1,
                        (kind, found) => panic!("{text}, {kind:?}: {found:?}"),
                    }
                }
            }
        }
    }
    assert!(seen.0 > 0 && seen.1 > 0 && seen.2 > 0, "{seen:?}");
}
