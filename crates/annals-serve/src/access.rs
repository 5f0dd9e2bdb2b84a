//! Access: the host names of this server and its secrets, random for each start.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

/// Names under which the server may be asked, besides its own.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Use `localhost` instead of a random name below it, for browsers that do not resolve such
    /// names.
    pub plain: bool,
    /// Names that a tunnel gives to the server: exact values of `Host`.
    pub also: Vec<String>,
}

/// Cookie that browsers send.
const COOKIE: &str = "annals";

/// Names and secrets of a running server.
#[derive(Debug)]
pub(crate) struct Access {
    /// Values of `Host` that browsers may use. The first one is printed.
    hosts: Vec<String>,
    /// The value of `Host` that answers only to `Authorization: Bearer`.
    script_host: String,
    /// Exchanged once for the cookie.
    key: String,
    key_used: AtomicBool,
    cookie: String,
    bearer: String,
    /// Proof that a form is from a page of this server.
    form: String,
}

/// Kind of host name in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// A name that browsers use.
    Browser,
    /// The address that scripts use.
    Script,
}

impl Access {
    /// Creates the secrets of a server that listens on a port.
    pub(crate) fn new(port: u16, names: &Names) -> io::Result<Self> {
        let label = random_hex(8)?;
        let own = match names.plain {
            true => format!("localhost:{port}"),
            false => format!("{label}.localhost:{port}"),
        };
        let also = names.also.iter().flat_map(|name| {
            let has_port = name.rsplit_once(':').is_some();
            let with_port = (!has_port).then(|| format!("{name}:{port}"));
            std::iter::once(name.clone()).chain(with_port)
        });
        let also = also.map(|name| name.to_ascii_lowercase());
        Ok(Access {
            hosts: std::iter::once(own).chain(also).collect(),
            script_host: format!("127.0.0.1:{port}"),
            key: random_hex(32)?,
            key_used: AtomicBool::new(false),
            cookie: random_hex(32)?,
            bearer: random_hex(32)?,
            form: random_hex(32)?,
        })
    }

    /// Returns the address for the browser. Its key works once.
    pub(crate) fn page_address(&self) -> String {
        let host = self.hosts.first().map_or("", String::as_str);
        format!("http://{host}/?key={}", self.key)
    }

    /// Returns the address for scripts.
    pub(crate) fn script_address(&self) -> String {
        format!("http://{}/api/v1/", self.script_host)
    }

    /// Returns the token for scripts.
    pub(crate) fn bearer(&self) -> &str {
        &self.bearer
    }

    /// Returns the token of forms.
    pub(crate) fn form_token(&self) -> &str {
        &self.form
    }

    /// Returns how a value of `Host` names this server; `None` if it is another one's.
    pub(crate) fn host_kind(&self, host: &str) -> Option<HostKind> {
        if self.hosts.iter().any(|own| own == host) {
            return Some(HostKind::Browser);
        }
        (self.script_host == host).then_some(HostKind::Script)
    }

    /// Returns whether a value of `Origin` is a page of this server.
    pub(crate) fn is_own_origin(&self, origin: &str) -> bool {
        let own = |host: &String| {
            let scheme = origin.strip_suffix(host.as_str());
            // A tunnel may add TLS; the server itself never does.
            let also = self.hosts.first() != Some(host);
            scheme == Some("http://") || (also && scheme == Some("https://"))
        };
        self.hosts.iter().any(own)
    }

    /// Exchanges the key for the value of the header that sets the cookie. Succeeds once.
    pub(crate) fn exchange_key(&self, key: &str) -> Option<String> {
        if !is_equal(key, &self.key) || self.key_used.swap(true, Ordering::AcqRel) {
            return None;
        }
        let value = &self.cookie;
        Some(format!(
            "{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict"
        ))
    }

    /// Returns whether a `Cookie` header has the secret.
    pub(crate) fn has_cookie(&self, header: &str) -> bool {
        let mut cookies = header
            .split(';')
            .filter_map(|one| one.trim().split_once('='));
        cookies.any(|(name, value)| name == COOKIE && is_equal(value, &self.cookie))
    }

    /// Returns whether an `Authorization` header has the token.
    pub(crate) fn has_bearer(&self, header: &str) -> bool {
        let token = header.strip_prefix("Bearer ");
        token.is_some_and(|token| is_equal(token.trim(), &self.bearer))
    }

    /// Returns whether a form has the token of forms.
    pub(crate) fn has_form_token(&self, token: &str) -> bool {
        is_equal(token, &self.form)
    }

    #[cfg(test)]
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    #[cfg(test)]
    pub(crate) fn cookie_header(&self) -> String {
        format!("{COOKIE}={}", self.cookie)
    }

    #[cfg(test)]
    pub(crate) fn host(&self) -> &str {
        &self.hosts[0]
    }
}

/// Compares secrets in a time that depends on neither: their digests are compared whole.
fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (Sha256::digest(one), Sha256::digest(other));
    let different = one
        .iter()
        .zip(&other)
        .fold(0, |bits, (a, b)| bits | (a ^ b));
    std::hint::black_box(different) == 0
}

/// Returns random bytes of the system as hexadecimal digits.
fn random_hex(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
