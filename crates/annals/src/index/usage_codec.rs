//! Encoding of the usage of a log: what it says about its session, then its charges.

use std::cell::RefCell;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cost::{Charge, LogCharges, LogStart};
use crate::store::usage_collector::StoredUsage;
use annals_layouts::model::SessionId;

use super::charge_codec::{self, EncodedCharges, Names, Time, time_parts, timestamp};

/// Everything but the charges.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    /// Directories with their owners, the newest last.
    #[serde(borrow)]
    directories: Vec<(Option<&'a str>, &'a str)>,
    cwd: Vec<(Option<&'a str>, &'a str)>,
    shared: bool,
    uncounted: u64,
    first: Option<&'a str>,
    session: Option<&'a str>,
    git_branch: Option<&'a str>,
    start: Option<(bool, Option<Time>)>,
    latest: Option<Time>,
}

/// Encodes the usage of a log.
pub(super) fn encode(log: &LogCharges) -> Option<Vec<u8>> {
    let head = Head {
        directories: log
            .directories()
            .into_iter()
            .map(|(owner, path)| (owner.as_deref(), &**path))
            .collect(),
        cwd: log
            .cwd
            .iter()
            .map(|(owner, path)| (owner.as_deref(), &**path))
            .collect(),
        shared: log.shared,
        uncounted: log.uncounted,
        first: log.first.as_deref(),
        session: log.session.as_deref(),
        git_branch: log.git_branch.as_deref(),
        start: log
            .start
            .map(|start| (start.continues_other_log, start.time.map(time_parts))),
        latest: log.latest.map(time_parts),
    };
    let charges = log.charges.iter();
    let charges = charges.map(|(charge, session)| (charge, session.as_deref()));
    let mut bytes = postcard::to_stdvec(&head).ok()?;
    bytes.append(&mut charge_codec::encode(charges)?);
    Some(bytes)
}

/// Encoded usage whose charges are decoded on demand.
pub(super) struct EncodedUsage<'a> {
    head: Head<'a>,
    charges: EncodedCharges<'a>,
    /// Shared by the logs of a history.
    names: &'a RefCell<Names>,
}

impl<'a> EncodedUsage<'a> {
    /// Decodes everything but the charges; `None` if it is damaged.
    pub(super) fn new(bytes: &'a [u8], names: &'a RefCell<Names>) -> Option<Self> {
        let (head, charges) = postcard::take_from_bytes(bytes).ok()?;
        let charges = EncodedCharges::new(charges)?;
        Some(EncodedUsage {
            head,
            charges,
            names,
        })
    }

    /// Decodes everything.
    pub(super) fn log_charges(&self) -> Option<LogCharges> {
        let head = &self.head;
        let names = &mut *self.names.borrow_mut();
        let mut log = LogCharges::default();
        log.first = names.get(head.first);
        log.session = names.get(head.session);
        log.git_branch = names.get(head.git_branch);
        log.latest = timestamp(head.latest)?;
        if let Some((continues_other_log, time)) = head.start {
            let time = timestamp(time)?;
            log.start = Some(LogStart {
                continues_other_log,
                time,
            });
        }
        log.shared = head.shared;
        log.uncounted = head.uncounted;
        for &(owner, path) in &head.directories {
            log.add_directory(names.get(owner), path.into());
        }
        for &(owner, path) in &head.cwd {
            log.cwd.insert(names.get(owner), path.into());
        }
        let session = |name: Option<&str>, names: &mut Names| names.get(name);
        let item = |charge: Charge, session| (charge, session);
        let rest = self
            .charges
            .decode(0, names, session, &mut log.charges, item)?;
        rest.is_empty().then_some(log)
    }
}

impl StoredUsage for EncodedUsage<'_> {
    fn is_empty(&self) -> bool {
        self.charges.is_empty()
    }

    fn uncounted(&self) -> u64 {
        self.head.uncounted
    }

    fn first(&self) -> Option<&str> {
        self.head.first
    }

    fn directories(&self) -> Vec<Arc<str>> {
        let paths = self.head.directories.iter();
        paths.map(|(_, path)| Arc::from(*path)).collect()
    }

    fn charges(&self, account: usize, only: &SessionId, to: &mut Vec<Charge>) -> Option<()> {
        let is_foreign = |session: Option<&str>, _: &mut Names| {
            session.is_some_and(|session| session != only.as_str())
        };
        let item = |mut charge: Charge, foreign: bool| {
            charge.copied |= foreign;
            charge
        };
        let names = &mut *self.names.borrow_mut();
        let rest = self.charges.decode(account, names, is_foreign, to, item)?;
        rest.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use annals_layouts::model::{Money, ResponseKey, ServiceTier, Usage};
    use jiff::Timestamp;

    use super::*;

    fn sheet() -> LogCharges {
        let mut sheet = LogCharges::default();
        for number in 0..40u64 {
            let mut charge = Charge::new(0);
            charge.response = (number % 3 > 0).then(|| ResponseKey::new(&number.to_string(), "r"));
            charge.time = match number % 9 {
                0 => Timestamp::from_nanosecond(i128::from(number) * 1_000_001 - 7).ok(),
                1 => Some(Timestamp::MAX),
                2 => Timestamp::from_millisecond(Timestamp::MIN.as_millisecond()).ok(),
                _ => Timestamp::from_millisecond(number as i64 * 1_000_001 - 7).ok(),
            };
            charge.time = charge.time.filter(|_| number % 5 > 0);
            charge.source_mut().model = Some(format!("model-{}", number % 4).into());
            charge.usage = Usage::from_counters([number, 127, 128, u64::MAX, 1 << 35, 0]);
            charge.source_mut().terms.tier = *ServiceTier::ALL.get(number as usize % 5).unwrap();
            charge.source_mut().terms.us_only = number % 2 > 0;
            charge.recorded = (number % 7 == 0).then(|| Box::new(Money::from_pico(i128::MAX / 3)));
            charge.source_mut().agent = (number % 2 > 0).then(|| "agent".into());
            charge.copied = number % 6 == 0;
            let session = (number % 4 > 0).then(|| "session".into());
            sheet.charges.push((charge, session));
        }
        sheet.add_directory(None, "/w".into());
        sheet.add_directory(Some("session".into()), "/x".into());
        sheet.cwd.insert(None, "/w".into());
        sheet.uncounted = 3;
        sheet.first = Some("session".into());
        sheet.latest = Timestamp::from_second(9).ok();
        sheet
    }

    fn read(spelled: &[u8]) -> Option<LogCharges> {
        EncodedUsage::new(spelled, &RefCell::default())?.log_charges()
    }

    #[test]
    fn direct_charges_agree_with_decoded_log_charges() {
        let spelled = encode(&sheet()).unwrap();
        let names = RefCell::default();
        let decoded = EncodedUsage::new(&spelled, &names).unwrap();
        for only in ["session", "other"].map(|id| SessionId::new(id).unwrap()) {
            let mut charges = vec![Charge::new(1)];
            decoded.charges(7, &only, &mut charges).unwrap();
            let expected = sheet().charges(7, Some(&only));
            let expected: Vec<Charge> = [Charge::new(1)].into_iter().chain(expected).collect();
            assert_eq!(charges, expected);
        }
        assert_eq!(decoded.directories(), ["/w".into(), "/x".into()]);
        assert_eq!((decoded.first(), decoded.uncounted()), (Some("session"), 3));
        for cut in 0..spelled.len() {
            let decoded = spelled
                .get(..cut)
                .and_then(|bytes| EncodedUsage::new(bytes, &names));
            let only = SessionId::new("session").unwrap();
            let whole = decoded.and_then(|decoded| decoded.charges(0, &only, &mut Vec::new()));
            assert_eq!(whole, None, "cut at {cut}");
        }
    }

    #[test]
    fn log_charges_round_trip() {
        let spelled = encode(&sheet()).unwrap();
        let read = read(&spelled).unwrap();
        assert_eq!(read.charges, sheet().charges);
        assert_eq!(read.directories(), sheet().directories());
        assert_eq!((read.cwd, read.uncounted), (sheet().cwd, 3));
        assert_eq!((read.first, read.latest), (sheet().first, sheet().latest));
    }

    /// Damaged bytes never cause a panic, and a truncated row is not decoded.
    #[test]
    fn damaged_log_charges_never_panic() {
        let spelled = encode(&sheet()).unwrap();
        for at in 0..spelled.len() {
            assert!(read(spelled.get(..at).unwrap()).is_none(), "cut at {at}");
            let mut changed = spelled.clone();
            *changed.get_mut(at).unwrap() ^= 0xff;
            read(&changed);
        }
    }
}
