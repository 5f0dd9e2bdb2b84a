//! Short forms of ids.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use annals_layouts::model::{EntryKey, SessionId};

/// Short unique forms of ids: a prefix, or the name after a leading time.
#[derive(Debug)]
pub struct ShortIds {
    /// The ids concatenated in order, so that similar ids are neighbours.
    text: String,
    ids: Vec<Range<usize>>,
    /// Number of ids by name, for ids that begin with a time.
    name_counts: OnceCell<HashMap<String, usize>>,
    /// Length of the short form of message ids that are not UUIDs.
    message_lengths: HashMap<Box<str>, usize>,
}

impl ShortIds {
    /// Finds short forms that are unique among `ids`.
    pub fn new<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let mut ids: Vec<&str> = ids.collect();
        // The stable sort is fast here: the ids are mostly sorted, in one or several runs.
        ids.sort();
        ids.dedup();
        let text = ids.concat();
        let mut end = 0;
        let place = |id: &str| {
            let start = end;
            end += id.len();
            start..end
        };
        ShortIds {
            ids: ids.into_iter().map(place).collect(),
            text,
            name_counts: OnceCell::new(),
            message_lengths: HashMap::new(),
        }
    }

    /// Finds short forms of message ids. They are always prefixes, and ids that are not UUIDs may
    /// share long ones.
    pub fn for_messages<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let (uuids, others): (Vec<&str>, Vec<&str>) =
            ids.partition(|id| EntryKey::is_canonical_uuid(id));
        let mut short = ShortIds::new(uuids.into_iter());
        let others: BTreeSet<&str> = others.into_iter().collect();
        let mut alike: HashMap<&str, usize> = HashMap::new();
        for id in &others {
            *alike.entry(short_message_id(id)).or_default() += 1;
        }
        for id in others {
            let end = match alike.get(short_message_id(id)) {
                Some(1) => short_message_id(id).len(),
                _ => id.len(),
            };
            short.message_lengths.insert(id.into(), end);
        }
        short
    }

    /// Returns the short form of an id; an unknown id is returned whole.
    pub fn get<'a>(&self, id: &'a str) -> &'a str {
        let part = match self.message_lengths.get(id) {
            Some(end) => Some(0..*end),
            None => self.short_range(id),
        };
        part.and_then(|part| id.get(part)).unwrap_or(id)
    }

    fn short_range(&self, id: &str) -> Option<Range<usize>> {
        const SHORTEST: usize = 8;
        const WHOLE: usize = 12;
        let spelled = |place: &Range<usize>| self.text.get(place.clone());
        let at = self.ids.partition_point(|other| spelled(other) < Some(id));
        let known = |at: usize| self.ids.get(at).and_then(spelled);
        known(at).filter(|other| *other == id)?;
        let shared =
            |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let before = at.checked_sub(1).and_then(known);
        let alike = [before, known(at + 1)].into_iter().flatten();
        let longest = alike.map(|other| shared(id, other)).max().unwrap_or(0);
        let session = SessionId::new(id).ok();
        let Some(name) = session
            .as_ref()
            .map(SessionId::name)
            .filter(|name| *name != id)
        else {
            let shown = (longest + 1).max(SHORTEST);
            // An id that is hardly longer, such as a date, is shown whole.
            return Some(0..if id.len() <= WHOLE { id.len() } else { shown });
        };
        let first = self
            .ids
            .partition_point(|other| spelled(other) < Some(name));
        let begins = known(first).is_some_and(|id| id.starts_with(name));
        let named = self.name_counts.get_or_init(|| self.count_names());
        let alone = named.get(&name.to_ascii_lowercase()) == Some(&1) && !begins;
        let start = id.len() - name.len();
        // A part of a time identifies nothing.
        let end = (longest + 1).max(start - 1);
        Some(if alone { start..id.len() } else { 0..end })
    }

    fn count_names(&self) -> HashMap<String, usize> {
        let mut named = HashMap::new();
        let ids = self.ids.iter();
        let ids = ids.filter_map(|place| self.text.get(place.clone()));
        for id in ids.filter_map(|id| SessionId::new(id).ok()) {
            *named.entry(id.name().to_ascii_lowercase()).or_default() += 1;
        }
        named
    }
}

/// Returns a session id for a hint: eight characters of a UUID, else the whole id.
pub fn short_id(id: &str) -> &str {
    if EntryKey::is_canonical_uuid(id) {
        id_prefix(id, 8)
    } else {
        id
    }
}

/// Returns a short message id: eight characters of a UUID, more of other ids, which may be numbered
/// and differ only at the end.
pub fn short_message_id(id: &str) -> &str {
    id_prefix(
        id,
        if EntryKey::is_canonical_uuid(id) {
            8
        } else {
            24
        },
    )
}

/// Returns the first `len` bytes of an id, or all of it.
pub fn id_prefix(id: &str, len: usize) -> &str {
    id.get(..len).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_unique_and_show_dates_whole() {
        let ids = [
            "2026-03-01",
            "5f0c9f62-1111-4000-8000-000000000001",
            "agent-session-one",
            "agent-session-two",
        ];
        let short = ShortIds::new(ids.into_iter());
        let shown = ids.map(|id| short.get(id));
        assert_eq!(
            shown,
            [
                "2026-03-01",
                "5f0c9f62",
                "agent-session-o",
                "agent-session-t"
            ]
        );
    }
}
