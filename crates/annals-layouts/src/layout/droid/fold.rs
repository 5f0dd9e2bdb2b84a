//! Derives lines from the records of a session, and from the sum of its tokens in a file next to them.

use crate::json::{Flag, Raw, Text, object};
use crate::layout::derived::{
    Counts, DerivedLine, DerivedLog, LineOrder, count, log_lines, owned, split_mark, text_block,
};
use crate::model::{FilePart, FileSetFormat};

/// A session: its log and its settings.
pub(super) static SESSION: FileSetFormat = FileSetFormat {
    name: "droid-session",
    is_whole: true,
    keeps_lines: false,
    parts: |path| match path.extension().is_some_and(|ending| ending == "jsonl") {
        true => vec![path.with_extension("settings.json")],
        false => Vec::new(),
    },
    to_lines,
};

object! {
    struct Line<'a> {
        "type" => kind: Text<'a>,
        "id" => id: Text<'a>,
        "timestamp" => timestamp: Raw<'a>,
        "message" => message: DroidMessage<'a>,
        "title" => title: Text<'a>,
        "isSessionTitleManuallySet" => titled: Flag,
        "cwd" => cwd: Text<'a>,
        "parent" => parent: Text<'a>,
    }
}

object! {
    struct DroidMessage<'a> {
        "role" => role: Text<'a>,
        "content" => content: Raw<'a>,
        "visibility" => visibility: Text<'a>,
        "modelId" => model: Text<'a>,
    }
}

object! {
    struct Block<'a> { "type" => kind: Text<'a>, }
}

object! {
    struct Settings<'a> {
        "model" => model: Text<'a>,
        "tokenUsage" => tokens: Raw<'a>,
    }
}

object! {
    struct Tokens<'a> {
        "inputTokens" => input: Raw<'a>,
        "outputTokens" => output: Raw<'a>,
        "cacheCreationTokens" => written: Raw<'a>,
        "cacheReadTokens" => read: Raw<'a>,
    }
}

fn to_lines(parts: &[FilePart<'_>]) -> Vec<u8> {
    let Some((main, others)) = parts.split_first() else {
        return Vec::new();
    };
    let (mark, bytes) = split_mark(main.bytes);
    let mut log = DerivedLog::new(mark);
    let mut order = LineOrder::default();
    let mut last = Raw::default();
    let mut title = None;
    for (number, (line, text)) in log_lines(bytes).enumerate() {
        let parsed = text.and_then(|text| serde_json::from_str::<Line<'_>>(text).ok());
        if let Some(parsed) = &parsed {
            if parsed.timestamp.is_some() {
                last = parsed.timestamp;
            }
            if parsed.kind.get() == Some("session_start") && title.is_none() {
                let text = parsed.title.non_empty();
                title = text.map(|text| DerivedLine::title(text, parsed.titled.0));
            }
        }
        let derived = parsed.map(|parsed| DerivedLine {
            record: Raw(text),
            ..derive(number, &parsed, &mut order)
        });
        log.add(line, derived.as_ref());
    }
    let file = main.path.file_stem().and_then(|stem| stem.to_str());
    let file = file.unwrap_or_default();
    let usage = others
        .iter()
        .filter_map(|part| usage(part.bytes, file, last));
    for line in title.into_iter().chain(usage) {
        log.add(b"", Some(&line));
    }
    log.into_bytes()
}

fn derive<'a>(number: usize, line: &Line<'a>, order: &mut LineOrder) -> DerivedLine<'a> {
    let mut derived = match line.kind.or_empty() {
        "session_start" => DerivedLine {
            cwd: line.cwd.owned(),
            forked_from: line.parent.owned(),
            ..DerivedLine::new("session_start")
        },
        "message" => {
            let message = &line.message;
            let is_reply = message.role.get() == Some("assistant");
            let mut derived = DerivedLine::message(
                match is_reply {
                    true => "assistant",
                    false => "user",
                },
                blocks(message.content),
            );
            let typed = |raw: Raw<'_>| raw.parse::<Block<'_>>().kind.get() != Some("tool_result");
            let content = message.content.list();
            let has_text = message.content.text().is_some() || content.into_iter().any(typed);
            derived.meta = message.visibility.get() == Some("llm_only");
            derived.human = !is_reply && has_text && !derived.meta;
            derived.model = message.model.owned().filter(|_| is_reply);
            derived.resumes = true;
            order.add(number, line.id.non_empty(), &mut derived);
            derived
        }
        kind => DerivedLine::new(kind),
    };
    derived.time = owned(line.timestamp);
    derived
}

fn blocks(content: Raw<'_>) -> Vec<String> {
    match content.text() {
        Some(text) => vec![text_block(&text)],
        None => content
            .list()
            .into_iter()
            .filter_map(|raw| raw.0.map(str::to_owned))
            .collect(),
    }
}

/// Returns the tokens of a session, as one response at the time of its last record.
fn usage(settings: &[u8], session: &str, time: Raw<'_>) -> Option<DerivedLine<'static>> {
    let settings = std::str::from_utf8(settings).ok()?;
    let settings: Settings<'_> = serde_json::from_str(settings).ok()?;
    let tokens: Tokens<'_> = settings.tokens.parse();
    let mut fault = None;
    let counts = [
        count("tokenUsage.inputTokens", tokens.input, &mut fault),
        count("tokenUsage.cacheReadTokens", tokens.read, &mut fault),
        count("tokenUsage.cacheCreationTokens", tokens.written, &mut fault),
        count("tokenUsage.outputTokens", tokens.output, &mut fault),
    ];
    if counts == Counts::default() && fault.is_none() {
        return None;
    }
    let response = format!("session-{session}");
    Some(DerivedLine {
        time: owned(time),
        fault,
        ..DerivedLine::response(response, settings.model.owned(), counts)
    })
}
