//! Connections: what only a socket shows.

use std::time::Duration;

use annals::model::Draft;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{Served, runtime, said, store};
use crate::app::Options;

/// Runs a test against a server with a socket.
fn connected(test: impl AsyncFnOnce(std::net::SocketAddr, &Served)) {
    let served = Served::new(Options::default());
    runtime().block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let site = served.site.clone();
        let server = tokio::spawn(async move { crate::server::accept(&listener, &site).await });
        test(address, &served).await;
        server.abort();
    });
}

/// Sends bytes and returns what is answered until the server closes, or until a text appears.
async fn exchange(address: std::net::SocketAddr, bytes: &[u8], until: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    read_until(&mut stream, until).await
}

async fn read_until(stream: &mut TcpStream, until: &str) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    let reading = async {
        while let Ok(read) = stream.read(&mut buffer).await {
            answer.extend(&buffer[..read]);
            if read == 0 || (!until.is_empty() && String::from_utf8_lossy(&answer).contains(until))
            {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading)
        .await
        .unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn head(served: &Served, path: &str) -> String {
    let access = &served.app().access;
    format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
        access.host(),
        access.cookie_header()
    )
}

#[test]
fn rules_hold_over_a_socket() {
    connected(async |address, served| {
        let page = exchange(address, head(served, "/").as_bytes(), "").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(
            page.to_ascii_lowercase()
                .contains("content-security-policy: default-src 'none'")
        );
        let other = head(served, "/").replace(served.app().access.host(), "evil.example");
        let other = exchange(address, other.as_bytes(), "").await;
        assert!(other.starts_with("HTTP/1.1 421"), "{other}");
        let nobody = exchange(
            address,
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            "",
        )
        .await;
        assert!(nobody.starts_with("HTTP/1.1 421"), "{nobody}");
    });
}

#[test]
fn long_heads_and_nonsense_end_their_connection_only() {
    connected(async |address, served| {
        let long =
            head(served, "/").replace("Cookie:", &format!("X: {}\r\nCookie:", "a".repeat(40_000)));
        let long = exchange(address, long.as_bytes(), "").await;
        assert!(
            long.starts_with("HTTP/1.1 431") || long.is_empty(),
            "{long}"
        );
        let nonsense = exchange(address, b"\x16\x03\x01\0\xffhello\r\n\r\n", "").await;
        assert!(
            nonsense.starts_with("HTTP/1.1 400") || nonsense.is_empty(),
            "{nonsense}"
        );
        let page = exchange(address, head(served, "/sessions").as_bytes(), "").await;
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    });
}

#[test]
fn connections_are_limited_and_freed() {
    connected(async |address, served| {
        let mut open = Vec::new();
        for _ in 0..64 {
            open.push(TcpStream::connect(address).await.unwrap());
        }
        let busy = exchange(address, b"", "").await;
        assert!(busy.starts_with("HTTP/1.1 503"), "{busy}");
        drop(open);
        // The server notices the ends one after the other.
        loop {
            let page = exchange(address, head(served, "/sessions").as_bytes(), "").await;
            if page.starts_with("HTTP/1.1 200") {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn events_come_as_they_are_written_and_go_on_after_a_cursor() {
    connected(async |address, served| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(head(served, "/events").as_bytes())
            .await
            .unwrap();
        read_until(&mut stream, ": connected").await;
        let writer = store(served.dir.path()).begin("/home/me/other").unwrap();
        writer.append(Draft::user("first words")).unwrap();
        let seen = read_until(&mut stream, "first words").await;
        assert!(
            seen.contains("event: entry") || seen.contains("event: began"),
            "{seen}"
        );
        let cursor = seen
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("id: "))
            .unwrap()
            .to_owned();
        drop(stream);
        writer.append(said("later words")).unwrap();
        let again = head(served, "/events")
            .replace("Cookie:", &format!("Last-Event-ID: {cursor}\r\nCookie:"));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(again.as_bytes()).await.unwrap();
        let seen = read_until(&mut stream, "later words").await;
        assert!(!seen.contains("first words"), "{seen}");
    });
}
