//! Derives lines from the documents of a session.

use crate::json::{Raw, Text, object};
use crate::layout::derived::{
    DerivedLine, DerivedLog, LineOrder, count, owned, push_damaged, split_mark, text_block,
};
use crate::model::{FilePart, FileSetFormat};

/// A session: its messages, and its title and directory.
pub(super) static SESSION: FileSetFormat = FileSetFormat {
    name: "cline-session",
    is_whole: true,
    keeps_lines: false,
    parts: |path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let stem = name.and_then(|name| name.strip_suffix(super::MESSAGES));
        let other = stem.map(|stem| path.with_file_name(format!("{stem}.json")));
        other.into_iter().collect()
    },
    to_lines,
};

object! {
    struct Messages<'a> { "messages" => messages: Raw<'a>, }
}

object! {
    struct ClineMessage<'a> {
        "id" => id: Text<'a>,
        "role" => role: Text<'a>,
        "content" => content: Raw<'a>,
        "ts" => time: Raw<'a>,
        "modelInfo" => model: ModelInfo<'a>,
        "metrics" => metrics: Raw<'a>,
    }
}

object! {
    struct ModelInfo<'a> { "id" => id: Text<'a>, }
}

object! {
    struct Metrics<'a> {
        "inputTokens" => input: Raw<'a>,
        "outputTokens" => output: Raw<'a>,
        "cacheReadTokens" => read: Raw<'a>,
        "cacheWriteTokens" => written: Raw<'a>,
        "cost" => cost: Raw<'a>,
    }
}

object! {
    struct Block<'a> {
        "type" => kind: Text<'a>,
        "text" => text: Text<'a>,
    }
}

object! {
    struct About<'a> {
        "started_at" => started: Raw<'a>,
        "cwd" => cwd: Text<'a>,
        "metadata" => metadata: Metadata<'a>,
    }
}

object! {
    struct Metadata<'a> {
        "title" => title: Text<'a>,
        "sessionHistoryOrigin" => origin: Origin<'a>,
    }
}

object! {
    struct Origin<'a> { "version" => version: Text<'a>, }
}

fn to_lines(parts: &[FilePart<'_>]) -> Vec<u8> {
    let Some((main, others)) = parts.split_first() else {
        return Vec::new();
    };
    let mut log = DerivedLog::default();
    for part in others {
        about(part.bytes, &mut log);
    }
    let (_, bytes) = split_mark(main.bytes);
    let text = std::str::from_utf8(bytes).ok();
    let document = text.filter(|text| text.trim_start().starts_with('{'));
    let document = document.and_then(|text| serde_json::from_str::<Messages<'_>>(text).ok());
    let Some(document) = document else {
        let mut out = log.into_bytes();
        if !bytes.trim_ascii().is_empty() {
            push_damaged(&mut out, bytes);
        }
        return out;
    };
    let mut order = LineOrder::default();
    for (number, raw) in document.messages.list().into_iter().enumerate() {
        let line = message(number, raw, &mut order);
        log.add(b"", Some(&line));
    }
    log.into_bytes()
}

/// Adds the directory and the title. A document that cannot be read only loses them.
fn about(bytes: &[u8], log: &mut DerivedLog) {
    let text = std::str::from_utf8(bytes).ok();
    let about = text.and_then(|text| serde_json::from_str::<About<'_>>(text).ok());
    let Some(about) = about else {
        return;
    };
    let line = DerivedLine {
        time: owned(about.started),
        cwd: about.cwd.owned(),
        version: about.metadata.origin.version.owned(),
        ..DerivedLine::new("session")
    };
    log.add(b"", Some(&line));
    if let Some(title) = about.metadata.title.non_empty() {
        log.add(b"", Some(&DerivedLine::title(title, false)));
    }
}

fn message<'a>(number: usize, raw: Raw<'a>, order: &mut LineOrder) -> DerivedLine<'a> {
    let message: ClineMessage<'a> = raw.parse();
    let is_reply = message.role.get() == Some("assistant");
    let role = match is_reply {
        true => "assistant",
        false => "user",
    };
    let mut human = false;
    let content = match message.content.text() {
        Some(text) => {
            human = true;
            vec![text_block(unwrap(&text))]
        }
        None => {
            let blocks = message.content.list().into_iter();
            let blocks = blocks.filter_map(|raw| {
                let block: Block<'_> = raw.parse();
                if block.kind.get() != Some("text") {
                    return raw.0.map(str::to_owned);
                }
                human = true;
                Some(text_block(unwrap(block.text.or_empty())))
            });
            blocks.collect()
        }
    };
    let mut line = DerivedLine {
        human: human && !is_reply,
        resumes: true,
        time: owned(message.time),
        ..DerivedLine::message(role, content)
    };
    if is_reply {
        line.model = message.model.id.owned();
        line.response = message.id.owned();
    }
    if message.metrics.is_some() {
        let metrics: Metrics<'a> = message.metrics.parse();
        let fault = &mut line.fault;
        let read = count("metrics.cacheReadTokens", metrics.read, fault);
        let written = count("metrics.cacheWriteTokens", metrics.written, fault);
        let input = count("metrics.inputTokens", metrics.input, fault);
        let output = count("metrics.outputTokens", metrics.output, fault);
        let uncached = input.saturating_sub(read).saturating_sub(written);
        line.usage = Some([uncached, read, written, output]);
        line.recorded = owned(metrics.cost);
    }
    order.add(number, message.id.non_empty(), &mut line);
    line
}

/// Returns a prompt without the tag around it.
fn unwrap(text: &str) -> &str {
    let inner = text
        .strip_prefix("<user_input")
        .and_then(|rest| Some(rest.split_once('>')?.1))
        .and_then(|rest| rest.strip_suffix("</user_input>"));
    inner.unwrap_or(text)
}
