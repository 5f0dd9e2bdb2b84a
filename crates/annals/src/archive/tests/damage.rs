//! Lost lines, interrupted writers and damaged files.

use super::*;

/// Restores everything into a new root.
fn restored(desk: &Fixture, salvage: bool) -> Vec<(PathBuf, Vec<u8>)> {
    let to = desk.dir.path().join("to");
    let _ = fs::remove_dir_all(&to);
    let (sessions, _) = desk.archive().sessions().unwrap();
    for session in &sessions {
        match salvage {
            true => session.restore_salvaged(Some(&to)).unwrap(),
            false => session.restore(Some(&to)).unwrap(),
        };
    }
    let mut files = Vec::new();
    for path in [LOG, TODOS] {
        files.extend(
            fs::read(to.join(path))
                .ok()
                .map(|bytes| (path.into(), bytes)),
        );
    }
    files
}

fn both(desk: &Fixture) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: &str| (path.into(), fs::read(desk.root.path.join(path)).unwrap());
    [LOG, TODOS].map(read).to_vec()
}

#[test]
fn lost_or_cut_manifest_costs_no_file() {
    let desk = Fixture::new();
    desk.put(LOG, "{\"a\":1}\n".repeat(300));
    desk.store();
    let wanted = both(&desk);
    let whole = fs::read(desk.manifest()).unwrap();
    for cut in (0..whole.len()).step_by(23).chain([whole.len() - 1]) {
        fs::write(desk.manifest(), &whole[..cut]).unwrap();
        let (sessions, damaged) = desk.archive().sessions().unwrap();
        assert_eq!(sessions.len(), 1, "{cut}");
        assert_eq!(sessions[0].sessions[0].id, ID, "{cut}");
        let lines = whole[..cut].split_inclusive(|byte| *byte == b'\n');
        let listed = lines.filter(|line| line.starts_with(b"{\"path\"") && line.ends_with(b"}\n"));
        assert_eq!(
            damaged.is_empty(),
            listed.count() == 2,
            "{cut}: {damaged:?}"
        );
        assert_eq!(restored(&desk, false), wanted, "{cut}");
    }
    fs::remove_file(desk.manifest()).unwrap();
    assert_eq!(desk.archive().sessions().unwrap().1.len(), 1);
    assert_eq!(restored(&desk, false), wanted);
    // The next update lists the files again, with all that is known of them.
    assert_eq!(desk.store().added, 0);
    assert_eq!(
        desk.assert_archived().members[0].mode,
        desk.session().members[0].mode
    );
}

#[test]
fn lost_root_name_is_reported_and_costs_no_file() {
    let desk = Fixture::new();
    desk.store();
    let wanted = both(&desk);
    let name = desk.manifest().with_file_name("root.json");
    fs::remove_file(&name).unwrap();
    fs::remove_file(name.with_file_name("root-copy.json")).unwrap();
    let (sessions, damaged) = desk.archive().sessions().unwrap();
    assert_eq!((sessions.len(), damaged.len()), (0, 1));
    assert!(damaged[0].detail.contains("is missing"), "{damaged:?}");
    // The next update of the root names it again.
    desk.store();
    assert!(name.exists());
    assert_eq!(restored(&desk, false), wanted);
}

#[test]
fn any_flipped_bit_in_one_root_name_is_reported_and_costs_nothing() {
    let desk = Fixture::new();
    desk.store();
    let wanted = both(&desk);
    let names = ["root.json", "root-copy.json"].map(|name| desk.manifest().with_file_name(name));
    let root = desk.archive().roots().unwrap()[0].path.clone();
    for name in &names {
        let whole = fs::read(name).unwrap();
        let flips = (0..whole.len()).flat_map(|at| [0, 1, 4, 7].map(|bit| (at, bit)));
        for (at, bit) in flips {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            fs::write(name, damaged).unwrap();
            let (sessions, reported) = desk.archive().sessions().unwrap();
            assert_eq!((sessions.len(), reported.len()), (1, 1), "{at}, {bit}");
            assert_eq!(&reported[0].pack, name);
            assert_eq!(desk.archive().roots().unwrap()[0].path, root, "{at}, {bit}");
        }
        for cut in 0..whole.len() {
            fs::write(name, &whole[..cut]).unwrap();
            assert_eq!(desk.archive().sessions().unwrap().1.len(), 1, "{cut}");
        }
        assert_eq!(restored(&desk, false), wanted);
        fs::remove_file(name).unwrap();
        assert_eq!(desk.archive().sessions().unwrap().1.len(), 1);
        assert_eq!(restored(&desk, false), wanted);
        // The next update writes it again.
        desk.store();
        assert_eq!(fs::read(name).unwrap(), whole);
        assert!(desk.archive().sessions().unwrap().1.is_empty());
    }
}

#[test]
fn damaged_lines_are_reported_and_their_files_found() {
    let desk = Fixture::new();
    desk.store();
    let wanted = both(&desk);
    let whole = fs::read(desk.manifest()).unwrap();
    for at in (0..whole.len()).step_by(17) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(desk.manifest(), damaged).unwrap();
        let (_, reported) = desk.archive().sessions().unwrap();
        assert_eq!(reported.len(), 1, "{at}");
        assert_eq!(restored(&desk, false), wanted, "{at}");
    }
}

/// The line of the last growth is lost, and the log was replaced since.
#[test]
fn frames_without_a_line_are_kept_when_the_log_does_not_continue_them() {
    let desk = Fixture::new();
    desk.put(LOG, "one\n");
    desk.store();
    let before = fs::read(desk.manifest()).unwrap();
    desk.add(LOG, "two\n");
    desk.store();
    fs::write(desk.manifest(), before).unwrap();
    // The listed bytes are read, and the others too if asked for.
    assert_eq!(restored(&desk, false)[0].1, b"one\n");
    assert_eq!(restored(&desk, true)[0].1, b"one\ntwo\n");
    assert!(
        verify(&desk.session())[0]
            .detail
            .contains("not in the manifest")
    );
    desk.put(LOG, "one\nthree\n");
    desk.store();
    let session = desk.assert_archived();
    assert_eq!(session.earlier.len(), 1);
    assert_eq!(content(&session, &session.earlier[0]), b"one\ntwo\n");
}

/// A writer was killed after each of its steps.
#[test]
fn interrupted_update_is_finished_by_the_next() {
    for text in ["one\ntwo\n", "other\n"] {
        let desk = Fixture::new();
        desk.put(LOG, "one\n");
        desk.store();
        let (before, old) = (
            fs::read(desk.manifest()).unwrap(),
            fs::read(desk.stored(LOG)).unwrap(),
        );
        desk.put(LOG, text);
        desk.store();
        let after = fs::read(desk.manifest()).unwrap();
        let lines = after[before.len()..].split_inclusive(|byte| *byte == b'\n');
        let lines: Vec<&[u8]> = lines.collect();
        for count in 0..lines.len() {
            // With and without the new compressed file.
            for is_written in [true, false] {
                fs::write(
                    desk.manifest(),
                    [&before[..], &lines[..count].concat()].concat(),
                )
                .unwrap();
                if !is_written {
                    fs::write(desk.stored(LOG), &old).unwrap();
                }
                let is_saved = count > 0 || !is_written || text.starts_with("one");
                if is_saved {
                    let found = restored(&desk, false);
                    assert_eq!(found[0].1, b"one\n", "{text:?} {count} {is_written}");
                }
                desk.store();
                let session = desk.assert_archived();
                let earlier = session.earlier.iter().map(|it| content(&session, it));
                let earlier: Vec<Vec<u8>> = earlier.collect();
                let is_replaced = !text.starts_with("one");
                assert!(
                    !is_replaced || !is_saved || earlier[0] == b"one\n",
                    "{count} {is_written}"
                );
            }
        }
    }
}

#[test]
fn damaged_copies_are_replaced_from_the_root() {
    let desk = Fixture::new();
    desk.store();
    for damage in [
        &|path: &Path| fs::remove_file(path).unwrap() as _,
        &|path: &Path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
        },
        &|path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[8] ^= 1;
            fs::write(path, bytes).unwrap();
        },
    ] as [&dyn Fn(&Path); 3]
    {
        std::thread::sleep(std::time::Duration::from_millis(12));
        damage(&desk.stored(LOG));
        assert!(!verify(&desk.session()).is_empty());
        let stored = desk.store();
        assert_eq!(stored.repaired, [PathBuf::from(LOG)]);
        assert!(desk.assert_archived().earlier.is_empty());
    }
}

/// Without the root, the rest is restored.
#[test]
fn salvage_restores_whole_files_and_parts_of_logs() {
    let desk = Fixture::new();
    desk.put(LOG, "{\"first\":1}\n");
    desk.store();
    desk.add(LOG, "{\"second\":2}\n");
    desk.store();
    desk.add(LOG, "{\"third\":3}\n");
    desk.store();
    let session = desk.session();
    let frame = session.file(&session.members[0]).unwrap().frames()[1];
    let mut bytes = fs::read(desk.stored(LOG)).unwrap();
    bytes[frame.at as usize + 12] ^= 1;
    fs::write(desk.stored(LOG), bytes).unwrap();
    let to = desk.dir.path().join("new");
    let refused = session.restore(Some(&to)).unwrap_err().to_string();
    assert!(refused.contains("--salvage"), "{refused}");
    assert!(!to.exists());
    let plan = session.plan_salvage(Some(&to)).unwrap();
    assert_eq!(plan.files[0].fate, RestoreOutcome::Partial);
    assert_eq!(plan.files[0].lost, [(12, 13)]);
    let files = restored(&desk, true);
    assert_eq!(files[0].1, b"{\"first\":1}\n{\"third\":3}\n");
    assert_eq!(files[1].1, b"[]");
    // A document is restored whole or not at all.
    fs::write(desk.stored(TODOS), "nothing").unwrap();
    assert_eq!(restored(&desk, true).len(), 1);
    fs::write(desk.stored(LOG), "nothing").unwrap();
    let refused = desk.session().restore_salvaged(Some(&to)).unwrap_err();
    assert!(
        refused.to_string().contains("none of its files"),
        "{refused}"
    );
}

#[test]
fn salvage_uses_an_earlier_version_if_more_of_it_can_be_read() {
    let desk = Fixture::new();
    desk.put(LOG, "the first version of it\n");
    desk.store();
    desk.put(LOG, "second\n");
    desk.store();
    fs::write(desk.stored(LOG), "nothing").unwrap();
    let plan = desk
        .session()
        .plan_salvage(Some(&desk.dir.path().join("to")))
        .unwrap();
    assert_eq!(plan.files[0].fate, RestoreOutcome::Earlier);
    assert_eq!(plan.files[0].earlier, Some(now()));
    assert_eq!(restored(&desk, true)[0].1, b"the first version of it\n");
}

/// The lines have the new folder, but the files were not renamed yet.
#[test]
fn interrupted_rename_is_read_and_finished() {
    let desk = Fixture::new();
    desk.put(LOG, "one\n");
    desk.store();
    desk.put(LOG, "two\n");
    desk.store();
    let new = LOG.replace("-app", "-new");
    fs::rename(
        desk.root.path.join("projects/-app"),
        desk.root.path.join("projects/-new"),
    )
    .unwrap();
    let contents = Contents {
        sessions: vec![SessionKey {
            id: ID.into(),
            folder: Some("-new".into()),
        }],
        files: vec![(new.clone().into(), true), (TODOS.into(), false)],
        ..Contents::default()
    };
    desk.try_store(contents.clone()).unwrap();
    let session = desk.session();
    assert_eq!(session.members[0].path, Path::new(&new));
    assert_eq!(session.earlier.len(), 1);
    let dir = desk.archive().root_dir(&desk.root);
    assert!(!desk.stored(LOG).exists() && desk.stored(&new).exists());
    // As if it had been killed before. The line still names the former path.
    let text = fs::read_to_string(desk.manifest()).unwrap();
    let end = text.rfind("{\"path\":").unwrap();
    fs::write(desk.manifest(), &text[..end]).unwrap();
    fs::create_dir_all(desk.stored(LOG).parent().unwrap()).unwrap();
    fs::rename(desk.stored(&new), desk.stored(LOG)).unwrap();
    let versions = [LOG, &new].map(|path| manifest::versions_dir(&dir, Path::new(path)));
    fs::create_dir_all(versions[0].parent().unwrap()).unwrap();
    fs::rename(&versions[1], &versions[0]).unwrap();
    let session = desk.session();
    assert_eq!(verify(&session), []);
    assert_eq!(content(&session, &session.members[0]), b"two\n");
    assert_eq!(content(&session, &session.earlier[0]), b"one\n");
    // A rewrite of the manifest removes what is at removed paths.
    let compact = |root: &RootArchive, manifest: &mut Manifest| root.compact(manifest, true);
    desk.archive()
        .with_locked(&desk.root, false, compact)
        .unwrap();
    assert_eq!(verify(&desk.session()), []);
    desk.try_store(contents).unwrap();
    assert!(!desk.stored(LOG).exists() && desk.stored(&new).exists());
    assert_eq!(verify(&desk.session()), []);
}

/// The compressed files have the new folder, but the lines of the renaming are lost.
#[test]
fn manifest_cut_after_a_folder_was_renamed_leads_to_the_renamed_files() {
    let desk = Fixture::new();
    desk.put(LOG, "one\n");
    desk.store();
    desk.put(LOG, "two\n");
    desk.store();
    let before = fs::read(desk.manifest()).unwrap();
    let new = LOG.replace("-app", "-new");
    let folder = |name: &str| desk.root.path.join("projects").join(name);
    fs::rename(folder("-app"), folder("-new")).unwrap();
    let contents = Contents {
        sessions: vec![SessionKey {
            id: ID.into(),
            folder: Some("-new".into()),
        }],
        files: vec![(new.clone().into(), true), (TODOS.into(), false)],
        ..Contents::default()
    };
    desk.try_store(contents.clone()).unwrap();
    fs::write(desk.manifest(), &before).unwrap();
    let (sessions, damaged) = desk.archive().sessions().unwrap();
    // Only the manifest is damaged: no file is missing.
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    assert_eq!((damaged[0].member.as_ref(), sessions.len()), (None, 1));
    assert_eq!(verify(&sessions[0]), []);
    let main = &sessions[0].members[0];
    assert_eq!(main.path, Path::new(&new));
    assert_eq!(main.sessions[0].folder.as_deref(), Some("-new"));
    assert_eq!(content(&sessions[0], main), b"two\n");
    assert_eq!(content(&sessions[0], &sessions[0].earlier[0]), b"one\n");
    // The next update lists it again.
    desk.try_store(contents).unwrap();
    let session = desk.session();
    assert_eq!(verify(&session), []);
    assert_eq!(session.members[0].path, Path::new(&new));
    assert_eq!(content(&session, &session.earlier[0]), b"one\n");
}

/// The state in which a writer that was killed before it appended its lines leaves the archive.
fn interrupt(desk: &Fixture, lines: &[u8]) {
    fs::write(desk.manifest(), lines).unwrap();
    fs::write(desk.manifest().with_file_name("writing"), "").unwrap();
}

#[test]
fn files_of_an_interrupted_writer_are_no_damage_and_are_listed_by_the_next() {
    let desk = Fixture::new();
    desk.store();
    interrupt(&desk, b"");
    // A file that is being written when the writer is killed.
    let temporary = manifest::temporary_path(&desk.stored(&LOG.replace("8c54", "9c54")));
    fs::write(&temporary, "part").unwrap();
    assert_eq!(verify(&desk.session()), []);
    fs::remove_file(desk.root.path.join(TODOS)).unwrap();
    // Another session is archived.
    desk.try_store(Contents::default()).unwrap();
    assert!(!temporary.exists());
    let marker = desk.manifest().with_file_name("writing");
    assert!(!marker.exists());
    let session = desk.session();
    assert_eq!(verify(&session), []);
    assert!(session.members.iter().all(|it| it.sha256.is_some()));
    // It is written again, because its sync may have failed.
    let before = fs::metadata(desk.stored(LOG)).unwrap().ino();
    assert_eq!(desk.store().added, 0);
    assert!(fs::metadata(desk.stored(LOG)).unwrap().ino() != before);
    assert!(!desk.store().is_changed);
    // Without the mark, their lines are lost.
    fs::write(desk.manifest(), "").unwrap();
    assert_eq!(desk.archive().sessions().unwrap().1.len(), 1);
}

#[test]
fn torn_file_of_an_interrupted_writer_is_replaced_without_a_version() {
    let desk = Fixture::new();
    let long: String = (0..400_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    desk.put(LOG, long);
    desk.store();
    let whole = fs::read(desk.stored(LOG)).unwrap();
    let frames = desk.session().file(&desk.session().members[0]).unwrap();
    let second = frames.frames()[1];
    let middle = (second.at + second.bytes / 2) as usize;
    for cut in [0, 7, second.at as usize, middle] {
        interrupt(&desk, b"");
        fs::write(desk.stored(LOG), &whole[..cut]).unwrap();
        let stored = desk.store();
        assert!(stored.repaired.is_empty(), "{cut}");
        assert!(desk.assert_archived().earlier.is_empty(), "{cut}");
    }
    // A part in the middle is not written.
    interrupt(&desk, b"");
    let mut hole = whole;
    hole[second.at as usize..middle].fill(0);
    fs::write(desk.stored(LOG), hole).unwrap();
    assert!(desk.store().repaired.is_empty());
    assert!(desk.assert_archived().earlier.is_empty());
}

#[test]
fn frames_of_an_interrupted_writer_are_listed_if_whole_and_cut_if_torn() {
    let desk = Fixture::new();
    desk.put(LOG, "one\n");
    desk.store();
    let before = fs::read(desk.manifest()).unwrap();
    let old = fs::read(desk.stored(LOG)).unwrap();
    desk.add(LOG, "two\n");
    desk.store();
    let whole = fs::read(desk.stored(LOG)).unwrap();
    // The agent removes the log before the next update.
    fs::remove_file(desk.root.path.join(LOG)).unwrap();
    for cut in old.len() + 1..=whole.len() {
        interrupt(&desk, &before);
        fs::write(desk.stored(LOG), &whole[..cut]).unwrap();
        assert_eq!(verify(&desk.session()), [], "{cut}");
        desk.store();
        let session = desk.session();
        assert_eq!(verify(&session), [], "{cut}");
        let wanted: &[u8] = match cut == whole.len() {
            true => b"one\ntwo\n",
            false => b"one\n",
        };
        assert_eq!(content(&session, &session.members[0]), wanted, "{cut}");
    }
}

#[test]
fn line_cut_by_a_crash_is_dropped_by_the_next_writer() {
    let desk = Fixture::new();
    desk.store();
    let before = fs::read(desk.manifest()).unwrap();
    desk.add(LOG, "more\n");
    desk.store();
    let whole = fs::read(desk.manifest()).unwrap();
    for cut in (before.len() + 1..whole.len()).step_by(13) {
        interrupt(&desk, &whole[..cut]);
        assert!(desk.archive().sessions().unwrap().1.is_empty(), "{cut}");
        desk.store();
        desk.assert_archived();
        let text = fs::read_to_string(desk.manifest()).unwrap();
        assert!(text.lines().all(|line| line.ends_with("\"}")), "{cut}");
    }
}

/// Generations begin again when a line is lost; a version of the same generation must not count.
#[test]
fn lost_line_of_a_file_with_versions_leads_to_its_newest_content() {
    let desk = Fixture::new();
    for text in ["first\n", "second\n", "third\n"] {
        desk.put(LOG, text);
        desk.store();
    }
    let text = fs::read_to_string(desk.manifest()).unwrap();
    let is_current = |line: &&str| {
        line.starts_with(&format!("{{\"path\":\"{LOG}\"")) && !line.contains("\"version\"")
    };
    let lines: Vec<&str> = text.lines().filter(|line| !is_current(line)).collect();
    fs::write(desk.manifest(), lines.join("\n") + "\n").unwrap();
    desk.store();
    let compact = |root: &RootArchive, manifest: &mut Manifest| root.compact(manifest, true);
    desk.archive()
        .with_locked(&desk.root, false, compact)
        .unwrap();
    let session = desk.assert_archived();
    assert_eq!(content(&session, &session.members[0]), b"third\n");
    assert_eq!(session.earlier.len(), 2);
}

/// A log with many frames is compressed again, and the writer is killed before its line.
#[test]
fn interrupted_compression_of_many_frames_leaves_the_log_readable() {
    let desk = Fixture::new();
    desk.store();
    let (mut before, mut old);
    let text = loop {
        before = fs::read_to_string(desk.manifest()).unwrap();
        old = fs::read(desk.stored(LOG)).unwrap();
        let text = fs::read(desk.root.path.join(LOG)).unwrap();
        desk.add(LOG, "{\"hour\":1}\n");
        desk.store();
        if fs::metadata(desk.stored(LOG)).unwrap().len() < old.len() as u64 {
            break text;
        }
    };
    let after = fs::read_to_string(desk.manifest()).unwrap();
    let saved = after[before.len()..].split_inclusive('\n').next().unwrap();
    let new = fs::read(desk.stored(LOG)).unwrap();
    let dir = desk.archive().root_dir(&desk.root);
    let version = manifest::version_path(&dir, Path::new(LOG), 1);
    assert!(saved.contains("\"version\":1") && !version.exists());
    for stored in [&old, &new] {
        fs::create_dir_all(version.parent().unwrap()).unwrap();
        fs::write(&version, &old).unwrap();
        fs::write(desk.stored(LOG), stored).unwrap();
        interrupt(&desk, format!("{before}{saved}").as_bytes());
        assert_eq!(restored(&desk, false)[0].1, text);
        assert_eq!(verify(&desk.session()), []);
        assert!(desk.store().repaired.is_empty());
        assert!(desk.assert_archived().earlier.is_empty() && !version.exists());
    }
}
