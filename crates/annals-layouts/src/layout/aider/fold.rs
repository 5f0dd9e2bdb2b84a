//! Derives lines from the Markdown of a directory.

use crate::json::quote;
use crate::layout::derived::{Counts, DerivedLine, split_mark, text_block};
use crate::model::DocumentFormat;

/// The conversations.
pub(super) static CHAT: DocumentFormat = DocumentFormat {
    name: "aider-chat",
    keeps_lines: false,
    base_session: None,
    to_lines: chat_lines,
};

/// The typed prompts.
pub(super) static INPUT: DocumentFormat = DocumentFormat {
    name: "aider-input",
    keeps_lines: false,
    base_session: None,
    to_lines: input_lines,
};

/// Beginning of a run.
const STARTED: &str = "# aider chat started at ";

/// Beginning of a line of a prompt.
const PROMPT: &str = "#### ";

/// Kind of a group of lines.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Prompt,
    Notice,
    Answer,
}

fn chat_lines(bytes: &[u8]) -> Vec<u8> {
    let (_, bytes) = split_mark(bytes);
    let text = String::from_utf8_lossy(bytes);
    let mut fold = Fold::default();
    for line in text.split_inclusive('\n') {
        // The beginning of a run or of a prompt is torn.
        let is_torn = !line.ends_with('\n') && line.starts_with('#') && !line.starts_with(PROMPT);
        if !is_torn {
            fold.line(line.trim_end_matches(['\n', '\r']));
        }
    }
    fold.flush();
    let mut out = Vec::new();
    for line in &fold.lines {
        line.write(&mut out);
        out.push(b'\n');
    }
    out
}

/// State while lines are read.
#[derive(Default)]
struct Fold {
    lines: Vec<DerivedLine<'static>>,
    session: Option<String>,
    /// JSON of the time at which the run began.
    time: Option<String>,
    model: Option<String>,
    /// Number of entries of the run.
    entries: usize,
    last: Option<String>,
    /// The newest answer.
    answer: Option<usize>,
    part: Option<Part>,
    text: Vec<String>,
    /// Whether the line before was blank.
    after_blank: bool,
}

impl Fold {
    fn line(&mut self, line: &str) {
        if let Some(time) = line.strip_prefix(STARTED) {
            self.flush();
            return self.run(time.trim());
        }
        let marked = match line {
            "####" => Some((Part::Prompt, "")),
            _ => line
                .strip_prefix(PROMPT)
                .map(|rest| (Part::Prompt, rest))
                .or_else(|| Some((Part::Notice, line.strip_prefix('>')?))),
        };
        // Within an answer, a marked line without a blank one before it is part of the answer.
        let within = self.part == Some(Part::Answer) && !self.after_blank;
        let (part, text) = match marked.filter(|_| !within) {
            Some((part, text)) => (part, text.trim()),
            None => (Part::Answer, line),
        };
        self.after_blank = line.trim().is_empty();
        if self.after_blank && part == Part::Answer {
            match self.part {
                Some(Part::Answer) => self.text.push(String::new()),
                _ => self.flush(),
            }
            return;
        }
        if self.part != Some(part) {
            self.flush();
            self.part = Some(part);
        }
        self.text.push(text.to_owned());
    }

    fn run(&mut self, time: &str) {
        let plain = |letter: char| letter.is_ascii_digit();
        let digits: Vec<&str> = time.split(|letter| !plain(letter)).collect();
        let mut session = format!("aider-{}", digits.join("-"));
        let is_known = |name: &str| {
            let mut lines = self.lines.iter();
            lines.any(|line| line.session.as_deref() == Some(name))
        };
        // Two runs may begin in the same second.
        let mut number = 2;
        while is_known(&session) {
            session = format!("aider-{}-{number}", digits.join("-"));
            number += 1;
        }
        self.session = Some(session);
        self.model = None;
        self.entries = 0;
        self.last = None;
        self.answer = None;
        self.time = Some(json_time(time));
        let line = self.new_line(DerivedLine::new("started"));
        self.lines.push(line);
    }

    fn new_line(&self, line: DerivedLine<'static>) -> DerivedLine<'static> {
        DerivedLine {
            session: self.session.clone(),
            time: self.time.clone(),
            ..line
        }
    }

    /// Adds the entry of the lines since the last one.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text).join("\n");
        let text = text.trim();
        let Some(part) = self.part.take().filter(|_| !text.is_empty()) else {
            return;
        };
        if self.session.is_none() {
            // Text before the first run.
            self.lines.push(DerivedLine::new("text"));
            return;
        }
        let line = match part {
            Part::Prompt => DerivedLine {
                human: true,
                ..DerivedLine::message("user", vec![text_block(text)])
            },
            Part::Answer => DerivedLine {
                model: self.model.clone(),
                ..DerivedLine::message("assistant", vec![text_block(text)])
            },
            Part::Notice => {
                self.notice(text);
                DerivedLine {
                    label: Some("aider".to_owned()),
                    text: Some(text.to_owned()),
                    ..DerivedLine::new("notice")
                }
            }
        };
        let mut line = self.new_line(line);
        self.entries += 1;
        let session = line.session.clone().unwrap_or_default();
        let id = format!("{session}-{}", self.entries);
        line.resumes = line.kind == "message";
        line.parent = self.last.replace(id.clone());
        line.id = Some(id);
        match part {
            Part::Answer => self.answer = Some(self.lines.len()),
            Part::Prompt => self.answer = None,
            Part::Notice => {}
        }
        self.lines.push(line);
    }

    /// Reads the model, and the tokens of the answer before.
    fn notice(&mut self, text: &str) {
        for line in text.lines() {
            if let Some(model) = line
                .strip_prefix("Model: ")
                .or(line.strip_prefix("Main model: "))
            {
                let name = model.split(" with ").next().unwrap_or(model).trim();
                self.model = Some(name.to_owned());
            }
            let Some((counts, cost)) = tokens(line) else {
                continue;
            };
            let answer = self.answer.take();
            if let Some(answer) = answer.and_then(|at| self.lines.get_mut(at)) {
                answer.response.clone_from(&answer.id);
                answer.usage = Some(counts);
                answer.recorded = cost;
            }
        }
    }
}

/// Returns the tokens that a line reports, and the cost of the message.
fn tokens(line: &str) -> Option<(Counts, Option<String>)> {
    let (tokens, cost) = match line.split_once(". Cost: ") {
        Some((tokens, cost)) => (tokens, Some(cost)),
        None => (line, None),
    };
    let tokens = tokens.strip_prefix("Tokens: ")?.trim_end_matches('.');
    let mut counts = Counts::default();
    for part in tokens.split(", ") {
        let (number, what) = part.split_once(' ')?;
        let count = rounded(number)?;
        match what {
            "sent" => counts[0] = count,
            "cache hit" => counts[1] = count,
            "cache write" => counts[2] = count,
            "received" => counts[3] = count,
            _ => return None,
        }
    }
    // `$0.0012 message, $0.0034 session.`
    let cost = cost.and_then(|cost| cost.strip_prefix('$')?.split_once(" message"));
    Some((counts, cost.map(|(dollars, _)| dollars.to_owned())))
}

/// Returns a number such as `18`, `2.6k` or `1.2M`.
fn rounded(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000.0),
        Some(digits) => (digits, 1_000_000.0),
        None => (text, 1.0),
    };
    let number: f64 = digits.replace(',', "").parse().ok()?;
    (0.0..1e12)
        .contains(&number)
        .then(|| (number * unit).round() as u64)
}

/// Returns the typed prompts. Each is a line `# <time>`, and lines of its text that begin with `+`.
fn input_lines(bytes: &[u8]) -> Vec<u8> {
    let (_, bytes) = split_mark(bytes);
    let text = String::from_utf8_lossy(bytes);
    let mut prompts: Vec<(String, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix('+'), line.strip_prefix("# ")) {
            (Some(typed), _) => {
                if let Some((_, lines)) = prompts.last_mut() {
                    lines.push(typed);
                }
            }
            (_, Some(time)) => prompts.push((json_time(time), Vec::new())),
            _ => {}
        }
    }
    // A prompt of the command line is written twice.
    let second = |time: &str| time.split('.').next().map(str::to_owned);
    prompts.dedup_by(|next, before| next.1 == before.1 && second(&next.0) == second(&before.0));
    let mut out = Vec::new();
    for (time, lines) in prompts {
        let line = DerivedLine {
            time: Some(time),
            text: Some(lines.join("\n")),
            ..DerivedLine::new("typed")
        };
        line.write(&mut out);
        out.push(b'\n');
    }
    out
}

/// Returns a local time as JSON. The zone is unknown and taken as UTC.
fn json_time(time: &str) -> String {
    quote(&(time.trim().replacen(' ', "T", 1) + "Z"))
}
