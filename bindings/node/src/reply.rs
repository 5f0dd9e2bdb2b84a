//! Answers on their way to JavaScript: JSON text in parts that are parsed one by one.
//!
//! Parsing a long text would block the event loop, so a long answer is one buffer of parts, each
//! followed by a zero byte, which JSON text never contains. The parts are: the answer without its
//! longest array, the name of that array (null if the answer is the array), and arrays of a few
//! elements each. A short answer is one string. `lib/native.cjs` reads both.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use napi::Task;
use napi::bindgen_prelude::{AsyncTask, Buffer, Either6};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Failure, Result};
use crate::session::SessionHandle;
use crate::writer::WriterHandle;

/// Texts up to this size are parsed at once.
const PART_BYTES: usize = 32 << 10;

/// Return value of a call from JavaScript.
pub(crate) type Reply = Either6<(), String, Buffer, WriterHandle, SessionHandle, Vec<Buffer>>;

/// A call that runs on a thread of libuv's pool.
pub struct Job(Option<Box<dyn FnOnce() -> Result<Reply> + Send>>);

impl Job {
    pub(crate) fn spawn(work: impl FnOnce() -> Result<Reply> + Send + 'static) -> AsyncTask<Job> {
        AsyncTask::new(Job(Some(Box::new(work))))
    }
}

impl Task for Job {
    type Output = Reply;
    type JsValue = Reply;

    fn compute(&mut self) -> napi::Result<Reply> {
        let work = self.0.take();
        let work = work.ok_or_else(|| Failure::refused("this call has already run"))?;
        Ok(run(work)?)
    }

    fn resolve(&mut self, _: napi::Env, reply: Reply) -> napi::Result<Reply> {
        Ok(reply)
    }
}

/// Runs a call. A panic must not unwind into Node.
pub(crate) fn run<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Failure::panic()))
}

/// Returns an answer as one JSON text, or in parts if it is long.
pub(crate) fn json(answer: &impl Serialize) -> Result<Reply> {
    let text = serde_json::to_string(answer)?;
    Ok(match text.len() <= PART_BYTES {
        true => Reply::B(text),
        false => Reply::C(split(text)?.into()),
    })
}

/// Returns rows as one JSON text, or in parts if it is long.
pub(crate) fn rows<T: Serialize>(rows: &[T]) -> Result<Reply> {
    let mut parts = Parts::begin(&[(); 0], None)?;
    for row in rows {
        parts.push(row)?;
    }
    Ok(match parts.short_text() {
        Some(text) => Reply::B(text),
        None => Reply::C(parts.finish().into()),
    })
}

/// Splits a JSON text at its longest array: itself, or a member.
fn split(text: String) -> Result<Vec<u8>> {
    let mut members: BTreeMap<String, &RawValue> = match text.starts_with('{') {
        true => serde_json::from_str(&text)?,
        false => BTreeMap::new(),
    };
    let arrays = members
        .iter()
        .filter(|(_, json)| json.get().starts_with('['));
    let longest = arrays.max_by_key(|(_, json)| json.get().len());
    let longest = longest.map(|(name, json)| (name.clone(), json.get()));
    let Some((name, array)) = longest else {
        return Ok(text.into_bytes());
    };
    members.remove(&name);
    let mut parts = Parts::begin(&members, Some(&name))?;
    for element in serde_json::from_str::<Vec<&RawValue>>(array)? {
        parts.push(&element)?;
    }
    Ok(parts.finish())
}

/// A long answer, as it is written.
struct Parts {
    bytes: Vec<u8>,
    /// Start of the current part.
    part: usize,
    /// Start of the first part.
    first: usize,
}

impl Parts {
    /// Begins with the rest of the answer and the name of the array.
    fn begin(rest: &impl Serialize, name: Option<&str>) -> Result<Self> {
        let mut bytes = serde_json::to_vec(rest)?;
        bytes.push(0);
        serde_json::to_writer(&mut bytes, &name)?;
        bytes.push(0);
        Ok(Parts {
            part: bytes.len(),
            first: bytes.len(),
            bytes,
        })
    }

    /// Adds an element.
    fn push(&mut self, element: &impl Serialize) -> Result<()> {
        self.bytes.push(match self.bytes.len() == self.part {
            true => b'[',
            false => b',',
        });
        serde_json::to_writer(&mut self.bytes, element)?;
        if self.bytes.len() - self.part > PART_BYTES {
            self.end_part();
        }
        Ok(())
    }

    fn end_part(&mut self) {
        if self.bytes.len() > self.part {
            self.bytes.extend_from_slice(b"]\0");
            self.part = self.bytes.len();
        }
    }

    /// Returns the array if it is short.
    fn short_text(&self) -> Option<String> {
        if self.part > self.first {
            return None;
        }
        let elements = self.bytes.get(self.first..)?;
        let text = std::str::from_utf8(elements).ok()?;
        Some(match text {
            "" => "[]".to_owned(),
            text => format!("{text}]"),
        })
    }

    fn finish(mut self) -> Vec<u8> {
        self.end_part();
        self.bytes
    }
}
