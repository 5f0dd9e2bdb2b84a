//! Requests to the hub.

use std::time::Duration;

use annals_segments::protocol::{Acknowledged, HOST, KnownEnds, Machine, Refused, VERSION};
use serde::de::DeserializeOwned;
use ureq::http::StatusCode;
use ureq::{Agent, Body};

use crate::error::{Error, Result};

/// Time in which a request must be answered.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Time in which a connection must be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of an answer: the ends of a million files.
const MAX_ANSWER: u64 = 512 << 20;

/// A hub, and this machine's token for it.
pub struct Client {
    agent: Agent,
    url: String,
    authorization: String,
    host: String,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.url)
    }
}

impl Client {
    /// Creates a client. Nothing is sent yet.
    pub fn new(url: &str, token: &str, host: &str) -> Result<Self> {
        let url = url.trim_end_matches('/');
        let known = ["http://", "https://"];
        if !known.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Error::Refused(format!(
                "`{url}` is no address of a hub: it begins with http:// or https://"
            )));
        }
        if url.starts_with("https://") && !cfg!(feature = "tls") {
            return Err(Error::Refused("this program was built without TLS: use http:// to a proxy on this machine, or build it with the feature `hub-tls`".into()));
        }
        let token = token.trim();
        if token.is_empty() || token.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(Error::Refused(
                "the token is empty or contains spaces".into(),
            ));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("annals/", env!("CARGO_PKG_VERSION")));
        Ok(Client {
            agent: config.build().new_agent(),
            url: url.to_owned(),
            authorization: format!("Bearer {token}"),
            host: host.to_owned(),
        })
    }

    /// The address of the hub.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks who the token belongs to.
    pub fn machine(&self) -> Result<Machine> {
        let machine: Machine = self.get("/v1/machine")?;
        match machine.version {
            VERSION => Ok(machine),
            other => Err(Error::Answer(format!(
                "its protocol has version {other}, and this program {VERSION}"
            ))),
        }
    }

    /// Asks how far the files of this machine are stored.
    pub fn ends(&self) -> Result<KnownEnds> {
        self.get("/v1/ends")
    }

    /// Sends segments. Returns when the hub has stored them.
    pub fn send(&self, segments: &[u8], count: usize) -> Result<()> {
        let request = self.agent.post(format!("{}/v1/segments", self.url));
        let request = request.header("authorization", &self.authorization);
        let request = request.header(HOST, &self.host);
        let stored: Acknowledged = answer(request.send(segments))?;
        match stored.segments == count {
            true => Ok(()),
            false => Err(Error::Answer("it stored another number of segments".into())),
        }
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let request = self.agent.get(format!("{}{path}", self.url));
        let request = request.header("authorization", &self.authorization);
        answer(request.header(HOST, &self.host).call())
    }
}

fn answer<T: DeserializeOwned>(
    answer: Result<ureq::http::Response<Body>, ureq::Error>,
) -> Result<T> {
    let unreachable = |error: ureq::Error| Error::Unreachable(error.to_string());
    let mut answer = answer.map_err(unreachable)?;
    let status = answer.status();
    let body = answer.body_mut().with_config().limit(MAX_ANSWER);
    let body = body.read_to_vec().map_err(unreachable)?;
    if status == StatusCode::OK {
        return serde_json::from_slice(&body).map_err(|error| Error::Answer(error.to_string()));
    }
    let refused = serde_json::from_slice::<Refused>(&body);
    let why = refused.map_or_else(|_| status.to_string(), |refused| refused.error);
    match status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT {
        true => Err(Error::Refused(why)),
        false => Err(Error::Unreachable(why)),
    }
}
