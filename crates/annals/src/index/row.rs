//! How what was read of a session is spelled in the catalogue.
//!
//! All rows of a history are read whenever sessions are listed, so reading one must cost next to
//! nothing: texts are borrowed, and names that most rows share are held once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::cost::Charge;
use crate::model::{FlawKind, Key, Money, Pace, Project, ResponseKey, Terms, TitleSource, Usage};
use crate::store::State;
use crate::store::listing::Facts;
use crate::store::talks::{Limb, Talk, Talks};
use crate::tree::Title;

/// A time: seconds since 1970, and nanoseconds.
type Time = Option<(i64, i32)>;

/// What lists say about a session.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    project: &'a str,
    guessed: bool,
    #[serde(borrow)]
    other_directories: Vec<&'a str>,
    title: Option<(&'a str, TitleSource)>,
    tag: Option<&'a str>,
    state: u8,
    started: Time,
    updated: Time,
    entries: u64,
    messages: u64,
    conversations: usize,
    agents: usize,
    agent_names: Vec<&'a str>,
    flaws: Vec<(FlawKind, usize)>,
    models: Vec<&'a str>,
    messages_by_day: Vec<(i32, u64)>,
    wants: &'a [u8],
    summaries: Vec<(&'a [u8], &'a str)>,
    /// Its project is the only directory that its folder can be named after.
    at_home: bool,
    homes: Vec<&'a str>,
    charges: Charges<'a>,
}

/// What its conversations are.
#[derive(Serialize, Deserialize)]
struct TalksRow<'a> {
    #[serde(borrow)]
    list: Vec<TalkRow<'a>>,
    limbs: Vec<LimbRow<'a>>,
}

#[derive(Serialize, Deserialize)]
struct TalkRow<'a> {
    leaf: &'a str,
    title: Option<(&'a str, TitleSource)>,
    open: bool,
    branch: Option<&'a str>,
    messages: usize,
    started: Time,
    updated: Time,
    resumes: bool,
    limb: usize,
}

#[derive(Serialize, Deserialize)]
struct LimbRow<'a> {
    parent: Option<usize>,
    keys: &'a [u8],
    #[serde(borrow)]
    charges: Charges<'a>,
}

/// Responses, and the names in them, each once. Names are counted from 1; 0 is none.
#[derive(Serialize, Deserialize)]
struct Charges<'a> {
    #[serde(borrow)]
    names: Vec<&'a str>,
    list: Vec<ChargeRow>,
}

#[derive(Serialize, Deserialize)]
struct ChargeRow {
    response: Option<([u8; 16], [u8; 8])>,
    time: Time,
    usage: [u64; 6],
    pace: u8,
    us_only: bool,
    copied: bool,
    recorded: Option<i128>,
    model: u32,
    agent: u32,
    git_branch: u32,
}

const STATES: [State; 5] = [
    State::Created,
    State::Active,
    State::Resumed,
    State::Expired,
    State::Deleted,
];

/// Spells what a session's files tell.
pub(super) fn spell(facts: &Facts) -> Option<Vec<u8>> {
    let wants = key_bytes(&facts.wants);
    let leaves: Vec<[u8; 16]> = facts
        .summaries
        .iter()
        .map(|(key, _)| key.to_bytes())
        .collect();
    let texts = facts.summaries.iter().map(|(_, text)| &**text);
    let at_home = matches!(facts.homes.as_slice(), [only] if **only == *facts.project.path);
    let row = Row {
        project: &facts.project.path,
        guessed: facts.project.guessed,
        other_directories: strs(&facts.other_directories),
        title: title_row(facts.title.as_ref()),
        tag: facts.tag.as_deref(),
        state: number_of(&STATES, facts.state)?,
        started: facts.started.map(parts),
        updated: facts.updated.map(parts),
        entries: facts.entries,
        messages: facts.messages,
        conversations: facts.conversations,
        agents: facts.agents,
        agent_names: strs(&facts.agent_names),
        flaws: facts
            .flaw_kinds
            .iter()
            .map(|(kind, n)| (*kind, *n))
            .collect(),
        models: strs(&facts.models),
        messages_by_day: facts
            .messages_by_day
            .iter()
            .map(|(day, count)| (day_number(*day), *count))
            .collect(),
        wants: &wants,
        summaries: leaves.iter().map(|leaf| &leaf[..]).zip(texts).collect(),
        at_home,
        homes: match at_home {
            true => Vec::new(),
            false => strs(&facts.homes),
        },
        charges: charges_row(&facts.charges)?,
    };
    postcard::to_stdvec(&row).ok()
}

/// Reads them back; `None` if it is no such spelling.
pub(super) fn read(bytes: &[u8], names: &mut Names) -> Option<Facts> {
    let row: Row<'_> = postcard::from_bytes(bytes).ok()?;
    let days = row.messages_by_day.iter();
    let summaries = row.summaries.iter();
    Some(Facts {
        homes: match row.at_home {
            true => vec![row.project.into()],
            false => row.homes.into_iter().map(Into::into).collect(),
        },
        project: Project {
            path: row.project.to_owned(),
            guessed: row.guessed,
        },
        other_directories: owned(&row.other_directories),
        title: title(row.title),
        tag: row.tag.map(str::to_owned),
        state: *STATES.get(usize::from(row.state))?,
        started: time(row.started)?,
        updated: time(row.updated)?,
        entries: row.entries,
        messages: row.messages,
        conversations: row.conversations,
        agents: row.agents,
        agent_names: owned(&row.agent_names),
        flaw_kinds: row.flaws.into_iter().collect(),
        models: owned(&row.models),
        charges: charges(&row.charges, names)?,
        messages_by_day: days
            .map(|(number, count)| Some((day(*number)?, *count)))
            .collect::<Option<_>>()?,
        wants: keys(row.wants)?,
        summaries: summaries
            .map(|(leaf, text)| Some((Key::from_bytes((*leaf).try_into().ok()?), (*text).into())))
            .collect::<Option<_>>()?,
    })
}

/// Spells the conversations of a session.
pub(super) fn spell_talks(talks: &Talks) -> Option<Vec<u8>> {
    let keys: Vec<Vec<u8>> = talks
        .limbs
        .iter()
        .map(|limb| key_bytes(&limb.keys))
        .collect();
    let limbs = talks.limbs.iter().zip(&keys).map(|(limb, keys)| {
        Some(LimbRow {
            parent: limb.parent,
            keys,
            charges: charges_row(&limb.charges)?,
        })
    });
    let list = talks.list.iter().map(|talk| TalkRow {
        leaf: &talk.leaf,
        title: title_row(talk.title.as_ref()),
        open: talk.open,
        branch: talk.branch.as_deref(),
        messages: talk.messages,
        started: talk.started.map(parts),
        updated: talk.updated.map(parts),
        resumes: talk.resumes,
        limb: talk.limb,
    });
    let row = TalksRow {
        list: list.collect(),
        limbs: limbs.collect::<Option<_>>()?,
    };
    postcard::to_stdvec(&row).ok()
}

/// Reads them back; `None` if it is no such spelling.
pub(super) fn read_talks(bytes: &[u8], names: &mut Names) -> Option<Talks> {
    let row: TalksRow<'_> = postcard::from_bytes(bytes).ok()?;
    let list = row.list.into_iter().map(|talk| {
        Some(Talk {
            leaf: talk.leaf.to_owned(),
            title: title(talk.title),
            open: talk.open,
            branch: talk.branch.map(str::to_owned),
            messages: talk.messages,
            started: time(talk.started)?,
            updated: time(talk.updated)?,
            resumes: talk.resumes,
            limb: talk.limb,
        })
    });
    let limbs = row.limbs.iter().map(|limb| {
        Some(Limb {
            parent: limb.parent,
            keys: keys(limb.keys)?,
            charges: charges(&limb.charges, names)?,
        })
    });
    Some(Talks {
        list: list.collect::<Option<_>>()?,
        limbs: limbs.collect::<Option<_>>()?,
    })
}

/// Names that many rows share, each held once.
#[derive(Default)]
pub(super) struct Names(HashSet<Arc<str>>);

impl Names {
    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.0.insert(name.clone());
        name
    }
}

fn charges_row(charges: &[Charge]) -> Option<Charges<'_>> {
    let mut names: Vec<&str> = Vec::new();
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let mut list = Vec::with_capacity(charges.len());
    for charge in charges {
        let [model, agent, git_branch] =
            [&charge.model, &charge.agent, &charge.git_branch].map(|name| {
                let Some(name) = name.as_deref() else {
                    return 0;
                };
                *numbers.entry(name).or_insert_with(|| {
                    names.push(name);
                    names.len() as u32
                })
            });
        let response = charge.response;
        list.push(ChargeRow {
            response: response.map(|key| (key.message.to_bytes(), key.request.to_le_bytes())),
            time: charge.time.map(parts),
            usage: charge.usage.counters(),
            pace: number_of(&Pace::ALL, charge.terms.pace)?,
            us_only: charge.terms.us_only,
            copied: charge.copied,
            recorded: charge.recorded.map(Money::pico),
            model,
            agent,
            git_branch,
        });
    }
    Some(Charges { names, list })
}

fn charges(row: &Charges<'_>, names: &mut Names) -> Option<Vec<Charge>> {
    let shared: Vec<Arc<str>> = row.names.iter().map(|name| names.get(name)).collect();
    let name = |number: u32| match number.checked_sub(1) {
        None => Some(None),
        // A number without a name would be damage.
        Some(at) => shared.get(at as usize).cloned().map(Some),
    };
    let charge = |row: &ChargeRow| {
        let mut charge = Charge::to(0);
        charge.response = row.response.map(|(message, request)| ResponseKey {
            message: Key::from_bytes(message),
            request: u64::from_le_bytes(request),
        });
        charge.time = time(row.time)?;
        charge.usage = Usage::from_counters(row.usage);
        charge.terms = Terms {
            pace: *Pace::ALL.get(usize::from(row.pace))?,
            us_only: row.us_only,
        };
        charge.copied = row.copied;
        charge.recorded = row.recorded.map(Money::from_pico);
        charge.model = name(row.model)?;
        charge.agent = name(row.agent)?;
        charge.git_branch = name(row.git_branch)?;
        Some(charge)
    };
    row.list.iter().map(charge).collect()
}

fn strs<'a, T: AsRef<str> + 'a>(texts: impl IntoIterator<Item = &'a T>) -> Vec<&'a str> {
    texts.into_iter().map(AsRef::as_ref).collect()
}

fn owned<T: FromIterator<String>>(texts: &[&str]) -> T {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn number_of<T: PartialEq>(all: &[T], one: T) -> Option<u8> {
    let number = all.iter().position(|other| *other == one)?;
    u8::try_from(number).ok()
}

fn title_row(title: Option<&Title>) -> Option<(&str, TitleSource)> {
    title.map(|title| (title.text.as_str(), title.source))
}

fn title(row: Option<(&str, TitleSource)>) -> Option<Title> {
    row.map(|(text, source)| Title {
        text: text.to_owned(),
        source,
    })
}

fn key_bytes(keys: &[Key]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.to_bytes()).collect()
}

fn keys(bytes: &[u8]) -> Option<Vec<Key>> {
    let (keys, rest) = bytes.as_chunks();
    rest.is_empty()
        .then(|| keys.iter().map(|key| Key::from_bytes(*key)).collect())
}

fn parts(time: Timestamp) -> (i64, i32) {
    (time.as_second(), time.subsec_nanosecond())
}

/// A time that may be missing but not wrong.
fn time(parts: Time) -> Option<Option<Timestamp>> {
    match parts {
        None => Some(None),
        Some((second, nanosecond)) => Timestamp::new(second, nanosecond).ok().map(Some),
    }
}

fn day_number(day: Date) -> i32 {
    (i32::from(day.year()) << 9) | (i32::from(day.month()) << 5) | i32::from(day.day())
}

fn day(number: i32) -> Option<Date> {
    let year = i16::try_from(number >> 9).ok()?;
    Date::new(year, (number >> 5 & 15) as i8, (number & 31) as i8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(number: u64) -> Charge {
        let mut charge = Charge::to(0);
        charge.response = (number % 3 > 0).then(|| ResponseKey::of(&number.to_string(), "r"));
        charge.time = Timestamp::from_millisecond(number as i64 * 1_000_001 - 7).ok();
        charge.model = Some(format!("model-{}", number % 4).into());
        charge.usage = Usage::from_counters([number, 127, 128, u64::MAX, 1 << 35, 0]);
        charge.terms.pace = *Pace::ALL.get(number as usize % 5).unwrap();
        charge.terms.us_only = number % 2 > 0;
        charge.recorded = (number % 7 == 0).then(|| Money::from_pico(i128::MAX / 3));
        charge.agent = (number % 2 > 0).then(|| "agent".into());
        charge.git_branch = (number % 5 > 0).then(|| "main".into());
        charge.copied = number % 6 == 0;
        charge
    }

    fn facts() -> Facts {
        let text = |text: &str| text.to_owned();
        let day = |year, month, day| Date::new(year, month, day).unwrap();
        Facts {
            project: Project {
                path: text("/w"),
                guessed: false,
            },
            other_directories: vec![text("/x"), text("/é")],
            title: Some(Title {
                text: text("A title"),
                source: TitleSource::Ai,
            }),
            tag: Some(text("tag")),
            state: State::Resumed,
            started: Timestamp::new(-7, -5).ok(),
            updated: Timestamp::new(1_800_000_000, 999_999_999).ok(),
            entries: 300,
            messages: 129,
            conversations: 2,
            agents: 1,
            agent_names: [text("a1"), text("Explore")].into(),
            flaw_kinds: [(FlawKind::TornTail, 1), (FlawKind::BadHeader, 70_000)].into(),
            models: [text("model-1")].into(),
            charges: (0..40).map(charge).collect(),
            messages_by_day: [(day(2026, 12, 31), 4), (day(-9999, 1, 1), 1)].into(),
            wants: vec![Key::of("one"), Key::of("other")],
            summaries: vec![(Key::of("leaf"), "what it was about".into())],
            homes: vec!["/w".into()],
        }
    }

    fn talks() -> Talks {
        let talk = |limb: usize| Talk {
            leaf: format!("leaf-{limb}"),
            title: None,
            open: limb > 0,
            branch: (limb > 0).then(|| "another way".to_owned()),
            messages: 200,
            started: None,
            updated: Timestamp::from_second(5).ok(),
            resumes: limb == 1,
            limb,
        };
        let limb = |parent: Option<usize>| Limb {
            parent,
            keys: vec![Key::of("k")],
            charges: (3..6).map(charge).collect(),
        };
        Talks {
            list: vec![talk(1), talk(2)],
            limbs: vec![limb(None), limb(Some(0)), limb(Some(0))],
        }
    }

    #[test]
    fn what_is_spelled_is_read_back() {
        let mut names = Names::default();
        let mut wanted = facts();
        for homes in [vec!["/w".into()], vec!["/v".into(), "/w".into()], vec![]] {
            wanted.homes = homes;
            let spelled = spell(&wanted).unwrap();
            assert_eq!(read(&spelled, &mut names), Some(wanted.clone()));
        }
        let spelled = spell_talks(&talks()).unwrap();
        assert_eq!(read_talks(&spelled, &mut names), Some(talks()));
    }

    /// Whatever stands in the database, nothing panics and nothing is made of half a row.
    #[test]
    fn what_is_cut_or_changed_is_nothing_or_something_else() {
        let mut names = Names::default();
        let whole = spell(&facts()).unwrap();
        for at in 0..whole.len() {
            assert_eq!(read(&whole[..at], &mut names), None, "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            read(&changed, &mut names);
        }
        let whole = spell_talks(&talks()).unwrap();
        for at in 0..whole.len() {
            assert_eq!(read_talks(&whole[..at], &mut names), None, "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            read_talks(&changed, &mut names);
        }
    }
}
