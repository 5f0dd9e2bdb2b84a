//! The environment: variables, the time zone, and the directories of annals.

use std::ffi::OsString;
use std::path::PathBuf;

use annals::layout::Env;
use jiff::tz::TimeZone;

/// The environment that layouts see.
pub(super) fn environment() -> Env {
    let vars = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Env {
        home: std::env::home_dir(),
        cwd: std::env::current_dir().ok(),
        vars,
    }
}

pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

pub(super) fn is_not_found(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Returns the user's time zone, or an error that names an unknown zone in `TZ`.
///
/// Usually the file that `/etc/localtime` links to is enough; a lookup by name would list all
/// zones.
pub(super) fn system_zone(env: &Env) -> Result<TimeZone, String> {
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
pub(super) fn state_dir(env: &Env) -> PathBuf {
    own_dir(env, "ANNALS_STATE_DIR", "XDG_STATE_HOME", ".local/state")
}

/// The directory of the user's settings.
pub(super) fn config_dir(env: &Env) -> PathBuf {
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
