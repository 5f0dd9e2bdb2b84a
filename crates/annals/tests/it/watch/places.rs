//! Directories that are created, removed and renamed.

use super::*;

#[test]
fn new_sessions_and_sub_agents_are_followed() {
    for way in ways() {
        let scene = Scene::new();
        let feed = scene.follow(way);
        append(&scene.log(SESSION), &lines(1..2));
        let began = feed.wait_for(|event| match event {
            Event::Began { log } => Some(log),
            Event::Entry(_) => panic!("reported before its log"),
            _ => None,
        });
        assert_eq!(began.path, scene.log(SESSION));
        assert_eq!(feed.texts(1), ["text 1"]);
        // A project, a session and its sub-agents at once.
        let agents = scene
            .root
            .join(format!("projects/-new/{SESSION}/subagents/workflows/run"));
        fs::create_dir_all(&agents).unwrap();
        append(&agents.join("agent-a0123456789abcdef.jsonl"), &lines(2..3));
        let fresh = feed.fresh();
        assert_eq!(text(&fresh.entry), "text 2");
        assert_eq!(fresh.session.as_str(), SESSION);
        assert_eq!(
            fresh.agent.as_ref().map(|id| id.as_str()),
            Some("a0123456789abcdef")
        );
        append(&scene.log(SESSION), &lines(3..4));
        assert_eq!(feed.texts(1), ["text 3"]);
    }
}

#[test]
fn root_may_be_created_and_recreated_later() {
    for way in ways() {
        let scene = Scene::new();
        fs::remove_dir_all(&scene.root).unwrap();
        let deep = scene.root.join("not/there/yet");
        let store = Store::new(vec![Root::claude_code(&deep)]);
        let feed = Feed::new(Follower::new(&store, Selection::all(), way).unwrap());
        let log = deep.join(format!("projects/-app/{SESSION}.jsonl"));
        let mut held = Vec::new();
        for round in 0..3 {
            fs::create_dir_all(log.parent().unwrap()).unwrap();
            append(&log, &lines(round * 10..round * 10 + 2));
            let wanted = [
                format!("text {}", round * 10),
                format!("text {}", round * 10 + 1),
            ];
            assert_eq!(feed.texts(2), wanted);
            append(&log, &lines(round * 10 + 2..round * 10 + 3));
            assert_eq!(feed.texts(1), [format!("text {}", round * 10 + 2)]);
            // A deleted log may be held open; then no event reports the removal of its directories.
            held.push(File::open(&log).unwrap());
            fs::remove_dir_all(&scene.root).unwrap();
            feed.wait_for(|event| matches!(event, Event::Gone { .. }).then_some(()));
        }
    }
}

#[test]
fn renamed_project_is_not_reported_again() {
    for way in ways() {
        let scene = Scene::new();
        append(&scene.log(SESSION), &lines(1..3));
        let feed = scene.follow(way);
        append(&scene.log(SESSION), &lines(3..4));
        assert_eq!(feed.texts(1), ["text 3"]);
        let moved = scene.root.join("projects/-moved");
        fs::rename(scene.root.join("projects/-app"), &moved).unwrap();
        let log = moved.join(format!("{SESSION}.jsonl"));
        append(&log, &lines(4..5));
        let fresh = feed.fresh();
        assert_eq!(
            (text(&fresh.entry), &fresh.log.path),
            ("text 4".to_owned(), &log)
        );
        // Its old name may be used again.
        fs::create_dir(scene.root.join("projects/-app")).unwrap();
        append(&scene.log(SESSION), &lines(50..51));
        assert_eq!(feed.texts(1), ["text 50"]);
    }
}

#[test]
fn linked_logs_are_followed_only_if_allowed() {
    for (way, named) in ways()
        .into_iter()
        .flat_map(|way| [(way.clone(), false), (way, true)])
    {
        let scene = Scene::new();
        let elsewhere = scene.dir.path().join("elsewhere");
        fs::create_dir_all(&elsewhere).unwrap();
        let target = scene.dir.path().join("target.jsonl");
        append(&target, &lines(1..2));
        std::os::unix::fs::symlink(&elsewhere, scene.root.join("projects/-linked")).unwrap();
        std::os::unix::fs::symlink(&target, scene.log(SESSION)).unwrap();
        // A cycle of links ends.
        std::os::unix::fs::symlink(
            scene.root.join("projects"),
            scene.root.join("projects/-ring"),
        )
        .unwrap();
        let other = SESSION.replace("aa", "bb");
        append(&scene.log(&other), &lines(1..2));
        let link = scene.root.join("projects/-linked");
        let follow = if named {
            vec![link.clone()]
        } else {
            Vec::new()
        };
        let store = Store::new(vec![Root::claude_code(&scene.root).follow_links(&follow)]);
        let feed = Feed::at_once(Follower::new(&store, Selection::all(), way).unwrap());
        let (mut texts, mut links) = (Vec::new(), Vec::new());
        feed.wait_for(|event| {
            if let Event::Error(annals::Error::Link { path, .. }) = &event {
                links.push(path.clone());
            }
            matches!(event, Event::CaughtUp).then_some(())
        });
        append(&elsewhere.join(format!("{SESSION}.jsonl")), &lines(2..3));
        append(&target, &lines(3..4));
        append(&scene.log(&other), &lines(4..5));
        feed.wait_for(|event| {
            match event {
                Event::Entry(fresh) => texts.push(text(&fresh.entry)),
                Event::Error(annals::Error::Link { path, .. }) => links.push(path),
                _ => {}
            }
            let wanted = if named {
                ["text 2", "text 4"].as_slice()
            } else {
                &["text 4"]
            };
            wanted
                .iter()
                .all(|text| texts.iter().any(|it| it == text))
                .then_some(())
        });
        assert!(!texts.contains(&"text 3".to_owned()), "{texts:?}");
        assert_eq!(texts.contains(&"text 2".to_owned()), named, "{texts:?}");
        links.sort();
        let mut expected = vec![link, scene.log(SESSION)];
        expected.sort();
        expected.retain(|path| !named || *path == scene.log(SESSION));
        assert_eq!(links, expected);
    }
}

#[test]
fn files_that_are_no_logs_are_not_reported() {
    let scene = Scene::new();
    let feed = scene.follow(FollowOptions::default());
    fs::create_dir_all(scene.root.join("todos")).unwrap();
    append(&scene.root.join("history.jsonl"), "{\"display\":\"x\"}\n");
    append(&scene.root.join("projects/-app/notes.txt"), "x\n");
    append(&scene.root.join("projects/-app/.other.jsonl"), &lines(1..2));
    append(&scene.log(SESSION), &lines(2..3));
    assert_eq!(feed.texts_until("text 2"), [""; 0]);
}
