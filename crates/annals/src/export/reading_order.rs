//! The order in which people read a session.
//!
//! The conversation that would be resumed comes first and is complete. Every other conversation is
//! a section that begins where it branches off an earlier one, so that no entry appears twice.
//! The result of a call directly follows the call. Sub-agents follow, each in its own sections. This
//! module selects what is written; a `Page` formats it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;

use jiff::Timestamp;

use crate::error::Result;
use crate::store::{Agent, Session, results_under_calls};
use annals_layouts::model::{
    Block, Body, Entry, EntryId, EntryKey, Fact, FlawCounts, KeySet, Message, Outline, OutlineKind,
    Role, Span, Todo, Usage,
};
use annals_layouts::tree::{Segment, Tree, one_line};

use super::format::message_address;
use super::redact::Redactor;
use super::title::{MAX_HEADING_CHARS, heading, shorten_masked};
use super::write_error;

/// The part of a session to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportPart {
    /// All branches and sub-agents.
    Whole,
    /// Entries of the main log, in order, and the sub-agents that they called.
    Path(Vec<usize>),
}

impl ExportPart {
    /// Returns the conversation that ends at a message, or the path to an inner message.
    pub fn for_message(session: &Session, message: &str) -> Result<Self> {
        let entry = session.find_entry(message)?;
        let path = session.tree().and_then(|tree| {
            let at = tree.conversation_at(entry);
            let ends = at
                .and_then(|at| tree.conversations.get(at))
                .filter(|found| found.leaf == entry || found.tip == entry);
            match ends {
                Some(conversation) => Some(tree.path(conversation)),
                None => tree.path_to(entry),
            }
        });
        Ok(ExportPart::Path(path.unwrap_or_else(|| vec![entry])))
    }
}

/// Session metadata, for the head of a page.
pub(super) struct SessionHeader {
    /// Index of the session in the document, from 0.
    pub(super) number: usize,
    pub(super) id: String,
    /// The message at which the exported path ends; `None` for a whole session.
    pub(super) leaf: Option<String>,
    pub(super) title: String,
    pub(super) tag: Option<String>,
    pub(super) project: String,
    pub(super) models: Vec<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) updated: Option<Timestamp>,
    pub(super) messages: u64,
    pub(super) usage: Usage,
    pub(super) flaws: FlawCounts,
    /// Notes on the session.
    pub(super) notes: Vec<String>,
    /// Todo list of each agent.
    pub(super) todos: Vec<(String, Vec<Todo>)>,
    /// Anchors of the messages that have an address.
    pub(super) addresses: HashMap<Anchor, String>,
}

/// Entries of one log that are shown together, along one branch.
pub(super) struct Section {
    /// Index among the sections of the session, from 0.
    pub(super) number: usize,
    pub(super) kind: SectionKind,
    pub(super) title: String,
    pub(super) messages: usize,
    /// The point at which it branches off an earlier section.
    pub(super) branch_point: Option<BranchPoint>,
    /// The entry whose call spawned the sub-agent.
    pub(super) caller: Option<Anchor>,
    /// The prompts in it, if the page lists them.
    pub(super) prompts: Vec<PromptLink>,
    log: usize,
    runs: Vec<EntryRun>,
}

/// A prompt in the outline of a page.
pub(super) struct PromptLink {
    pub(super) anchor: Anchor,
    /// Its beginning, on one line.
    pub(super) text: String,
}

/// Kind of a section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionKind {
    /// A conversation of the main agent.
    Conversation {
        /// The agent program would resume here.
        resumes: bool,
    },
    /// A sub-agent.
    Agent,
    /// Another branch of a sub-agent.
    AgentBranch,
}

/// The point at which two branches diverge.
#[derive(Clone, Copy)]
pub(super) struct BranchPoint {
    pub(super) section: usize,
    /// The last entry that both share.
    pub(super) entry: Option<Anchor>,
}

/// Identifies an entry within its session: its log and its index there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Anchor {
    pub(super) log: usize,
    pub(super) entry: usize,
}

struct EntryRun {
    entries: Vec<usize>,
    /// The sections that branch off after it, without the one that continues.
    forks: Vec<usize>,
}

/// An entry with the context that a page needs to show it.
pub(super) struct ShownEntry<'a> {
    pub(super) anchor: Anchor,
    pub(super) entry: &'a Entry,
    /// The speaker; `None` if the previous speaker continues.
    pub(super) heading: Option<Heading<'a>>,
    /// The document has a link to this entry.
    pub(super) linked: bool,
    /// The sections of the sub-agents that it called.
    pub(super) agents: Vec<&'a Section>,
    /// Tool names of the calls so far, by call id.
    pub(super) tools: &'a HashMap<String, String>,
}

/// Speaker and time of a message.
pub(super) struct Heading<'a> {
    pub(super) speaker: &'static str,
    pub(super) model: Option<&'a str>,
    pub(super) time: Option<Timestamp>,
}

/// Output format for a session.
pub(super) trait Page {
    /// Returns whether the page lists the prompts of each section.
    fn lists_prompts(&self) -> bool {
        false
    }
    fn begin(&mut self, about: &SessionHeader, sections: &[Section]) -> io::Result<()>;
    fn section(
        &mut self,
        about: &SessionHeader,
        section: &Section,
        sections: &[Section],
    ) -> io::Result<()>;
    fn entry(&mut self, about: &SessionHeader, said: &ShownEntry<'_>) -> io::Result<()>;
    /// Lists the branches that begin here.
    fn forks(&mut self, about: &SessionHeader, forks: &[&Section]) -> io::Result<()>;
    fn end_section(&mut self) -> io::Result<()>;
    fn end(&mut self) -> io::Result<()>;
}

/// Writes a session to a page.
pub(super) fn write_page(
    session: &Session,
    part: &ExportPart,
    number: usize,
    mut redactor: Option<&mut Redactor>,
    page: &mut dyn Page,
) -> Result<()> {
    let mut about = session_header(session, number, redactor.as_deref_mut())?;
    let mut sections = sections(session, part);
    if let ExportPart::Path(path) = part {
        let leaf = path.last().and_then(|&at| session.entry_id(at));
        about.leaf = leaf.map(|id| id.to_string());
        about.messages = sections.iter().map(|one| one.messages as u64).sum();
        // The known usage is that of the whole session.
        about.usage = Usage::default();
    }
    for section in &mut sections {
        let redactor = redactor.as_deref_mut();
        section.title = heading(session, section.log, &section.title, redactor)?;
    }
    about.addresses = addresses(session, number, &sections);
    if page.lists_prompts() {
        // A redactor of its own: masks are counted where the prompts are shown in full.
        let mut redactor = redactor.as_ref().map(|_| Redactor::new()).transpose()?;
        for section in &mut sections {
            section.prompts = prompts(session, section, redactor.as_mut());
        }
    }
    let callers = sections_by_caller(&sections);
    let partings = sections
        .iter()
        .filter_map(|section| section.branch_point?.entry);
    let linked: HashSet<Anchor> = partings.chain(callers.keys().copied()).collect();
    page.begin(&about, &sections).map_err(write_error)?;
    for section in &sections {
        page.section(&about, section, &sections)
            .map_err(write_error)?;
        let mut reader = SectionReader {
            section,
            about: &about,
            sections: &sections,
            callers: &callers,
            linked: &linked,
            turns: Turns::default(),
        };
        for stretch in &section.runs {
            reader.write_run(session, stretch, redactor.as_deref_mut(), page)?;
        }
        page.end_section().map_err(write_error)?;
    }
    page.end().map_err(write_error)
}

struct SectionReader<'a> {
    section: &'a Section,
    about: &'a SessionHeader,
    sections: &'a [Section],
    callers: &'a HashMap<Anchor, Vec<usize>>,
    linked: &'a HashSet<Anchor>,
    turns: Turns,
}

impl SectionReader<'_> {
    fn write_run(
        &mut self,
        session: &Session,
        stretch: &EntryRun,
        mut redactor: Option<&mut Redactor>,
        page: &mut dyn Page,
    ) -> Result<()> {
        let log = self.section.log;
        let Some((_, scan, _)) = session.log(log) else {
            return Ok(());
        };
        let said = |at: &usize| scan.outlines.get(*at).is_some_and(|one| is_shown(one.kind));
        let shown: Vec<usize> = stretch.entries.iter().copied().filter(said).collect();
        let shown = results_under_calls(&scan.outlines, &shown);
        // A record may have several entries.
        let index: HashMap<(Span, Option<EntryKey>), usize> = shown
            .iter()
            .filter_map(|&at| scan.outlines.get(at).map(|it| ((it.span, it.key), at)))
            .collect();
        session.each_entry_of_log(log, &shown, |mut entry| {
            let place = (entry.span, entry.id.as_ref().map(EntryId::key));
            let at = index.get(&place).copied().unwrap_or_default();
            if let Some(redactor) = redactor.as_deref_mut() {
                redactor.mask_entry(&mut entry);
            }
            self.entry(&entry, Anchor { log, entry: at }, page)
                .map_err(write_error)?;
            Ok(true)
        })?;
        let forks: Vec<&Section> = stretch
            .forks
            .iter()
            .filter_map(|&at| self.sections.get(at))
            .collect();
        if !forks.is_empty() {
            self.turns.end();
            page.forks(self.about, &forks).map_err(write_error)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry, anchor: Anchor, page: &mut dyn Page) -> io::Result<()> {
        let heading = self.turns.heading(entry);
        self.turns.add_calls(entry);
        let called = self.callers.get(&anchor).into_iter().flatten();
        let agents = called.filter_map(|&at| self.sections.get(at)).collect();
        let said = ShownEntry {
            anchor,
            entry,
            heading,
            linked: self.linked.contains(&anchor),
            agents,
            tools: &self.turns.tools,
        };
        page.entry(self.about, &said)
    }
}

/// The turns of a conversation, while its entries are shown in order.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Tool names of the calls so far, by call id.
    pub(super) tools: HashMap<String, String>,
    /// The role and the response of the current turn.
    speaker: Option<(Role, Option<String>)>,
}

impl Turns {
    /// Remembers the tools that an entry calls.
    pub(super) fn add_calls(&mut self, entry: &Entry) {
        if let Body::Message(message) = &entry.body {
            for block in &message.blocks {
                if let Block::ToolUse { id, name, .. } = block {
                    self.tools.insert(id.clone(), name.clone());
                }
            }
        }
    }

    /// Ends the turn; the next entry has a heading.
    pub(super) fn end(&mut self) {
        self.speaker = None;
    }

    /// Returns the heading of an entry. The lines of one reply and the results of its calls share
    /// one.
    pub(super) fn heading<'e>(&mut self, entry: &'e Entry) -> Option<Heading<'e>> {
        let Body::Message(message) = &entry.body else {
            self.speaker = None;
            return Some(Heading {
                speaker: "Compacted",
                model: None,
                time: entry.time,
            });
        };
        let results = only_results(message);
        let speaker = (message.role, message.response.clone());
        let same = self.speaker.as_ref() == Some(&speaker)
            && message.role == Role::Assistant
            && message.response.is_some();
        let goes_on = self.speaker.is_some() && (results || same);
        if !results || self.speaker.is_none() {
            self.speaker = Some(speaker);
        }
        let heading = Heading {
            speaker: match message.role {
                Role::User if message.compact_summary => "Summary",
                Role::User if results => "Tool",
                Role::User if entry.sidechain && !message.meta && !message.human => "Task",
                Role::User if !message.human => "Program",
                Role::User => "User",
                Role::Assistant => "Assistant",
                Role::System => "System",
            },
            model: message.model.as_deref(),
            time: entry.time,
        };
        Some(heading).filter(|_| !goes_on)
    }
}

fn only_results(message: &Message) -> bool {
    let result = |block: &Block| matches!(block, Block::ToolResult { .. });
    !message.blocks.is_empty() && message.blocks.iter().all(result)
}

fn is_shown(kind: OutlineKind) -> bool {
    kind.is_message() || kind == OutlineKind::Compaction
}

fn session_header(
    session: &Session,
    number: usize,
    mut redactor: Option<&mut Redactor>,
) -> Result<SessionHeader> {
    let info = session.info(None);
    let mut notes = Vec::new();
    if let Some((_, scan, _)) = session.main_log() {
        let noted = |at: &usize| {
            let facts = scan.outlines.get(*at).map(|outline| &outline.facts);
            facts.is_some_and(|facts| facts.iter().any(|fact| matches!(fact, Fact::Note(_))))
        };
        let entries: Vec<usize> = (0..scan.outlines.len()).filter(noted).collect();
        session.each_entry_of_log(0, &entries, |entry| {
            if let Body::Note { text, .. } = entry.body {
                notes.push(text);
            }
            Ok(true)
        })?;
    }
    let flaws = info.flaw_counts();
    let mut about = SessionHeader {
        number,
        id: info.id.to_string(),
        leaf: None,
        title: info
            .title
            .map_or_else(|| "(no title)".to_owned(), |title| title.text),
        tag: info.tag,
        project: info.project.path,
        models: info.models.into_iter().collect(),
        started: info.started,
        updated: info.updated,
        messages: info.messages,
        usage: info.usage,
        flaws,
        notes,
        todos: session.todos()?,
        addresses: HashMap::new(),
    };
    about.title = heading(session, 0, &about.title, redactor.as_deref_mut())?;
    if let Some(redactor) = redactor {
        let texts = [&mut about.project].into_iter();
        for text in texts.chain(&mut about.tag).chain(&mut about.notes) {
            *text = redactor.mask_text(text).into_owned();
        }
        for (_, todos) in &mut about.todos {
            redactor.mask_todos(todos);
        }
    }
    Ok(about)
}

/// Returns the sections of a session, main log first.
fn sections(session: &Session, part: &ExportPart) -> Vec<Section> {
    let mut sections = Vec::new();
    match part {
        ExportPart::Path(path) => {
            let what = SectionKind::Conversation { resumes: false };
            push_section(&mut sections, what, "Conversation", 0, vec![path.clone()]);
        }
        ExportPart::Whole => {
            if session.tree().is_some() {
                conversation_sections(session, &mut sections);
            }
        }
    }
    for at in selected_agents(session, part) {
        let agent = session.agents.get(at);
        if let Some(agent) = agent.filter(|agent| !agent.warm_up) {
            agent_sections(session, agent, &mut sections);
        }
    }
    for section in &mut sections {
        section.messages = message_count(session, section);
    }
    sections
}

fn message_count(session: &Session, section: &Section) -> usize {
    let Some((_, scan, _)) = session.log(section.log) else {
        return 0;
    };
    let entries = section.runs.iter().flat_map(|one| &one.entries);
    let outlines = entries.filter_map(|&at| scan.outlines.get(at));
    outlines.filter(|one| one.kind.is_message()).count()
}

/// Returns the sub-agents to export: all, or the ones called along the path, at any depth.
pub(super) fn selected_agents(session: &Session, part: &ExportPart) -> Vec<usize> {
    let all = 0..session.agents.len();
    let ExportPart::Path(path) = part else {
        return all.collect();
    };
    let path: HashSet<usize> = path.iter().copied().collect();
    let mut wanted: Vec<usize> = Vec::new();
    let mut logs: HashSet<usize> = HashSet::new();
    // Each round adds the agents called by the agents found so far.
    loop {
        let called = |at: &usize| {
            let agent = session.agents.get(*at);
            agent.and_then(|agent| agent.call).is_some_and(|call| {
                logs.contains(&call.log) || (call.log == 0 && path.contains(&call.entry))
            })
        };
        let more: Vec<usize> = all
            .clone()
            .filter(|at| !wanted.contains(at))
            .filter(called)
            .collect();
        if more.is_empty() {
            break;
        }
        for &at in &more {
            let agent = session
                .agents
                .get(at)
                .filter(|agent| agent.sidechain.is_none());
            logs.extend(agent.map(|agent| agent.log).filter(|log| *log > 0));
        }
        wanted.extend(more);
    }
    wanted.sort_unstable();
    wanted
}

/// Adds one section per conversation of the main log.
fn conversation_sections(session: &Session, sections: &mut Vec<Section>) {
    let conversations = session.conversations();
    let grown = branch_sections(session, 0, sections.len());
    for (mut section, end) in grown {
        let conversation = end.and_then(|at| conversations.get(at));
        section.kind = SectionKind::Conversation {
            resumes: conversation.is_some_and(|one| one.resumes),
        };
        let name = conversation.and_then(|one| one.branch.clone());
        let title = conversation.and_then(|one| Some(one.title.as_ref()?.text.clone()));
        let first = || first_prompt(session, &section);
        let (own, unnamed) = match section.branch_point {
            Some(_) => (first().or(name), "Another reply"),
            None => (title.or_else(first), "Conversation"),
        };
        section.title = own.unwrap_or_else(|| unnamed.to_owned());
        sections.push(section);
    }
}

fn agent_sections(session: &Session, agent: &Agent, sections: &mut Vec<Section>) {
    let Some((_, _, tree)) = session.log(agent.log) else {
        return;
    };
    let what = SectionKind::Agent;
    let title = [agent.kind.as_deref(), agent.description.as_deref()];
    let title: Vec<&str> = title.into_iter().flatten().collect();
    let title = match title.as_slice() {
        [] => agent
            .id
            .as_ref()
            .map_or("unnamed", |id| id.as_str())
            .to_owned(),
        parts => parts.join(": "),
    };
    let called = agent.call.map(|call| Anchor {
        log: call.log,
        entry: call.entry,
    });
    match agent.sidechain.and_then(|at| tree.sidechains.get(at)) {
        Some(strand) => {
            push_section(
                sections,
                what,
                &title,
                agent.log,
                vec![strand.entries.clone()],
            );
            if let Some(section) = sections.last_mut() {
                section.caller = called;
            }
        }
        None => {
            let mut first = true;
            for (mut section, _) in branch_sections(session, agent.log, sections.len()) {
                if first {
                    section.kind = what;
                    section.title.clone_from(&title);
                    section.caller = called;
                } else {
                    let prompt = first_prompt(session, &section);
                    section.title = prompt.unwrap_or_else(|| title.clone());
                }
                first = false;
                sections.push(section);
            }
            if first {
                push_section(sections, what, &title, agent.log, Vec::new());
            }
        }
    }
}

fn push_section(
    sections: &mut Vec<Section>,
    what: SectionKind,
    title: &str,
    log: usize,
    stretches: Vec<Vec<usize>>,
) {
    let stretches = stretches.into_iter().map(|entries| EntryRun {
        entries,
        forks: Vec::new(),
    });
    sections.push(Section {
        number: sections.len(),
        kind: what,
        title: title.to_owned(),
        messages: 0,
        branch_point: None,
        caller: None,
        prompts: Vec::new(),
        log,
        runs: stretches.collect(),
    });
}

/// Splits a tree into sections: each follows one branch and leaves the others to later sections.
/// Returns each section with the conversation at its end.
fn branch_sections(session: &Session, log: usize, base: usize) -> Vec<(Section, Option<usize>)> {
    let Some((_, scan, tree)) = session.log(log) else {
        return Vec::new();
    };
    let segments = tree.segments();
    let said = |at: &&usize| {
        scan.outlines
            .get(**at)
            .is_some_and(|one| is_shown(one.kind))
    };
    let (children, roots) = child_segments(&segments);
    let resumed = resumed_segments(tree, &segments);
    // Continues with the branch that would be resumed, else with the newest.
    let choose = |from: &[usize]| -> Option<usize> {
        let found = from
            .iter()
            .copied()
            .find(|segment| resumed.contains(segment));
        found.or_else(|| from.last().copied())
    };
    let first = choose(&roots);
    let others = roots
        .iter()
        .copied()
        .filter(|&segment| Some(segment) != first);
    let mut pending: Vec<(usize, Option<BranchPoint>)> = first
        .into_iter()
        .chain(others)
        .map(|segment| (segment, None))
        .collect();
    let mut grown = Vec::new();
    let mut at = 0;
    while let Some(&(start, from)) = pending.get(at) {
        let number = base + at;
        at += 1;
        let mut stretches = Vec::new();
        let mut end = None;
        let mut next = Some(start);
        while let Some(segment) = next {
            let Some(found) = segments.get(segment) else {
                break;
            };
            let below = children.get(&segment).map_or(&[][..], Vec::as_slice);
            next = choose(below);
            let last = found.entries.iter().rev().find(said);
            let last = last.map(|&entry| Anchor { log, entry });
            let mut forks = Vec::new();
            for &other in below.iter().filter(|&&other| Some(other) != next) {
                forks.push(base + pending.len());
                let parting = BranchPoint {
                    section: number,
                    entry: last,
                };
                pending.push((other, Some(parting)));
            }
            end = found.conversation.or(end);
            stretches.push(EntryRun {
                entries: found.entries.clone(),
                forks,
            });
        }
        let section = Section {
            number,
            kind: SectionKind::AgentBranch,
            title: String::new(),
            messages: 0,
            branch_point: from,
            caller: None,
            prompts: Vec::new(),
            log,
            runs: stretches,
        };
        grown.push((section, end));
    }
    grown
}

/// Returns the child segments of each segment and the roots, without segments that lead to no
/// conversation.
fn child_segments(segments: &[Segment]) -> (HashMap<usize, Vec<usize>>, Vec<usize>) {
    let mut alive: HashSet<usize> = HashSet::new();
    // Segments come after their parents, so this walks from the leaves up.
    for (at, segment) in segments.iter().enumerate().rev() {
        if segment.conversation.is_some() || alive.contains(&at) {
            alive.insert(at);
            alive.extend(segment.parent);
        }
    }
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut roots = Vec::new();
    for (at, segment) in segments
        .iter()
        .enumerate()
        .filter(|(at, _)| alive.contains(at))
    {
        match segment.parent {
            Some(parent) => children.entry(parent).or_default().push(at),
            None => roots.push(at),
        }
    }
    (children, roots)
}

/// Returns the segments on the path to the resumed conversation.
fn resumed_segments(tree: &Tree, segments: &[Segment]) -> HashSet<usize> {
    let is_end = |segment: &Segment| tree.resume.is_some() && segment.conversation == tree.resume;
    let mut way = HashSet::new();
    let mut next = segments.iter().position(is_end);
    while let Some(at) = next.filter(|at| way.insert(*at)) {
        next = segments.get(at).and_then(|segment| segment.parent);
    }
    way
}

/// Returns the addresses of the shown entries. If several have the same id, only the first one has
/// an address.
fn addresses(session: &Session, number: usize, sections: &[Section]) -> HashMap<Anchor, String> {
    let mut taken = KeySet::default();
    let mut addresses = HashMap::new();
    for section in sections {
        for (anchor, outline) in shown_outlines(session, section) {
            let is_first = outline.key.is_some_and(|key| taken.insert(key));
            let id = outline.id().filter(|_| is_first);
            let address = id.and_then(|id| message_address(number, id.as_str()));
            addresses.extend(address.map(|address| (anchor, address)));
        }
    }
    addresses
}

/// Returns links to the prompts of a section, masked if there is a redactor.
fn prompts(
    session: &Session,
    section: &Section,
    mut redactor: Option<&mut Redactor>,
) -> Vec<PromptLink> {
    let mut links = Vec::new();
    for (anchor, outline) in shown_outlines(session, section) {
        let Some(prompt) = outline.prompt() else {
            continue;
        };
        let text = match redactor.as_deref_mut() {
            Some(redactor) => redactor.mask_text(prompt),
            None => Cow::Borrowed(prompt),
        };
        let text = shorten_masked(&text, MAX_HEADING_CHARS);
        links.push(PromptLink { anchor, text });
    }
    links
}

/// Iterates over the outlines of the shown entries of a section, in the order of the log.
fn shown_outlines<'a>(
    session: &'a Session,
    section: &'a Section,
) -> impl Iterator<Item = (Anchor, &'a Outline)> {
    let log = section.log;
    let scan = session.log(log).map(|(_, scan, _)| scan);
    let entries = section.runs.iter().flat_map(|one| &one.entries);
    let outlines = entries.filter_map(move |&entry| {
        let outline = scan?.outlines.get(entry)?;
        Some((Anchor { log, entry }, outline))
    });
    outlines.filter(|(_, outline)| is_shown(outline.kind))
}

fn first_prompt(session: &Session, section: &Section) -> Option<String> {
    let (_, scan, _) = session.log(section.log)?;
    let mut entries = section.runs.iter().flat_map(|one| &one.entries);
    entries.find_map(|&at| scan.outlines.get(at)?.prompt().map(one_line))
}

/// Returns the sections of sub-agents by the entry that called them.
fn sections_by_caller(sections: &[Section]) -> HashMap<Anchor, Vec<usize>> {
    let mut callers: HashMap<Anchor, Vec<usize>> = HashMap::new();
    for section in sections {
        if let Some(caller) = section.caller {
            callers.entry(caller).or_default().push(section.number);
        }
    }
    callers
}
