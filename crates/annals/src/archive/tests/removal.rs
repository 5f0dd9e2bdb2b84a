//! Removing sessions from the archive.

use super::*;

#[test]
fn removal_leaves_nothing_of_the_session() {
    let desk = Fixture::new();
    desk.put(LOG, "first\n");
    desk.store();
    desk.put(LOG, "second\n");
    desk.store();
    fs::remove_file(desk.root.path.join(LOG)).unwrap();
    let plan = desk.archive().plan_removal(ID, None).unwrap().remove(0);
    assert_eq!(
        (plan.files, plan.only, plan.repeated, plan.earlier),
        (2, 1, 0, 1)
    );
    assert_eq!((plan.bytes, plan.sessions.len()), (9, 1));
    assert!(plan.damaged.is_none() && plan.pack == desk.stored(LOG));
    desk.archive().remove_session(&plan).unwrap();
    assert!(names(&desk.archive().dir).unwrap().is_empty());
    // It can be archived again.
    desk.put(LOG, "third\n");
    desk.store();
    assert!(desk.assert_archived().earlier.is_empty());
}

#[test]
fn removal_of_one_session_leaves_the_others() {
    let desk = Fixture::new();
    desk.store();
    let other = "11111111-16ca-47dd-b731-f4c264becc53";
    let log = LOG.replace(ID, other);
    desk.put(&log, "{}\n");
    let contents = Contents {
        sessions: vec![SessionKey {
            id: other.into(),
            folder: Some("-app".into()),
        }],
        files: vec![(log.clone().into(), true)],
        ..Contents::default()
    };
    desk.try_store(contents).unwrap();
    let archive = desk.archive();
    let plan = archive.plan_removal(ID, None).unwrap().remove(0);
    archive.remove_session(&plan).unwrap();
    let left = desk.session();
    assert_eq!(left.sessions[0].id, other);
    assert_eq!(verify(&left), []);
    let text = fs::read_to_string(desk.manifest()).unwrap();
    assert!(!text.contains(ID), "{text}");
    assert!(!desk.stored(LOG).exists() && !desk.stored(TODOS).exists());
}

/// A process was killed after the tombstones, before it removed the files.
#[test]
fn interrupted_removal_is_not_undone() {
    let desk = Fixture::new();
    desk.store();
    let gone = |path: &str| manifest::Line::Gone(path.into(), None);
    let archive = desk.archive();
    let tombstones = archive.with_locked(&desk.root, false, |root, manifest| {
        root.append(manifest, vec![gone(LOG), gone(TODOS)])
    });
    tombstones.unwrap();
    assert!(desk.stored(LOG).exists());
    let (sessions, damaged) = desk.archive().sessions().unwrap();
    assert!(sessions.is_empty() && damaged.is_empty());
    // The next rewrite of the manifest finishes it.
    let compacted = desk
        .archive()
        .with_locked(&desk.root, false, |root, manifest| {
            root.compact(manifest, true)
        });
    compacted.unwrap();
    assert!(!desk.stored(LOG).exists());
}

#[test]
fn removal_refuses_what_changed_since_the_plan() {
    let desk = Fixture::new();
    desk.store();
    let archive = desk.archive();
    let plan = archive.plan_removal(ID, None).unwrap().remove(0);
    desk.add(LOG, "more\n");
    desk.store();
    let changed = archive.remove_session(&plan).unwrap_err();
    assert!(
        matches!(changed, Error::File(annals_jsonl::Error::Changed { .. })),
        "{changed}"
    );
    let plan = archive.plan_removal(ID, None).unwrap().remove(0);
    // Now it is the only copy.
    fs::remove_file(desk.root.path.join(LOG)).unwrap();
    let refused = archive.remove_session(&plan).unwrap_err().to_string();
    assert!(
        refused.contains("now has the only copy of a file"),
        "{refused}"
    );
    assert_eq!(
        content(&desk.session(), &desk.session().members[0]),
        b"{}\nmore\n"
    );
}

#[test]
fn removal_refuses_files_outside_the_archive() {
    let desk = Fixture::new();
    desk.store();
    let archive = desk.archive();
    let outside = desk.dir.path().join("copy.zst");
    fs::copy(desk.stored(LOG), &outside).unwrap();
    let link = desk.archive().dir.join("link.zst");
    std::os::unix::fs::symlink(desk.stored(LOG), &link).unwrap();
    for path in [&outside, &link, &desk.root.path.join(LOG), &archive.dir] {
        let refused = archive
            .plan_removal(path.to_str().unwrap(), None)
            .unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("is not a file of this archive"),
            "{refused}"
        );
    }
    let own = desk.stored(TODOS);
    let plan = archive.plan_removal(own.to_str().unwrap(), None).unwrap();
    assert_eq!(plan[0].pack, desk.stored(LOG));
}

#[test]
fn has_session_is_true_only_for_archived_sessions() {
    let desk = Fixture::new();
    let archive = desk.archive();
    let has = |id: &str| archive.has_session("claude-code", &desk.root.path, id);
    assert!(!has(ID));
    desk.store();
    assert!(has(ID) && !has(&ID[..8]) && !has("other"));
    assert!(!archive.has_session("claude-code", Path::new("/elsewhere"), ID));
    assert!(!archive.has_session("unknown", &desk.root.path, ID));
}
