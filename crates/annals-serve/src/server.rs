//! Connections and their limits.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use annals::service::Service;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::access::{Access, Names};
use crate::app::{App, Options};
use crate::site::Site;

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 64;

/// Maximum length of the head of a request.
const MAX_HEAD: usize = 16 << 10;

/// Time in which a head must arrive. A connection without requests is closed after it, too.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Time for writes to end when the server ends.
const END_TIME: Duration = Duration::from_secs(5);

/// Number of questions that are answered at the same time.
const THREADS: usize = 8;

/// The addresses of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Address {
    /// For a browser. It works once.
    pub page: String,
    /// The JSON interface, for scripts.
    pub script: String,
    /// The token for scripts, in `Authorization: Bearer`.
    pub token: String,
}

/// Serves pages on 127.0.0.1 until the process is interrupted. `ready` gets the addresses as soon as
/// they answer. Without a port, a free one is used.
pub fn serve(
    service: Service,
    options: Options,
    names: &Names,
    port: Option<u16>,
    ready: impl FnOnce(&Address) -> io::Result<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS)
        .build()?;
    let served = runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let access = Access::new(listener.local_addr()?.port(), names)?;
        let address = Address {
            page: access.page_address(),
            script: access.script_address(),
            token: access.bearer().to_owned(),
        };
        let site = Site::new(App::new(service, options, access));
        let interrupted = interrupted()?;
        ready(&address)?;
        tokio::select! {
            served = accept(&listener, &site) => served,
            () = interrupted => Ok(()),
        }
    });
    runtime.shutdown_timeout(END_TIME);
    served
}

/// Waits for a signal that ends the server.
fn interrupted() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Accepts connections. Those above the limit are told so, and closed.
pub(crate) async fn accept(listener: &TcpListener, site: &Site) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The connection ended before it was accepted, or there are too many open files.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            refuse(&stream);
            continue;
        };
        let site = site.clone();
        tokio::spawn(async move {
            serve_connection(stream, site).await;
            drop(place);
        });
    }
}

async fn serve_connection(stream: TcpStream, site: Site) {
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(request.map(Body::new)).await) }
    });
    _ = stream.set_nodelay(true);
    // An error of a connection ends only that connection.
    _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

fn refuse(stream: &TcpStream) {
    const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Type: text/plain\r\nContent-Length: 48\r\n\r\nToo many connections are open: close some pages\n";
    _ = stream.try_write(BUSY);
}
