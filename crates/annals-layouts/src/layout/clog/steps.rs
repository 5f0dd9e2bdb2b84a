//! The steps of a message: reasoning, tool calls and tool results.
//!
//! ```text
//! {"stepNumber":1,"reasoning":…,
//!  "toolCalls":[{"toolCallId":…,"toolName":…,"args":…}],
//!  "toolResults":[{"toolCallId":…,"toolName":…,"result":…,"isError":true}]}
//! ```
//!
//! The program stores what its model library returns, so other names of these members are read as
//! well.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Result;
use crate::json::{Flag, Raw, Text, object, quote};
use crate::layout::content;
use crate::model::Block;

object! {
    struct Step<'a> {
        "reasoning" => reasoning: Raw<'a>,
        "toolCalls" => calls: Raw<'a>,
        "toolResults" => results: Raw<'a>,
    }
}
object! {
    struct Call<'a> {
        "id" => id: Text<'a>,
        "toolCallId" => call: Text<'a>,
        "name" => name: Text<'a>,
        "toolName" => tool: Text<'a>,
        "input" => input: Raw<'a>,
        "args" => args: Raw<'a>,
        "arguments" => arguments: Raw<'a>,
    }
}
object! {
    struct Answer<'a> {
        "toolCallId" => call: Text<'a>,
        "id" => id: Text<'a>,
        "result" => result: Raw<'a>,
        "output" => output: Raw<'a>,
        "content" => content: Raw<'a>,
        "error" => error: Raw<'a>,
        "isError" => is_error: Flag,
    }
}

impl Step<'_> {
    /// Returns whether the step has reasoning.
    pub(super) fn has_reasoning(&self) -> bool {
        self.reasoning
            .0
            .is_some_and(|raw| raw.len() > 2 && raw.starts_with('"'))
    }
}

impl<'a> Call<'a> {
    pub(super) fn id(&self) -> &str {
        self.call
            .non_empty()
            .or(self.id.non_empty())
            .unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.tool
            .non_empty()
            .or(self.name.non_empty())
            .unwrap_or_default()
    }

    pub(super) fn input(&self) -> Raw<'a> {
        let given = [self.input, self.args, self.arguments];
        given
            .into_iter()
            .find(|raw| raw.0.is_some())
            .unwrap_or_default()
    }
}

impl Answer<'_> {
    pub(super) fn call(&self) -> &str {
        self.call
            .non_empty()
            .or(self.id.non_empty())
            .unwrap_or_default()
    }

    fn output(&self) -> Vec<Block> {
        let failed = self.error.text().is_some();
        let given = [self.result, self.output, self.content];
        let given = given.into_iter().find(|raw| raw.is_some());
        match given.or(failed.then_some(self.error)) {
            None => Vec::new(),
            Some(raw) if raw.text().is_some() || is_parts(raw) => content::outputs(raw),
            Some(raw) => vec![Block::Text(raw.0.unwrap_or_default().to_owned())],
        }
    }

    fn is_error(&self) -> bool {
        self.is_error.0 || (self.error.is_some() && self.error.0 != Some("false"))
    }
}

object! {
    struct Part<'a> { "type" => kind: Text<'a>, }
}

/// Returns whether a result is a list of message parts, as opposed to any other list.
fn is_parts(raw: Raw<'_>) -> bool {
    let parts = raw.list();
    let is_part = |part: &Raw<'_>| part.parse::<Part<'_>>().kind.non_empty().is_some();
    !parts.is_empty() && parts.iter().all(is_part)
}

/// Returns the steps of a message.
pub(super) fn steps(thoughts: Raw<'_>) -> impl Iterator<Item = Step<'_>> {
    objects(thoughts)
}

impl<'a> Step<'a> {
    /// Returns the step's calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = Call<'a>> + use<'a> {
        objects(self.calls)
    }

    /// Returns the step's tool results.
    pub(super) fn answers(&self) -> impl Iterator<Item = Answer<'a>> + use<'a> {
        objects(self.results)
    }
}

/// Parses the objects of a list.
fn objects<'a, T: Deserialize<'a> + Default>(
    list: Raw<'a>,
) -> impl Iterator<Item = T> + use<'a, T> {
    let is_object = |raw: &Raw<'_>| raw.0.is_some_and(|raw| raw.starts_with('{'));
    let items = list.list().into_iter().filter(is_object);
    items.map(|raw| raw.parse())
}

/// Returns the blocks of a message's reasoning and of its steps, in chronological order.
pub(super) fn blocks(reasoning: &Text<'_>, thoughts: Raw<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut thought = Vec::new();
    for step in steps(thoughts) {
        if let Some(text) = step.reasoning.text().filter(|text| !text.is_empty()) {
            thought.push(text.clone().into_owned());
            blocks.push(thinking(&text));
        }
        blocks.extend(step.calls().map(|call| Block::ToolUse {
            id: call.id().to_owned(),
            name: call.name().to_owned(),
            input: call.input().0.unwrap_or("null").to_owned(),
        }));
        blocks.extend(step.answers().map(|answer| Block::ToolResult {
            call: answer.call().to_owned(),
            output: answer.output(),
            is_error: answer.is_error(),
        }));
    }
    if let Some(text) = reasoning.non_empty() {
        // The program repeats the reasoning of the steps here.
        let repeated = thought.iter().any(|step| step == text) || thought.join("\n\n") == text;
        if !repeated {
            blocks.insert(0, thinking(text));
        }
    }
    blocks
}

fn thinking(text: &str) -> Block {
    Block::Thinking {
        text: text.to_owned(),
        signature: None,
    }
}

/// A step as written.
#[derive(Default, Serialize)]
pub(super) struct StepOut {
    #[serde(rename = "stepNumber")]
    number: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning: String,
    #[serde(rename = "toolCalls")]
    calls: Vec<CallOut>,
    #[serde(rename = "toolResults")]
    results: Vec<AnswerOut>,
}

#[derive(Serialize)]
struct CallOut {
    #[serde(rename = "toolCallId")]
    id: String,
    #[serde(rename = "toolName")]
    name: String,
    args: Box<RawValue>,
}

#[derive(Serialize)]
struct AnswerOut {
    #[serde(rename = "toolCallId")]
    call: String,
    result: Box<RawValue>,
    #[serde(rename = "isError", skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

/// A message's blocks in the layout's own format.
#[derive(Default)]
pub(super) struct MessageOut {
    pub(super) content: String,
    pub(super) reasoning: Option<String>,
    pub(super) thoughts: Vec<StepOut>,
}

/// Encodes blocks in the layout's own format, as far as it can express them.
pub(super) fn encode_blocks(blocks: &[Block]) -> Result<MessageOut> {
    let tools = |block: &Block| matches!(block, Block::ToolUse { .. } | Block::ToolResult { .. });
    let steps = blocks.iter().any(tools);
    let mut said = MessageOut::default();
    let mut texts: Vec<&str> = Vec::new();
    let mut thought: Vec<&str> = Vec::new();
    let mut step = StepOut::default();
    for block in blocks {
        match block {
            Block::Text(text) => texts.push(text),
            Block::Thinking { text, .. } if steps => {
                if !step.is_empty() {
                    said.thoughts.push(std::mem::take(&mut step));
                }
                step.reasoning.clone_from(text);
            }
            Block::Thinking { text, .. } => thought.push(text),
            Block::ToolUse { id, name, input } => {
                if !step.results.is_empty() {
                    said.thoughts.push(std::mem::take(&mut step));
                }
                step.calls.push(CallOut {
                    id: id.clone(),
                    name: name.clone(),
                    args: content::raw(content::one_line(input)?)?,
                });
            }
            Block::ToolResult {
                call,
                output,
                is_error,
            } => step.results.push(AnswerOut {
                call: call.clone(),
                result: content::raw(match output.as_slice() {
                    [] => "null".to_owned(),
                    [Block::Text(text)] => quote(text),
                    parts => quote(&flatten_text(parts)),
                })?,
                is_error: *is_error,
            }),
            Block::Image { .. } | Block::Opaque { .. } => {}
        }
    }
    if !step.is_empty() {
        said.thoughts.push(step);
    }
    for (at, step) in said.thoughts.iter_mut().enumerate() {
        step.number = at + 1;
    }
    said.content = texts.join("\n\n");
    let reasoning = thought.join("\n\n");
    said.reasoning = Some(reasoning).filter(|text| !text.is_empty());
    Ok(said)
}

impl StepOut {
    fn is_empty(&self) -> bool {
        self.reasoning.is_empty() && self.calls.is_empty() && self.results.is_empty()
    }
}

/// Joins a result of several parts to one text.
fn flatten_text(parts: &[Block]) -> String {
    let text = |part: &Block| match part {
        Block::Text(text) => text.clone(),
        Block::Image { media_type, .. } => format!("[{media_type}]"),
        other => format!("[{}]", other.kind()),
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n\n")
}
