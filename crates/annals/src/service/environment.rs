//! The service of a user: roots, directories, time zone and prices as the environment names them.

use std::path::PathBuf;

use jiff::tz::TimeZone;

use super::Service;
use crate::archive::Archive;
use crate::cost::{PriceMode, Prices};
use crate::error::{Error, Result};
use crate::store::{ReadFailures, Root, Store};
use annals_layouts::layout::{Env, LAYOUTS};

impl Service {
    /// Creates a service of the roots that [`Root::discover`] finds, and of archived sessions whose
    /// root no longer exists. Without a root to write to, the first is added that could be created.
    /// Why roots were rejected is reported to [`Store::failures`].
    ///
    /// The state directory is that of the environment, unless `state` is given. With `use_index`,
    /// the index in it is used.
    pub fn discover(env: &Env, state: Option<PathBuf>, use_index: bool) -> Result<Self> {
        let state = state.unwrap_or_else(|| state_dir(env));
        let failures = ReadFailures::default();
        let (mut roots, refused) = Root::discover(env);
        refused.into_iter().for_each(|error| failures.report(error));
        let archive = Archive::open(&state).reporting_to(&failures);
        let archived = failures.ok(archive.roots()).unwrap_or_default();
        if !roots.iter().any(|root| root.layout.writer().is_some()) {
            roots.extend(first_writable_root(env));
        }
        let is_gone = |root: &Root| root.path.try_exists().is_ok_and(|exists| !exists);
        roots.extend(archived.into_iter().filter(is_gone));
        let store = Store::new(roots).reporting_to(&failures).with_state(&state);
        let zone = system_zone(env).unwrap_or(TimeZone::UTC);
        let mut service = Service::new(store).with_zone(zone);
        if use_index {
            service = service.with_index(state);
        }
        let now = env.vars.get("ANNALS_NOW");
        service.now = match now.map(|text| text.parse()) {
            None => None,
            Some(Ok(now)) => Some(now),
            Some(Err(_)) => return Err(Error::refused("invalid time in ANNALS_NOW")),
        };
        Ok(service.with_shell_dir(env.vars.get("PWD").cloned()))
    }

    /// Sets prices from a list in a file, which supplement the built-in ones.
    pub fn with_price_list(self, path: PathBuf) -> Result<Self> {
        let bytes = std::fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
        let prices = Prices::built_in();
        let prices = prices.with_list_bytes(&bytes, &path.display().to_string())?;
        Ok(self.with_prices(prices, PriceMode::default()))
    }
}

/// Returns the first default root of a layout that annals writes.
fn first_writable_root(env: &Env) -> Option<Root> {
    let mut layouts = LAYOUTS.iter().filter(|layout| layout.writer().is_some());
    layouts.find_map(|layout| {
        let path = layout.roots(env).into_iter().next()?;
        Some(Root::with_layout(*layout, path))
    })
}

/// Returns the user's time zone, or an error that names an unknown zone in `TZ`.
///
/// Usually the file that `/etc/localtime` links to is enough; a lookup by name would list all
/// zones.
pub fn system_zone(env: &Env) -> Result<TimeZone, String> {
    let local = || {
        let path = std::fs::canonicalize("/etc/localtime").ok()?;
        let (_, name) = path.to_str()?.split_once("/zoneinfo/")?;
        TimeZone::tzif(name, &std::fs::read(&path).ok()?).ok()
    };
    match env.vars.get("TZ").map(String::as_str) {
        Some("UTC") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::try_system().map_err(|_| name.to_owned()),
        None => Ok(local().unwrap_or_else(TimeZone::system)),
    }
}

/// The state directory of annals.
pub fn state_dir(env: &Env) -> PathBuf {
    own_dir(env, "ANNALS_STATE_DIR", "XDG_STATE_HOME", ".local/state")
}

/// The directory of the user's settings.
pub fn config_dir(env: &Env) -> PathBuf {
    own_dir(env, "ANNALS_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
}

/// A directory of annals: named by its own variable, or below the XDG directory or the user's home.
fn own_dir(env: &Env, own: &str, common: &str, usual: &str) -> PathBuf {
    let var = |name: &str| {
        env.vars
            .get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = || env.home.clone().unwrap_or_else(std::env::temp_dir);
    var(own).unwrap_or_else(|| {
        let common = var(common).unwrap_or_else(|| home().join(usual));
        common.join("annals")
    })
}
