//! What a hub refuses.

use annals_push::{Client, Error};
use annals_segments::{Digest, Header, Kind, SegmentWriter};

use crate::harness::TestHub;

fn refused<T: std::fmt::Debug>(result: annals_push::Result<T>) -> String {
    match result {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_and_revoked_tokens_are_refused() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    machine.begin("/app", &["one"]);
    let stranger = Client::new(&hub.url, "annals_0123", "host").unwrap();
    assert!(refused(stranger.machine()).contains("token"));
    assert!(refused(stranger.ends()).contains("token"));
    assert!(refused(stranger.send(b"", 0)).contains("token"));
    machine.push(&hub.url);
    let tokens = hub.runtime.block_on(hub.hub.access().list()).unwrap();
    assert_eq!(tokens.len(), 1);
    assert_eq!(
        hub.runtime
            .block_on(hub.hub.access().revoke(&tokens[0].0))
            .unwrap(),
        1
    );
    assert!(refused(machine.try_push(&hub.url)).contains("token"));
}

#[test]
fn tokens_are_not_stored() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    machine.begin("/app", &["one"]);
    machine.push(&hub.url);
    hub.commit();
    for object in hub.objects("") {
        let content = std::fs::read(&object).unwrap();
        let found = String::from_utf8_lossy(&content).contains(&machine.token);
        assert!(
            !found && !object.to_str().unwrap().contains(&machine.token),
            "{}",
            object.display()
        );
    }
}

#[test]
fn machine_writes_only_its_own_files() {
    let hub = TestHub::start();
    let (machine, other) = (hub.machine(1), hub.machine(2));
    let header = Header {
        source: other.source,
        layout: "claude-code".into(),
        root: "/r".into(),
        path: "a.jsonl".into(),
        generation: 0,
        kind: Kind::Lines,
        start: 0,
        end: 3,
        len: 0,
        digest: Digest::new(b""),
        mtime: 0,
        masked: Vec::new(),
    };
    let forged = SegmentWriter::new()
        .unwrap()
        .write(header, b"{}\n")
        .unwrap();
    let client = machine.client(&hub.url);
    assert!(refused(client.send(forged.bytes(), 1)).contains("another machine"));
    let mut damaged = forged.bytes().to_vec();
    damaged[20] ^= 1;
    assert!(refused(client.send(&damaged, 1)).contains("checksum"));
    assert!(refused(client.send(b"ASG9 and more", 1)).contains("format"));
    assert_eq!(hub.objects("inbox"), Vec::<std::path::PathBuf>::new());
    // It sees how far its own files are stored, and no others.
    other.begin("/app", &["one"]);
    other.push(&hub.url);
    assert_eq!(client.ends().unwrap().files, []);
    assert!(!other.client(&hub.url).ends().unwrap().files.is_empty());
}

#[test]
fn cloned_machine_is_refused_until_it_is_released() {
    let hub = TestHub::start();
    let mut machine = hub.machine(1);
    machine.begin("/app", &["one"]);
    machine.push(&hub.url);
    machine.host = "another host".into();
    assert!(refused(machine.try_push(&hub.url)).contains("another machine uses this token"));
    hub.runtime
        .block_on(hub.hub.release(machine.source))
        .unwrap();
    machine.push(&hub.url);
}

#[test]
fn hub_that_is_down_is_unreachable_and_nothing_is_lost() {
    let hub = TestHub::start();
    let machine = hub.machine(1);
    machine.begin("/app", &["one"]);
    assert!(matches!(
        machine.try_push("http://127.0.0.1:1"),
        Err(Error::Unreachable(_))
    ));
    machine.push(&hub.url);
    machine.assert_stored(&hub.files());
    for address in ["hub.example", "ftp://hub"] {
        assert!(refused(Client::new(address, "token", "host")).contains("http"));
    }
}
