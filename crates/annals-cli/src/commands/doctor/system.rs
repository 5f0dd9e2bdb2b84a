//! Questions of `annals doctor` to the system: places, permissions, programs, timers and the terminal.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use annals::layout::Env;
use annals::store::{ReadFailures, Root};
use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;
use serde::Serialize;

use crate::terminal::out::Out;

/// The operating system.
#[derive(Serialize)]
pub(super) struct System {
    os: &'static str,
    arch: &'static str,
    kernel: String,
    cpus: Option<usize>,
}

impl System {
    pub(super) fn new() -> Self {
        let uname = rustix::system::uname();
        let cpus = std::thread::available_parallelism();
        System {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            kernel: uname.release().to_string_lossy().into_owned(),
            cpus: cpus.ok().map(usize::from),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.os, self.kernel, self.arch)?;
        match self.cpus {
            Some(cpus) => write!(f, ", {cpus} CPUs"),
            None => Ok(()),
        }
    }
}

/// The terminal, as far as it changes what annals prints.
#[derive(Serialize)]
pub(super) struct Terminal {
    is_terminal: bool,
    columns: Option<usize>,
    kind: Option<String>,
    locale: Option<String>,
    no_color: bool,
    pager: Option<String>,
}

impl Terminal {
    pub(super) fn new(env: &Env, out: &Out) -> Self {
        let variable = |name: &str| env.vars.get(name).filter(|it| !it.is_empty()).cloned();
        // A pager may have arguments and a path; its name is enough.
        let pager = variable("ANNALS_PAGER").or_else(|| variable("PAGER"));
        let name = |words: String| {
            let program = words.split_whitespace().next()?.to_owned();
            Some(
                Path::new(&program)
                    .file_name()?
                    .to_string_lossy()
                    .into_owned(),
            )
        };
        Terminal {
            is_terminal: out.is_terminal(),
            columns: out.width(),
            kind: variable("TERM"),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"]
                .into_iter()
                .find_map(variable),
            no_color: variable("NO_COLOR").is_some(),
            pager: pager.and_then(name),
        }
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.columns {
            Some(columns) if self.is_terminal => write!(f, "{columns} columns")?,
            _ => f.write_str("none (piped)")?,
        }
        let parts = [
            ("", &self.kind),
            ("", &self.locale),
            ("pager ", &self.pager),
        ];
        for (name, value) in parts {
            if let Some(value) = value {
                write!(f, ", {name}{}", annals_render::text::safe(value))?;
            }
        }
        match self.no_color {
            true => f.write_str(", NO_COLOR"),
            false => Ok(()),
        }
    }
}

/// How paths are shown: those below the home directory with `~`, and those that a user chose not at
/// all.
pub(super) struct Places {
    home: Option<PathBuf>,
    usual: Vec<PathBuf>,
    all: bool,
}

impl Places {
    pub(super) fn new(env: &Env, all: bool) -> Self {
        let layouts = annals::layout::LAYOUTS.iter();
        // Only places that no variable of the environment has moved are the same on every machine.
        let plain = Env {
            home: env.home.clone(),
            cwd: None,
            vars: Default::default(),
        };
        Places {
            home: env.home.clone(),
            usual: layouts.flat_map(|layout| layout.roots(&plain)).collect(),
            all,
        }
    }

    /// Shows the path of a root.
    pub(super) fn root(&self, root: &Root) -> String {
        match self.all || self.usual.contains(&root.path) {
            true => self.known(&root.path),
            false => "elsewhere".to_owned(),
        }
    }

    /// Shows a path of annals itself.
    pub(super) fn known(&self, path: &Path) -> String {
        let below = |home: &PathBuf| Some(Path::new("~").join(path.strip_prefix(home).ok()?));
        let shown = match self.home.as_ref().and_then(below) {
            Some(shown) => shown,
            None if self.all => path.to_owned(),
            None => return "elsewhere".to_owned(),
        };
        annals_render::text::safe(&shown.to_string_lossy()).to_string()
    }
}

/// Returns whether the user may create files in a directory.
pub(super) fn is_writable(dir: &Path, failures: &ReadFailures) -> bool {
    match access(dir, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => true,
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOENT | Errno::NOTDIR) => false,
        Err(error) => {
            failures.report(annals::Error::io("read", dir, error.into()));
            false
        }
    }
}

/// Returns the space that is left for the user on the file system of a directory.
pub(super) fn free_bytes(dir: &Path) -> Option<u64> {
    let system = statvfs(dir).ok()?;
    system.f_bavail.checked_mul(system.f_frsize)
}

/// Returns whether the search path has the program.
pub(super) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| {
        let file = dir.join(program);
        file.is_file() && access(&file, Access::EXEC_OK).is_ok()
    })
}

/// A timer that runs `annals keep`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    Systemd,
    /// A unit that nobody has enabled, such as that of the Debian package.
    DisabledSystemd,
    Launchd,
}

impl Timer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Timer::Systemd => "systemd user timer",
            Timer::DisabledSystemd => "systemd user timer, not enabled",
            Timer::Launchd => "launchd agent",
        }
    }

    /// Finds a unit of systemd or an agent of launchd.
    pub(super) fn find(env: &Env) -> Option<Self> {
        let home = env.home.as_deref()?;
        let has = |dir: &Path, extension: &str| {
            let Ok(files) = std::fs::read_dir(dir) else {
                return false;
            };
            let names = files.flatten().map(|file| file.file_name());
            names
                .filter(|name| Path::new(name).extension() == Some(OsStr::new(extension)))
                .any(|name| name.to_string_lossy().contains("annals"))
        };
        let own = home.join(".config/systemd/user");
        let shared = home.join(".local/share/systemd/user");
        let system = ["/etc/systemd/user", "/usr/lib/systemd/user"].map(PathBuf::from);
        // Enabled for this user, or for all users (`systemctl --global enable`).
        let enabled = [own.as_path(), Path::new("/etc/systemd/user")];
        let is_enabled = |dir: &Path| has(&dir.join("timers.target.wants"), "timer");
        if enabled.into_iter().any(is_enabled) {
            Some(Timer::Systemd)
        } else if has(&home.join("Library/LaunchAgents"), "plist") {
            Some(Timer::Launchd)
        } else if [own, shared]
            .iter()
            .chain(&system)
            .any(|dir| has(dir, "timer"))
        {
            Some(Timer::DisabledSystemd)
        } else {
            None
        }
    }
}
