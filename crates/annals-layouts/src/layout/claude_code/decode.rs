//! Full decoding of entries.

use crate::json::{Pairs, Raw, Text, object, scanner};
use crate::layout::content::Blocks;
use crate::layout::usage_fields::{self, USAGE_MEMBER, decode_time, decode_usage, recorded_cost};
use crate::layout::{Decoded, Record};
use crate::model::{
    BlockMembers, Body, Entry, EntryContext, EntryId, FileBackup, FileChange, FlawKind, Members,
    Message, Role, TitleSource,
};

use super::line::{Line, LineDecoder, is_error_summary, is_record};

object! {
    struct FullLine<'a> { "message" => message: FullMessage<'a>, }
}
object! {
    struct FullMessage<'a> {
        "content" => content: Blocks,
        "stop_sequence" => stop_sequence: Raw<'a>,
        "stop_details" => stop_details: Raw<'a>,
        "container" => container: Raw<'a>,
        "context_management" => context_management: Raw<'a>,
    }
}
/// Draft members: the number of messages that a summary covers, and the members of a reply's
/// message that the model of annals has no field for.
pub(super) const MEMBERS: [&str; 6] = [
    super::line::MESSAGE_COUNT,
    USAGE_MEMBER,
    "stop_sequence",
    "stop_details",
    "container",
    "context_management",
];
object! {
    struct ToolUseResult<'a> { "toolUseResult" => result: Raw<'a>, }
}
object! {
    struct AttachmentFields<'a> {
        "type" => kind: Text<'a>,
        "text" => text: Text<'a>,
        "content" => content: Raw<'a>,
        "prompt" => prompt: Text<'a>,
    }
}
object! {
    struct Snapshot<'a> {
        "messageId" => message: Text<'a>,
        "trackedFileBackups" => backups: Raw<'a>,
        "timestamp" => timestamp: Raw<'a>,
    }
}
object! {
    struct Backup<'a> {
        "backupFileName" => stored: Text<'a>,
        "version" => version: Raw<'a>,
        "backupTime" => time: Raw<'a>,
        "realParentDir" => base: Text<'a>,
    }
}

/// Passes on what the client stored of a tool result in addition to the result itself.
pub(super) fn extra_text(record: &Record<'_>, give: &mut dyn FnMut(&str)) {
    if memchr::memmem::find(record.bytes, b"\"toolUseResult\"").is_none() {
        return;
    }
    let text = std::str::from_utf8(record.bytes).unwrap_or_default();
    let line: ToolUseResult<'_> = Raw(Some(text)).parse_fast();
    line.result.0.into_iter().for_each(give);
}

pub(super) fn decode_entry(lines: &mut LineDecoder, record: &Record<'_>, out: &mut Decoded<Entry>) {
    let flaws_before = out.flaws.len();
    let read = record.object_or_pieces(out, is_record, |text| {
        let mut line: Line<'_> = match scanner::parse(text) {
            Some(line) => line,
            None => serde_json::from_str(text)?,
        };
        let mut bad_usage = None;
        let is_agent = lines.is_owners(&line.session, line.sidechain);
        let mut members = line.members();
        let mut block_members = BlockMembers::new();
        let said = (&mut members, &mut block_members);
        let body = body(&mut line, text, is_agent, &mut bad_usage, said);
        let entry = Entry {
            span: record.span,
            id: line.id(record.span),
            derived_id: line.lacks_id(),
            parent: line
                .parent
                .non_empty()
                .or(line.logical_parent.non_empty())
                .map(EntryId::new),
            time: line.time(),
            session: line.session.owned(),
            agent: lines.agent(&line.session, &line.agent, line.sidechain),
            sidechain: line.sidechain.0,
            program: line.entrypoint.owned(),
            copied: line.forked_from.is_some(),
            context: EntryContext {
                cwd: line.cwd.owned(),
                git_branch: line.git_branch.owned(),
                version: line.version.owned(),
                channel: None,
            },
            members,
            block_members,
            body,
        };
        Ok((entry, bad_usage))
    });
    match read {
        Ok((entry, bad_usage)) => {
            if let Some(detail) = bad_usage {
                out.add_flaw(FlawKind::BadUsage, record.span, detail);
            }
            out.items.push(entry);
        }
        Err(_) if record.is_blank() => {}
        Err(pieces) => {
            let flaw = out.flaws.get(flaws_before).map(|flaw| flaw.kind);
            let mut damaged = Entry::new(record.span, Body::Opaque { kind: None, flaw });
            damaged.agent.clone_from(&lines.owner);
            out.items.push(damaged);
            for piece in pieces {
                decode_entry(lines, &piece, out);
            }
        }
    }
}

fn body(
    line: &mut Line<'_>,
    text: &str,
    is_agent: bool,
    bad_usage: &mut Option<String>,
    (members, block_members): (&mut Members, &mut BlockMembers),
) -> Body {
    let owned = |text: &Text<'_>| text.or_empty().to_owned();
    let mut message = |line: &mut Line<'_>, role| {
        let (said, blocks) = message(line, text, role, is_agent, bad_usage, members);
        *block_members = blocks;
        said
    };
    match line.kind.or_empty() {
        "user" => Body::Message(message(line, Role::User)),
        "assistant" => Body::Message(message(line, Role::Assistant)),
        "system" if line.is_compaction() => Body::Compaction {
            text: line.content.text().unwrap_or_default().into_owned(),
        },
        "system" if line.is_instructions() => Body::Message(message(line, Role::System)),
        "system" => Body::System {
            subtype: owned(&line.subtype),
            text: line.content.text().unwrap_or_default().into_owned(),
        },
        "attachment" => {
            let attached: AttachmentFields<'_> = line.attachment.parse();
            let text = attached
                .text
                .0
                .or(attached.content.text())
                .or(attached.prompt.0);
            Body::Attachment {
                kind: attached.kind.owned().unwrap_or_default(),
                text: text.unwrap_or_default().into_owned(),
            }
        }
        "summary" => {
            let text = line.summary_text().unwrap_or_default();
            if is_error_summary(&text) {
                return opaque(line);
            }
            Body::Summary {
                text,
                leaf: line.summarized_until(),
            }
        }
        "custom-title" => Body::Title {
            text: owned(&line.custom_title),
            source: TitleSource::Custom,
        },
        "ai-title" => Body::Title {
            text: owned(&line.ai_title),
            source: TitleSource::Ai,
        },
        "tag" => Body::Tag {
            text: owned(&line.tag),
        },
        "last-prompt" => match line.leaf.non_empty() {
            Some(leaf) => Body::Resume {
                leaf: EntryId::new(leaf),
            },
            None => opaque(line),
        },
        "annals-note" => Body::Note {
            author: line.author.owned(),
            text: owned(&line.text),
        },
        "file-history-snapshot" => Body::Files(snapshot(line)),
        "file-history-delta" => Body::Files(FileChange {
            message: line.message_id.non_empty().map(EntryId::new),
            backups: vec![backup(line.tracking_path.or_empty(), line.backup)],
        }),
        // Variant of the design document: names the operation and has no backup.
        "file-history" => Body::Files(FileChange {
            message: None,
            backups: vec![FileBackup {
                path: owned(&line.path),
                base: None,
                version: 0,
                stored: None,
                time: line.time(),
                operation: line.operation.owned(),
                snippet: line.snippet.owned(),
            }],
        }),
        "queue-operation" => Body::Queue {
            operation: owned(&line.operation),
            text: line.content_text(),
        },
        _ => opaque(line),
    }
}

fn opaque(line: &Line<'_>) -> Body {
    Body::Opaque {
        kind: line.kind.owned(),
        flaw: None,
    }
}

fn message(
    line: &mut Line<'_>,
    text: &str,
    role: Role,
    is_agent: bool,
    bad_usage: &mut Option<String>,
    members: &mut Members,
) -> (Message, BlockMembers) {
    let mut whole: FullLine<'_> = Raw(Some(text)).parse_fast();
    let content = match line.has_top_level_content() {
        true => Blocks::from_raw(line.content),
        false => std::mem::take(&mut whole.message.content),
    };
    line.use_top_level_content();
    let said = &line.message;
    if role == Role::Assistant {
        *members = reply_members(&whole.message, said.usage);
    }
    let message = Message {
        role,
        blocks: content.blocks,
        human: line.prompt(is_agent).is_some(),
        meta: line.meta.0,
        compact_summary: line.compact_summary.0,
        api_error: line.api_error.0,
        model: line.model().map(str::to_owned),
        response: said.id.owned(),
        request: line.request.owned(),
        stop_reason: said.stop_reason.owned(),
        usage: (role == Role::Assistant)
            .then(|| {
                let (usage, fault) = decode_usage(said.usage);
                *bad_usage = fault.or_else(|| recorded_cost("costUSD", line.cost).1);
                usage
            })
            .flatten(),
        spawned: line.spawned(),
        stored: line.outcome().stored.owned(),
    };
    (message, content.members)
}

/// Returns the members of a reply beyond its blocks and counts. Default values are omitted, because
/// every reply of the real client has them.
fn reply_members(said: &FullMessage<'_>, usage: Raw<'_>) -> Members {
    let mut members = Members::new();
    members.extend(
        usage_fields::extra_usage_members(usage).map(|terms| (USAGE_MEMBER.to_owned(), terms)),
    );
    for (name, raw) in [
        ("stop_sequence", said.stop_sequence),
        ("stop_details", said.stop_details),
        ("container", said.container),
        ("context_management", said.context_management),
    ] {
        let given = raw.0.filter(|_| raw.is_some());
        members.extend(given.map(|json| (name.to_owned(), json.to_owned())));
    }
    members
}

fn snapshot(line: &Line<'_>) -> FileChange {
    let snapshot: Snapshot<'_> = line.snapshot.parse();
    let id = line.message_id.non_empty().or(snapshot.message.non_empty());
    let tracked: Pairs<'_> = snapshot.backups.parse();
    let backups = tracked.0.iter().map(|(path, raw)| backup(path, *raw));
    FileChange {
        message: id.map(EntryId::new),
        backups: backups.collect(),
    }
}

fn backup(path: &str, raw: Raw<'_>) -> FileBackup {
    let backup: Backup<'_> = raw.parse();
    FileBackup {
        path: path.to_owned(),
        base: backup.base.owned(),
        version: backup.version.count().ok().flatten().unwrap_or_default(),
        stored: backup.stored.owned(),
        time: decode_time(backup.time),
        operation: None,
        snippet: None,
    }
}
