//! The sessions that are held open, so that pages and branches need no second reading.

use annals::Result;
use annals::service::{OpenSession, Service};

use crate::protocol::SessionName;

/// Maximum number of sessions that are held open.
const MOST: usize = 4;
/// Maximum number of their entries in all: the sessions used last are kept, at least one.
const MOST_ENTRIES: usize = 300_000;
/// Number of messages that are read of the end of a session.
const TAIL: usize = 80;

/// An open session.
pub(super) struct Opened {
    key: String,
    pub(super) open: OpenSession,
    /// Changes whenever it is read.
    pub(super) stamp: u64,
    pub(super) is_whole: bool,
}

/// The open sessions, the last used one last.
#[derive(Default)]
pub(super) struct Sessions {
    all: Vec<Opened>,
    stamp: u64,
}

impl Sessions {
    /// Opens a session, or its end, unless it is open.
    pub(super) fn open(
        &mut self,
        service: &Service,
        session: &SessionName,
        tail: bool,
    ) -> Result<&mut Opened> {
        let known = self.all.iter().position(|it| it.key == session.key);
        let opened = match known.map(|at| self.all.remove(at)) {
            Some(mut known) if known.is_whole || tail => {
                if known.open.grow(service)? {
                    self.stamp += 1;
                    known.stamp = self.stamp;
                }
                known
            }
            _ => {
                let open = match tail {
                    true => service.open_tail(&session.key, TAIL)?,
                    false => service.open(&session.key)?,
                };
                self.stamp += 1;
                Opened {
                    key: session.key.clone(),
                    open,
                    stamp: self.stamp,
                    is_whole: !tail,
                }
            }
        };
        self.all.push(opened);
        self.forget();
        let last = self.all.len() - 1;
        self.all
            .get_mut(last)
            .ok_or_else(|| annals::Error::refused("no session is open"))
    }

    /// Returns the session that was read with this stamp.
    pub(super) fn with_stamp(&self, stamp: u64) -> Option<&Opened> {
        self.all.iter().find(|it| it.stamp == stamp)
    }

    /// Closes a session that is moved away.
    pub(super) fn close(&mut self, session: &SessionName) {
        self.all.retain(|it| it.key != session.key);
    }

    /// Closes the sessions that were used longest ago.
    fn forget(&mut self) {
        let mut entries = 0;
        let mut kept = 0;
        for opened in self.all.iter().rev() {
            let logs = opened.open.session.logs.iter();
            entries += logs.map(|scan| scan.outlines.len()).sum::<usize>();
            if kept > 0 && (kept == MOST || entries > MOST_ENTRIES) {
                break;
            }
            kept += 1;
        }
        self.all.drain(..self.all.len() - kept);
    }
}
