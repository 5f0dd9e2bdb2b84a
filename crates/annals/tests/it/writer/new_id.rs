//! Concurrent creation of sessions with the same id.

use std::sync::Barrier;
use std::thread;

use annals::layout::NewSession;
use annals::model::SessionId;

use crate::support::{QUICK, case};

/// One fixture for each layout that uses the requested name as the id; clog adds the time.
const CASES: [&str; 3] = ["2.1.325-s03-todos", "chorus-plain", "notes-and-todos"];

#[test]
fn concurrent_sessions_of_one_id_create_exactly_one() {
    for name in CASES {
        let copy = case(name).copy();
        let session = copy.again(&copy.sessions()[0]);
        let tree = session.tree().unwrap();
        let path = tree.path(&tree.conversations[0]);
        for round in 0..6 {
            let id =
                SessionId::new(&format!("5c7c2f4e-0d0f-4c4b-9a53-6f0a1d7b2e1{round}")).unwrap();
            let start = Barrier::new(6);
            let begin = |number: usize| {
                let store = copy.store();
                start.wait();
                match number % 2 {
                    0 => store
                        .fork(&session, &path, id.clone(), None, jiff::Timestamp::now())
                        .map(|fork| fork.path),
                    // Each has another directory, and so another folder.
                    _ => {
                        let new = NewSession::new(id.clone(), format!("/w/{number}"));
                        store
                            .create(&copy.root, &new, QUICK)
                            .map(|writer| writer.path())
                    }
                }
            };
            let begun: Vec<_> = thread::scope(|scope| {
                let begin = &begin;
                let threads: Vec<_> = (0..6).map(|at| scope.spawn(move || begin(at))).collect();
                let join = threads.into_iter().map(|thread| thread.join().unwrap());
                join.collect()
            });
            let made: Vec<_> = begun.iter().filter_map(|made| made.as_ref().ok()).collect();
            assert_eq!(made.len(), 1, "{name}: {begun:?}");
            for error in begun.iter().filter_map(|made| made.as_ref().err()) {
                assert!(error.to_string().contains("already"), "{name}: {error}");
            }
            let sessions = copy.sessions();
            let found: Vec<_> = sessions.iter().filter(|files| files.id == id).collect();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].main_path(), made[0], "{name}");
        }
    }
}
