//! Encoding of session rows.
//!
//! All rows of a history are read whenever sessions are listed, so decoding must be fast: rare
//! fields are behind one flag bit, and names that rows share are allocated once.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;

use crate::cost::Charge;
use crate::store::SessionState;
use crate::store::conversations::{
    ConversationSegment, ConversationSummary, Conversations, PriceInputs, have_same_price_inputs,
};
use crate::store::session_summary::SessionSummary;
use annals_layouts::model::{
    BillingTerms, EntryKey, FlawKind, Money, Project, ResponseKey, ServiceTier, TitleSource, Usage,
};
use annals_layouts::tree::Title;

use super::row_bytes::{RowReader, RowWriter};
use super::sources::Sources;

const STATES: [SessionState; 5] = [
    SessionState::Created,
    SessionState::Active,
    SessionState::Resumed,
    SessionState::Expired,
    SessionState::Deleted,
];

const SOURCES: [TitleSource; 4] = [
    TitleSource::Prompt,
    TitleSource::Summary,
    TitleSource::Ai,
    TitleSource::Custom,
];

const FLAWS: [FlawKind; 15] = [
    FlawKind::TornTail,
    FlawKind::BadJson,
    FlawKind::NotAnObject,
    FlawKind::Glued,
    FlawKind::NulRun,
    FlawKind::BadUtf8,
    FlawKind::Oversize,
    FlawKind::Orphan,
    FlawKind::Cycle,
    FlawKind::DuplicateId,
    FlawKind::BadUsage,
    FlawKind::Unreadable,
    FlawKind::BadDocument,
    FlawKind::StaleIndex,
    FlawKind::BadHeader,
];

/// Bits of a session's first byte.
mod is {
    pub(super) const GUESSED: u8 = 1;
    pub(super) const TITLED: u8 = 2;
    pub(super) const TAGGED: u8 = 4;
    pub(super) const STARTED: u8 = 8;
    pub(super) const UPDATED: u8 = 16;
    pub(super) const AT_HOME: u8 = 32;
    /// Lists follow that most sessions do not have.
    pub(super) const ODD: u8 = 64;
}

/// Encodes the summary of a session.
pub(super) fn encode(facts: &SessionSummary) -> Option<Vec<u8>> {
    let odd = !(facts.other_directories.is_empty()
        && facts.agent_names.is_empty()
        && facts.agent_kinds.is_empty()
        && facts.attributes.is_empty()
        && facts.flaw_kinds.is_empty()
        && facts.summaries.is_empty()
        && facts.folder_directories.is_empty());
    let mut row = RowWriter::with_capacity();
    row.byte(
        flag(facts.project.guessed, is::GUESSED)
            | flag(facts.title.is_some(), is::TITLED)
            | flag(facts.tag.is_some(), is::TAGGED)
            | flag(facts.started.is_some(), is::STARTED)
            | flag(facts.updated.is_some(), is::UPDATED)
            | flag(facts.is_folder_directory, is::AT_HOME)
            | flag(odd, is::ODD),
    );
    row.byte(number_of(&STATES, facts.state)?);
    row.text(&facts.project.path);
    put_title(&mut row, facts.title.as_ref())?;
    facts.tag.iter().for_each(|tag| row.text(tag));
    facts.started.iter().for_each(|time| row.time(*time));
    facts.updated.iter().for_each(|time| row.time(*time));
    row.number(facts.entries);
    row.number(facts.messages);
    row.count(facts.conversations);
    row.count(facts.agents);
    if odd {
        put_texts(&mut row, &facts.other_directories);
        put_texts(&mut row, &facts.agent_names);
        put_texts(&mut row, facts.agent_kinds.keys());
        put_texts(&mut row, facts.agent_kinds.values());
        row.count(facts.flaw_kinds.len());
        for (kind, count) in &facts.flaw_kinds {
            row.byte(number_of(&FLAWS, *kind)?);
            row.count(*count);
        }
        row.count(facts.summaries.len());
        for (leaf, text) in &facts.summaries {
            row.raw(&leaf.to_bytes());
            row.text(text);
        }
        put_texts(&mut row, &facts.folder_directories);
        put_texts(&mut row, facts.attributes.keys());
        put_texts(&mut row, facts.attributes.values());
    }
    row.count(facts.messages_by_day.len());
    for (day, count) in &facts.messages_by_day {
        row.raw(&day_number(*day).to_le_bytes());
        row.number(*count);
    }
    row.keys(&facts.untitled_keys);
    let mut names = Numbers::default();
    let models: Vec<u64> = facts
        .models
        .iter()
        .map(|name| names.number(Some(name)))
        .collect();
    let charges = charges_row(&facts.charges, &mut names)?;
    put_texts(&mut row, &names.list);
    row.count(models.len());
    models.iter().for_each(|model| row.number(*model));
    row.raw(&charges);
    Some(row.0)
}

/// Decodes a session summary; `None` if the bytes are damaged.
pub(super) fn decode(bytes: &[u8], names: &mut Names) -> Option<SessionSummary> {
    let mut row = RowReader(bytes);
    let mut facts = decode_facts(&mut row, names)?;
    let names = names.decode_table(&mut row)?;
    for _ in 0..row.count()? {
        let name = name(names, row.number()?)??;
        facts.models.insert((*name).to_owned());
    }
    let count = row.list(10)?;
    facts.charges.reserve_exact(count);
    let mut sources = Sources::default();
    for _ in 0..count {
        let charge = charge(&mut row, names, &mut sources)?;
        facts.charges.push(charge);
    }
    Some(facts)
}

/// Decodes a session summary without its models and charges, which take most of a row.
pub(super) fn decode_without_charges(bytes: &[u8], names: &mut Names) -> Option<SessionSummary> {
    decode_facts(&mut RowReader(bytes), names)
}

/// Decodes the fields before the models and the charges.
fn decode_facts(row: &mut RowReader<'_>, names: &mut Names) -> Option<SessionSummary> {
    let flags = row.byte()?;
    let is = |bit: u8| flags & bit != 0;
    let state = *STATES.get(usize::from(row.byte()?))?;
    let mut facts = SessionSummary {
        project: Project {
            path: names.project(row.bytes()?)?.to_owned(),
            guessed: is(is::GUESSED),
        },
        other_directories: Vec::new(),
        title: row.optional(is(is::TITLED), title)?,
        tag: row.optional(is(is::TAGGED), |row| row.text().map(str::to_owned))?,
        attributes: Default::default(),
        state,
        started: row.optional(is(is::STARTED), RowReader::time)?,
        updated: row.optional(is(is::UPDATED), RowReader::time)?,
        entries: row.number()?,
        messages: row.number()?,
        conversations: row.count()?,
        agents: row.count()?,
        agent_names: Default::default(),
        agent_kinds: Default::default(),
        flaw_kinds: Default::default(),
        models: Default::default(),
        charges: Vec::new(),
        messages_by_day: Default::default(),
        untitled_keys: Vec::new(),
        summaries: Vec::new(),
        is_folder_directory: is(is::AT_HOME),
        folder_directories: Vec::new(),
    };
    if is(is::ODD) {
        facts.other_directories = texts(row)?;
        facts.agent_names = texts(row)?;
        facts.agent_kinds = pairs(row)?;
        for _ in 0..row.count()? {
            let kind = *FLAWS.get(usize::from(row.byte()?))?;
            facts.flaw_kinds.insert(kind, row.count()?);
        }
        for _ in 0..row.count()? {
            let leaf = EntryKey::from_bytes(row.array()?);
            facts.summaries.push((leaf, row.text()?.into()));
        }
        facts.folder_directories = texts::<Vec<String>>(row)?
            .into_iter()
            .map(Into::into)
            .collect();
        facts.attributes = pairs(row)?;
    }
    for _ in 0..row.count()? {
        let day = day(i32::from_le_bytes(row.array()?))?;
        facts.messages_by_day.insert(day, row.number()?);
    }
    facts.untitled_keys = row.keys()?;
    Some(facts)
}

/// Fields of a row that are needed to select the sessions to list.
pub(super) struct RowSummary {
    /// The project directory is taken from sessions in the same folder, if one of them has it.
    pub(super) guessed: bool,
    pub(super) updated: Option<Timestamp>,
    /// The session has summaries of other sessions' conversations.
    pub(super) summaries: bool,
}

/// Decodes only these fields, and passes the message key of each response to `message`. Allocates
/// nothing, because most rows are not needed again.
pub(super) fn decode_summary(
    bytes: &[u8],
    mut message: impl FnMut(EntryKey),
) -> Option<RowSummary> {
    let mut row = RowReader(bytes);
    let (flags, updated) = skip_head(&mut row)?;
    let is = |bit: u8| flags & bit != 0;
    let mut summaries = false;
    if is(is::ODD) {
        skip_lists(&mut row)?;
        for _ in 0..row.count()? {
            summaries = true;
            row.raw(16)?;
            row.bytes()?;
        }
        row.skip_texts()?;
        row.skip_texts()?;
        row.skip_texts()?;
    }
    for _ in 0..row.count()? {
        row.raw(4)?;
        row.skip_numbers(1)?;
    }
    let wants = row.list(16)?;
    row.raw(wants * 16)?;
    row.skip_texts()?;
    let models = row.list(1)?;
    row.skip_numbers(models)?;
    for _ in 0..row.list(10)? {
        let flags = row.byte()?;
        let is = |bit: u8| flags & bit != 0;
        if is(charge_is::NAMED) {
            message(EntryKey::from_bytes(row.array()?));
            row.raw(8)?;
        }
        if is(charge_is::TIMED) {
            row.raw(TIME)?;
        }
        // Six counters and three names.
        row.skip_numbers(9)?;
        if is(charge_is::RECORDED) {
            row.raw(16)?;
        }
    }
    Some(RowSummary {
        guessed: is(is::GUESSED),
        updated,
        summaries,
    })
}

/// Decodes only the summaries of other sessions' conversations. Allocates nothing else.
pub(super) fn decode_summaries(bytes: &[u8]) -> Option<Vec<(EntryKey, Box<str>)>> {
    let mut row = RowReader(bytes);
    let (flags, _) = skip_head(&mut row)?;
    if flags & is::ODD == 0 {
        return Some(Vec::new());
    }
    skip_lists(&mut row)?;
    let count = row.list(16)?;
    let summaries = (0..count).map(|_| {
        let leaf = EntryKey::from_bytes(row.array()?);
        Some((leaf, row.text()?.into()))
    });
    summaries.collect()
}

/// Size of a time in bytes.
const TIME: usize = 12;

/// Skips the fields that every row has, up to the rare lists. Returns the flags and the time of the
/// newest entry.
fn skip_head(row: &mut RowReader<'_>) -> Option<(u8, Option<Timestamp>)> {
    let flags = row.byte()?;
    let is = |bit: u8| flags & bit != 0;
    row.byte()?;
    row.bytes()?;
    if is(is::TITLED) {
        row.byte()?;
        row.bytes()?;
    }
    if is(is::TAGGED) {
        row.bytes()?;
    }
    if is(is::STARTED) {
        row.raw(TIME)?;
    }
    let updated = row.optional(is(is::UPDATED), RowReader::time)?;
    row.skip_numbers(4)?;
    Some((flags, updated))
}

/// Skips the rare lists before the summaries: directories, names and kinds of agents, flaws.
fn skip_lists(row: &mut RowReader<'_>) -> Option<()> {
    for _ in 0..4 {
        row.skip_texts()?;
    }
    for _ in 0..row.count()? {
        row.byte()?;
        row.skip_numbers(1)?;
    }
    Some(())
}

/// Bits of a conversation's first byte.
mod talk_is {
    pub(super) const TITLED: u8 = 1;
    /// Its title is that of the session.
    pub(super) const SAME_TITLE: u8 = 2;
    pub(super) const OPEN: u8 = 4;
    pub(super) const BRANCHED: u8 = 8;
    pub(super) const STARTED: u8 = 16;
    pub(super) const UPDATED: u8 = 32;
    pub(super) const RESUMES: u8 = 64;
    /// The id of its leaf is a UUID.
    pub(super) const UUID: u8 = 128;
}

/// Encodings of the keys of a segment.
const NO_KEYS: u8 = 0;
const THE_WANTED: u8 = 1;
const KEYS: u8 = 2;

/// Encodes the conversations of a session, relative to its summary: most conversations span the
/// whole session.
pub(super) fn encode_conversations(
    conversations: &Conversations,
    facts: &SessionSummary,
) -> Option<Vec<u8>> {
    let mut row = RowWriter::with_capacity();
    row.count(conversations.list.len());
    for talk in &conversations.list {
        let same = talk.title == facts.title;
        let uuid = EntryKey::is_canonical_uuid(&talk.leaf);
        row.byte(
            flag(talk.title.is_some(), talk_is::TITLED)
                | flag(same, talk_is::SAME_TITLE)
                | flag(talk.untitled, talk_is::OPEN)
                | flag(talk.branch.is_some(), talk_is::BRANCHED)
                | flag(talk.started.is_some(), talk_is::STARTED)
                | flag(talk.updated.is_some(), talk_is::UPDATED)
                | flag(talk.resumes, talk_is::RESUMES)
                | flag(uuid, talk_is::UUID),
        );
        match uuid {
            true => row.raw(&EntryKey::from_text(&talk.leaf).to_bytes()),
            false => row.text(&talk.leaf),
        }
        put_title(&mut row, talk.title.as_ref().filter(|_| !same))?;
        talk.branch.iter().for_each(|branch| row.text(branch));
        talk.started.iter().for_each(|time| row.time(*time));
        talk.updated.iter().for_each(|time| row.time(*time));
        row.count(talk.messages);
        row.count(talk.segment);
    }
    let known = Places::new(&facts.charges);
    row.count(conversations.segments.len());
    for limb in &conversations.segments {
        row.count(limb.parent.map_or(0, |parent| parent + 1));
        match limb.keys.is_empty() {
            true => row.byte(NO_KEYS),
            false if limb.keys == facts.untitled_keys => row.byte(THE_WANTED),
            false => {
                row.byte(KEYS);
                row.keys(&limb.keys);
            }
        }
        put_limb(&mut row, limb, &known)?;
    }
    Some(row.0)
}

/// Encodes the charges of a segment: runs of charges of the session's row, then the remaining ones.
fn put_limb(row: &mut RowWriter, limb: &ConversationSegment, known: &Places<'_>) -> Option<()> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut left = limb.charges.as_slice();
    while let [first, rest @ ..] = left {
        let next = runs.last().map_or(0, |(start, len)| start + len);
        let Some(at) = known.find(first, next) else {
            break;
        };
        match runs.last_mut() {
            Some((_, len)) if at == next => *len += 1,
            _ => runs.push((at, 1)),
        }
        left = rest;
    }
    row.count(runs.len());
    for (start, len) in runs {
        row.count(start);
        row.count(len);
    }
    let mut names = Numbers::default();
    let own = charges_row(left, &mut names)?;
    put_texts(row, &names.list);
    row.raw(&own);
    Some(())
}

/// Decodes conversations; `None` if the bytes are damaged.
pub(super) fn decode_conversations(
    bytes: &[u8],
    facts: &SessionSummary,
    names: &mut Names,
) -> Option<Conversations> {
    let mut row = RowReader(bytes);
    let mut conversations = Conversations::default();
    for _ in 0..row.count()? {
        let flags = row.byte()?;
        let is = |bit: u8| flags & bit != 0;
        let leaf = match is(talk_is::UUID) {
            true => EntryKey::from_bytes(row.array()?).to_uuid(),
            false => row.text()?.to_owned(),
        };
        conversations.list.push(ConversationSummary {
            leaf,
            title: match is(talk_is::SAME_TITLE) {
                true => facts.title.clone(),
                false => row.optional(is(talk_is::TITLED), title)?,
            },
            untitled: is(talk_is::OPEN),
            branch: row.optional(is(talk_is::BRANCHED), |row| row.text().map(str::to_owned))?,
            started: row.optional(is(talk_is::STARTED), RowReader::time)?,
            updated: row.optional(is(talk_is::UPDATED), RowReader::time)?,
            resumes: is(talk_is::RESUMES),
            messages: row.count()?,
            segment: row.count()?,
        });
    }
    for _ in 0..row.count()? {
        let parent = row.count()?.checked_sub(1);
        let keys = match row.byte()? {
            NO_KEYS => Vec::new(),
            THE_WANTED => facts.untitled_keys.clone(),
            KEYS => row.keys()?,
            _ => return None,
        };
        let mut charges = Vec::new();
        for _ in 0..row.count()? {
            let (start, len) = (row.count()?, row.count()?);
            let run = facts.charges.get(start..start.checked_add(len)?)?;
            let mut pricing = PriceInputs::default();
            charges.extend(run.iter().map(|charge| pricing.strip(charge.clone())));
        }
        let names = names.decode_table(&mut row)?;
        let mut sources = Sources::default();
        for _ in 0..row.list(10)? {
            charges.push(charge(&mut row, names, &mut sources)?);
        }
        conversations.segments.push(ConversationSegment {
            parent,
            keys,
            charges,
        });
    }
    Some(conversations)
}

/// Lookup of charges in the session's row.
struct Places<'a> {
    charges: &'a [Charge],
    named: OnceCell<HashMap<ResponseKey, usize>>,
}

impl<'a> Places<'a> {
    fn new(charges: &'a [Charge]) -> Self {
        Places {
            charges,
            named: OnceCell::new(),
        }
    }

    fn named(&self) -> HashMap<ResponseKey, usize> {
        let named = self.charges.iter().enumerate();
        let named = named.filter_map(|(at, charge)| Some((charge.response?, at)));
        named.collect()
    }

    /// Returns the index of an identical charge; tries `next` first.
    fn find(&self, charge: &Charge, next: usize) -> Option<usize> {
        let is_it = |at: usize| {
            let known = self.charges.get(at);
            known.is_some_and(|known| have_same_price_inputs(known, charge))
        };
        let named = || {
            let named = self.named.get_or_init(|| self.named());
            named.get(&charge.response?).copied()
        };
        Some(next)
            .filter(|at| is_it(*at))
            .or_else(|| named().filter(|at| is_it(*at)))
    }
}

/// Names that many rows share, each allocated once.
#[derive(Default)]
pub(super) struct Names {
    known: Vec<Arc<str>>,
    row: Vec<Arc<str>>,
    project: String,
}

impl Names {
    /// Returns a project path. Most rows have that of the previous row, which is known to be UTF-8.
    fn project(&mut self, bytes: &[u8]) -> Option<&str> {
        if self.project.as_bytes() != bytes {
            self.project.clear();
            self.project.push_str(std::str::from_utf8(bytes).ok()?);
        }
        Some(&self.project)
    }

    /// Decodes the name table of a row.
    fn decode_table(&mut self, row: &mut RowReader<'_>) -> Option<&[Arc<str>]> {
        // Models and branches are few; beyond this limit names are not shared.
        const MOST: usize = 32;
        self.row.clear();
        for _ in 0..row.list(1)? {
            let name = row.bytes()?;
            let mut known = self.known.iter();
            let name = match known.find(|known| known.as_bytes() == name) {
                Some(known) => known.clone(),
                None => {
                    let name: Arc<str> = std::str::from_utf8(name).ok()?.into();
                    if self.known.len() < MOST {
                        self.known.push(name.clone());
                    }
                    name
                }
            };
            self.row.push(name);
        }
        Some(&self.row)
    }
}

/// Name table being built. Numbers start at 1; 0 is no name.
#[derive(Default)]
struct Numbers<'a> {
    list: Vec<&'a str>,
    numbers: HashMap<&'a str, u64>,
}

impl<'a> Numbers<'a> {
    fn number(&mut self, name: Option<&'a str>) -> u64 {
        let Some(name) = name else { return 0 };
        // A linear search is fastest for the usual few names.
        let few = self.list.iter().take(8);
        if let Some(at) = few.into_iter().position(|known| *known == name) {
            return at as u64 + 1;
        }
        if self.list.len() < 8 {
            self.list.push(name);
            return self.list.len() as u64;
        }
        *self.numbers.entry(name).or_insert_with(|| {
            self.list.push(name);
            self.list.len() as u64
        })
    }
}

/// Returns the name with a number; `None` (damage) if there is no such name.
fn name(names: &[Arc<str>], number: u64) -> Option<Option<Arc<str>>> {
    match usize::try_from(number).ok()?.checked_sub(1) {
        None => Some(None),
        Some(at) => names.get(at).cloned().map(Some),
    }
}

/// Bits of a charge's first byte; the service tier is stored above them.
mod charge_is {
    pub(super) const NAMED: u8 = 1;
    pub(super) const TIMED: u8 = 2;
    pub(super) const US_ONLY: u8 = 4;
    pub(super) const COPIED: u8 = 8;
    pub(super) const RECORDED: u8 = 16;
    pub(super) const PACE: u8 = 32;
}

/// Encodes charges; at least ten bytes each.
fn charges_row<'a>(charges: &'a [Charge], names: &mut Numbers<'a>) -> Option<Vec<u8>> {
    let mut row = RowWriter::with_capacity();
    row.count(charges.len());
    for charge in charges {
        row.byte(
            flag(charge.response.is_some(), charge_is::NAMED)
                | flag(charge.time.is_some(), charge_is::TIMED)
                | flag(charge.source.terms.us_only, charge_is::US_ONLY)
                | flag(charge.copied, charge_is::COPIED)
                | flag(charge.recorded.is_some(), charge_is::RECORDED)
                | (number_of(&ServiceTier::ALL, charge.source.terms.tier)? * charge_is::PACE),
        );
        if let Some(key) = charge.response {
            row.raw(&key.message.to_bytes());
            row.raw(&key.request.to_le_bytes());
        }
        charge.time.iter().for_each(|time| row.time(*time));
        for count in charge.usage.counters() {
            row.number(count);
        }
        let source = &charge.source;
        for text in [&source.model, &source.agent, &source.git_branch] {
            row.number(names.number(text.as_deref()));
        }
        if let Some(cost) = &charge.recorded {
            row.raw(&cost.pico().to_le_bytes());
        }
    }
    Some(row.0)
}

fn charge(row: &mut RowReader<'_>, names: &[Arc<str>], sources: &mut Sources) -> Option<Charge> {
    let flags = row.byte()?;
    let is = |bit: u8| flags & bit != 0;
    let mut charge = Charge::new(0);
    if is(charge_is::NAMED) {
        charge.response = Some(ResponseKey {
            message: EntryKey::from_bytes(row.array()?),
            request: u64::from_le_bytes(row.array()?),
        });
    }
    charge.time = row.optional(is(charge_is::TIMED), RowReader::time)?;
    let mut counters = [0; 6];
    for counter in &mut counters {
        *counter = row.number()?;
    }
    charge.usage = Usage::from_counters(counters);
    let terms = BillingTerms {
        tier: *ServiceTier::ALL.get(usize::from(flags / charge_is::PACE))?,
        us_only: is(charge_is::US_ONLY),
    };
    let mut number = || u32::try_from(row.number()?).ok();
    let numbers = [number()?, number()?, number()?];
    let source = sources.get(numbers, terms, |number| name(names, number.into()))?;
    charge.source = Arc::clone(source);
    if is(charge_is::RECORDED) {
        let cost = Money::from_pico(i128::from_le_bytes(row.array()?));
        charge.recorded = Some(Box::new(cost));
    }
    charge.copied = is(charge_is::COPIED);
    Some(charge)
}

fn flag(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

fn put_texts<'a, T: AsRef<str> + 'a>(row: &mut RowWriter, texts: impl IntoIterator<Item = &'a T>) {
    let texts: Vec<&str> = texts.into_iter().map(AsRef::as_ref).collect();
    row.count(texts.len());
    texts.iter().for_each(|text| row.text(text));
}

fn texts<T: FromIterator<String>>(row: &mut RowReader<'_>) -> Option<T> {
    let count = row.list(1)?;
    (0..count).map(|_| row.text().map(str::to_owned)).collect()
}

/// Decodes a list of names and a list of their values.
fn pairs(row: &mut RowReader<'_>) -> Option<BTreeMap<String, String>> {
    let names: Vec<String> = texts(row)?;
    let values: Vec<String> = texts(row)?;
    Some(names.into_iter().zip(values).collect())
}

fn number_of<T: PartialEq>(all: &[T], one: T) -> Option<u8> {
    let number = all.iter().position(|other| *other == one)?;
    u8::try_from(number).ok()
}

fn put_title(row: &mut RowWriter, title: Option<&Title>) -> Option<()> {
    if let Some(title) = title {
        row.byte(number_of(&SOURCES, title.source)?);
        row.text(&title.text);
    }
    Some(())
}

fn title(row: &mut RowReader<'_>) -> Option<Title> {
    Some(Title {
        source: *SOURCES.get(usize::from(row.byte()?))?,
        text: row.text()?.to_owned(),
    })
}

fn day_number(day: Date) -> i32 {
    (i32::from(day.year()) << 9) | (i32::from(day.month()) << 5) | i32::from(day.day())
}

fn day(number: i32) -> Option<Date> {
    let year = i16::try_from(number >> 9).ok()?;
    Date::new(year, (number >> 5 & 15) as i8, (number & 31) as i8).ok()
}

#[cfg(test)]
mod tests;
