//! Replies of several records. All records of a reply share an id: with different ids the client
//! misses the results of its calls.

use std::path::Path;

use annals::convert::{
    self, ConvertOptions, ConvertSelection, ExportSource, ImportOptions, Importer,
};
use annals::export::{self, ExportPart, Exporter, Format};
use annals::layout::NewSession;
use annals::model::{Body, Draft, Role};
use annals::store::{MessageFilter, Root, Session, Store};

use super::{Message, called, result, text};
use crate::support::QUICK;

fn reply(blocks: Vec<super::Block>) -> Draft {
    Draft::new(Body::Message(Message::new(Role::Assistant, blocks)))
}

/// Creates a session with a reply of a text and two calls, which are three records.
fn source(dir: &Path) -> (Root, Store) {
    let root = Root::new("orchestrator", dir.join("from")).unwrap();
    let store = Store::new(vec![root.clone()]);
    let new = NewSession::unnamed("/home/dev/w").unwrap();
    let writer = store.create(&root, &new, QUICK).unwrap();
    let calls = vec![
        text("Both."),
        called("c1", "Bash", "{}"),
        called("c2", "Bash", "{}"),
    ];
    let results = vec![
        result("c1", vec![text("one")], false),
        result("c2", vec![text("two")], false),
    ];
    let drafts = [
        Draft::user("Run both commands."),
        reply(calls),
        Draft::new(Body::Message(Message::new(Role::User, results))),
        reply(vec![text("Both ran.")]),
    ];
    for draft in drafts {
        writer.append(draft).unwrap();
    }
    (root, store)
}

/// Returns the reply ids in a root of Claude Code, one for each record.
fn reply_ids(root: Root) -> Vec<String> {
    let store = Store::new(vec![root]);
    let files = store.inventory().sessions.remove(0);
    let session = Session::read(files).unwrap();
    let entries = session.messages(&MessageFilter::default()).unwrap();
    let ids = entries.into_iter().filter_map(|entry| match entry.body {
        Body::Message(message) if message.role == Role::Assistant => message.response,
        _ => None,
    });
    ids.collect()
}

fn check(ids: &[String]) {
    let [text, first, second, last] = ids else {
        panic!("{ids:?}");
    };
    assert_eq!([text, first], [first, second]);
    assert_ne!(second, last);
}

#[test]
fn the_records_of_one_reply_share_an_id_after_a_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = source(dir.path());
    let to = Root::claude_code(dir.path().join("to"));
    let plan = convert::plan(ConvertSelection::Root(root), to.clone(), None).unwrap();
    convert::run(&plan, &ConvertOptions::default(), &|_, _| ()).unwrap();
    check(&reply_ids(to));
}

#[test]
fn the_records_of_one_reply_share_an_id_after_an_import() {
    let dir = tempfile::tempdir().unwrap();
    let (_, store) = source(dir.path());
    let session = Session::read(store.inventory().sessions.remove(0)).unwrap();
    let mut exported = Vec::new();
    let options = export::ExportOptions::new(Format::Jsonl);
    let mut exporter = Exporter::begin(options, None, &mut exported).unwrap();
    exporter.session(&session, &ExportPart::Whole).unwrap();
    exporter.finish().unwrap();
    let to = Root::claude_code(dir.path().join("to"));
    let into = Store::new(vec![to.clone()]);
    let importer = Importer::new(&into, to.clone(), ImportOptions::default()).unwrap();
    let source = ExportSource::read(exported.as_slice(), "test").unwrap();
    let contents = source.read_contents().unwrap();
    importer.run(&source, &contents).unwrap();
    check(&reply_ids(to));
}
