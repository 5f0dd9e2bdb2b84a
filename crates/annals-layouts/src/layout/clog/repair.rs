//! Reconstructs the missing header of a damaged file.

use crate::json::{self, Raw, Text, object};
use crate::layout::extension::ExtensionOut;
use crate::layout::usage_fields::decode_time;
use crate::layout::{PROGRAM, RepairRules};
use crate::model::{Artifact, ArtifactKind};

use super::Clog;
use super::line::{HEADER, SCHEMA};
use super::path;
use super::write::{CHANNEL, Header};

object! {
    struct HeaderMembers<'a> {
        "type" => kind: Text<'a>,
        "fileKind" => file: Text<'a>,
        "conversationId" => conversation: Text<'a>,
        "threadId" => thread: Text<'a>,
        "channel" => channel: Text<'a>,
        "createdAt" => created: Raw<'a>,
    }
}

impl RepairRules for Clog {
    fn set_id(&self, record: &[u8], id: &str) -> Option<Vec<u8>> {
        json::set_members(record, &[("messageId", &json::quote(id))])
    }

    fn missing_header(&self, log: &Artifact, records: &[Vec<u8>]) -> Option<Vec<u8>> {
        let file = match log.kind {
            ArtifactKind::SessionLog | ArtifactKind::AgentLog => "chat",
            ArtifactKind::Notes => "notes",
            _ => return None,
        };
        let texts = records.iter().map(|record| String::from_utf8_lossy(record));
        let texts: Vec<_> = texts.collect();
        let read = |text| serde_json::from_str::<HeaderMembers<'_>>(text).unwrap_or_default();
        let members: Vec<HeaderMembers<'_>> = texts.iter().map(|text| read(text)).collect();
        let is_header = |members: &HeaderMembers<'_>| members.kind.get() == Some(HEADER);
        if members.first().is_none_or(is_header) {
            return None;
        }
        let own =
            |members: &HeaderMembers<'_>| is_header(members) && members.file.get() == Some(file);
        if let Some(at) = members.iter().position(own) {
            // The header exists, but is not the first line.
            return records.get(at).cloned();
        }
        let first =
            |pick: &dyn Fn(&HeaderMembers<'_>) -> Option<String>| members.iter().find_map(pick);
        let session = log.session.as_ref()?;
        let conversation = first(&|members| members.conversation.non_empty().map(str::to_owned))
            .unwrap_or_else(|| path::conversation_id(session, log.agent.as_ref()));
        let thread = first(&|members| members.thread.non_empty().map(str::to_owned))
            .unwrap_or_else(|| session.name().to_owned());
        let channel = first(&|members| members.channel.non_empty().map(str::to_owned))
            .unwrap_or_else(|| CHANNEL.to_owned());
        let times = members
            .iter()
            .filter_map(|members| decode_time(members.created));
        let times: Vec<i64> = times.map(|time| time.as_millisecond()).collect();
        let began = path::start_time(session).map(|time| time.as_millisecond());
        let began = began.filter(|_| log.agent.is_none());
        let created = began.or(times.iter().copied().min()).unwrap_or_default();
        let header = Header {
            kind: HEADER,
            schema: SCHEMA,
            file,
            conversation: &conversation,
            thread: &thread,
            channel: &channel,
            title: "",
            created,
            updated: times.iter().copied().max().unwrap_or(created),
            annals: ExtensionOut {
                program: Some(PROGRAM),
                ..ExtensionOut::default()
            },
        };
        serde_json::to_vec(&header).ok()
    }
}
