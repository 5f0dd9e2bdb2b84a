//! Encodes one entry: as the target's writer would append it.

use std::collections::HashSet;
use std::path::PathBuf;

use annals_layouts::json;
use annals_layouts::layout::{Change, Edit, export_file};
use annals_layouts::model::{Body, Draft, Entry, EntryId, EntryKey, Members, Outline};

use super::super::links::Links;
use super::super::origin::GENERATED;
use super::super::summary::{body_kind, update_row};
use super::{CHANNEL, SessionEncoder, TargetLog};
use crate::error::Result;
use crate::store::{Session, is_summary};

/// Position of an entry in the conversation.
struct Place {
    /// Its outline index; `None` for a copy.
    at: Option<usize>,
    /// Its parent, by the id that it has in the source.
    parent: Option<EntryId>,
    /// Whether it is not resumed, in layouts without branches.
    is_aside: bool,
}

impl SessionEncoder<'_> {
    /// Returns the lines that an entry becomes, with their files; none if the target cannot
    /// represent it.
    pub(super) fn encode_entry(
        &mut self,
        entry: Entry,
        volume: usize,
        pen: &mut TargetLog,
        links: &Links<'_>,
        refused: &mut HashSet<EntryKey>,
    ) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let at = links.outline_index(volume, &entry);
        if at.is_some_and(|at| links.is_replaced(at)) {
            self.leave_out("replaced record");
            return Ok(Vec::new());
        }
        let parent = at.and_then(|at| links.parent(at, refused));
        let place = Place {
            at,
            parent: parent.map(|id| pen.repeats.get(&id).cloned().unwrap_or(id)),
            is_aside: pen.is_aside(at),
        };
        self.encode_at(entry, place, pen, links, refused)
    }

    /// Writes the messages that a compaction keeps again after its summary, where the programs of all
    /// layouts send them.
    pub(super) fn repeat_kept(
        &mut self,
        log: usize,
        summary: &Entry,
        at: usize,
        pen: &mut TargetLog,
        links: &Links<'_>,
    ) -> Result<()> {
        let (Some(scan), Some(tree)) = (self.session.logs.get(log), self.session.trees.get(log))
        else {
            return Ok(());
        };
        let Some(id) = summary.id.clone() else {
            return Ok(());
        };
        let Some(compaction) = links.parent_index(at) else {
            return Ok(());
        };
        let kept = tree.kept_messages(&scan.outlines, compaction);
        let mut entries = Vec::new();
        self.session.each_entry_of_log(log, &kept, |entry| {
            entries.push(entry);
            Ok(true)
        })?;
        entries.retain(|entry| !is_summary(entry));
        let mut parent = id.clone();
        for (number, mut entry) in entries.into_iter().enumerate() {
            let copy = EntryId::new(&format!("{id}-kept-{number}"));
            entry.id = Some(copy.clone());
            entry.time = summary.time;
            entry.members.clear();
            if let Body::Message(message) = &mut entry.body {
                // Charged where they were written first.
                message.usage = None;
                message.response = None;
                message.request = None;
            }
            let place = Place {
                at: None,
                parent: Some(parent.clone()),
                is_aside: pen.is_aside(Some(at)),
            };
            let lines = self.encode_at(entry, place, pen, links, &mut HashSet::new())?;
            if !lines.is_empty() {
                parent = copy;
            }
            self.write_generated(lines)?;
        }
        if parent != id && pen.head.agent.is_none() {
            self.written
                .extend(self.last_line.clone().map(|it| (at, it)));
        }
        // What follows a compaction with its summary in one record names the compaction.
        let outline = scan.outlines.get(compaction);
        let outline = outline.filter(|outline| outline.span == summary.span);
        let named = outline.and_then(Outline::id);
        pen.repeats
            .extend(named.map(|named| (named, parent.clone())));
        pen.repeats.insert(id, parent);
        Ok(())
    }

    fn encode_at(
        &mut self,
        entry: Entry,
        place: Place,
        pen: &mut TargetLog,
        links: &Links<'_>,
        refused: &mut HashSet<EntryKey>,
    ) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let at = place.at;
        if matches!(entry.body, Body::Todos(_)) || is_export_head(self.session, &entry) {
            // Written with the session and its agents.
            return Ok(Vec::new());
        }
        let key = entry.id.as_ref().map(EntryId::key);
        let what = body_kind(&entry.body);
        let has_channel = self.target.writer.draft_members().contains(&CHANNEL);
        if !self.target.origin && !has_channel && entry.context.channel.is_some() {
            self.leave_out(CHANNEL);
        }
        let chained = matches!(
            entry.body,
            Body::Message(_) | Body::Compaction { .. } | Body::System { .. }
        );
        let sidechain = entry.sidechain && pen.head.agent.is_none();
        let aside = sidechain.then(|| entry.agent.clone());
        let fitting = |id: &EntryId| EntryId::new(&self.target.writer.valid_id(id.as_str()));
        let time = entry.time;
        let now = time.or(pen.head.time).unwrap_or(self.started);
        let continues = at
            .filter(|_| !self.session.root().layout.follows_parent_links())
            .and_then(|at| links.continued_entry(at, refused));
        pen.head.leaf = place.parent.as_ref().map(fitting);
        pen.head.continues = continues.as_ref().map(fitting);
        pen.head.last_message = pen.last.get(&aside).cloned();
        pen.head.is_aside = place.is_aside;
        pen.head.set_context(entry.context);
        let rest = at.and_then(|at| pen.replies.rest.get(&at)).cloned();
        pen.head.reply_rest = rest.unwrap_or_default();
        pen.head.continues_reply = at.is_some_and(|at| pen.replies.later.contains(&at));
        let (members, unknown): (Members, Members) = entry
            .members
            .into_iter()
            .partition(|(name, _)| self.target.writer.draft_members().contains(&name.as_str()));
        if !self.target.origin {
            // The recorded cost of a reply is converted.
            let cost = self.session.root().layout.writer();
            let cost = cost.and_then(|writer| writer.cost_member());
            let lost = unknown
                .iter()
                .filter(|(name, _)| cost != Some(name.as_str()));
            lost.for_each(|(name, _)| self.leave_out(name));
        }
        let id = match at {
            Some(at) => entry.id.map(|id| links.unique_id(at, id)),
            None => entry.id,
        };
        let mut draft = Draft {
            members,
            id: id.as_ref().map(fitting),
            time: Some(now),
            sidechain,
            agent: aside.clone().flatten(),
            ..Draft::new(entry.body)
        };
        if let Body::Summary { leaf, .. } = &mut draft.body {
            *leaf = leaf.as_ref().map(fitting);
        }
        pen.apply_usage(&mut draft.body);
        let writer = self.target.writer;
        let leaf = pen.head.leaf.as_ref();
        let response = self.with_context(now, |stamp| {
            let body = &mut draft.body;
            pen.reply.give_id(writer, leaf, body, stamp.new_id)
        });
        let mut change = Change::Append(vec![draft]);
        let mut plan = self.plan(&pen.head, &change, now);
        if let Change::Append(drafts) = &mut change
            && let Some(draft) = drafts.iter_mut().find(|it| !it.members.is_empty())
            && plan.as_ref().is_err_and(|error| error.is_refusal())
        {
            // The record is worth more than its members.
            let members = std::mem::take(&mut draft.members);
            plan = self.plan(&pen.head, &change, now);
            if plan.is_ok() && !self.target.origin {
                members.iter().for_each(|(name, _)| self.leave_out(name));
            }
        }
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) if error.is_refusal() => {
                refused.extend(key.filter(|_| chained));
                pen.save_usage(&change);
                self.leave_out(&what);
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        if chained && let Some(last) = plan.added.last() {
            pen.last.insert(aside, last.clone());
        }
        if pen.head.agent.is_none()
            && let Some(last) = plan.added.last()
        {
            self.last_line = Some(last.clone());
            self.written.extend(at.zip(Some(last.clone())));
        }
        if chained {
            pen.reply.wrote(plan.added.last().cloned(), response);
        }
        // The title of a sub-agent's log is not the title of the session.
        if let Some(title) = plan.title
            && pen.head.agent.is_none()
        {
            self.title = Some(title);
        }
        pen.head.time = pen.head.time.max(time).max(plan.time);
        if let Change::Append(drafts) = &change {
            for draft in drafts {
                pen.head.add_message(&draft.body);
                if chained && pen.listed {
                    let row = self.rows.entry(pen.head.log.clone()).or_default();
                    update_row(row, plan.added.len(), draft, time);
                    if pen.head.agent.is_some() {
                        // Nobody types to a sub-agent: a reader finds no prompt in its log, and a
                        // rebuilt session list must be the same.
                        row.prompt = None;
                    }
                }
            }
        }
        self.counts.add_converted(&what);
        let cost = at.and_then(|at| links.recorded_cost(at));
        let cost = cost.map(|cost| cost.to_string());
        let cost_member = self.target.writer.cost_member();
        if cost.is_some() && cost_member.is_none() {
            self.leave_out("recorded cost");
        }
        let mut lines = Vec::new();
        for edit in plan.edits {
            match edit {
                Edit::Append { path, lines: more } => {
                    lines.extend(more.into_iter().map(|line| (path.clone(), line)));
                    if let (Some(name), Some(cost), Some((_, line))) =
                        (cost_member, &cost, lines.first_mut())
                        && let Some(with_cost) = json::set_members(line, &[(name, cost)])
                    {
                        *line = with_cost;
                    }
                }
                other => self.write_edits(vec![other], GENERATED)?,
            }
        }
        Ok(lines)
    }
}

/// Returns whether an entry is made from the head of an exported session or agent.
fn is_export_head(session: &Session, entry: &Entry) -> bool {
    session.root().layout.root_is_file() && export_file::is_head(entry)
}
