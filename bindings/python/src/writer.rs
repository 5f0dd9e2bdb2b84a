//! The class `Writer`: a session that is open for writing.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use annals::jsonl::Durability;
use annals::model::{Draft, Entry, Todo};
use annals::store::SessionWriter;
use annals::view::EntryJson;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::error::{Failure, Result, refused};
use crate::process::{Owner, detached};
use crate::value::{Time, from_python, parse, to_json, to_python};

/// A session that is open for writing. Threads may share it.
#[pyclass(module = "annals_store", frozen)]
pub(crate) struct Writer {
    /// Id of the session.
    #[pyo3(get)]
    id: String,
    /// Id of the sub-agent; the main agent has none.
    #[pyo3(get)]
    agent: Option<String>,
    /// Path of the log.
    #[pyo3(get)]
    path: String,
    writer: Mutex<Option<Arc<SessionWriter>>>,
    /// Parent of the next entry when the writer was closed.
    closed_leaf: OnceLock<Option<String>>,
    durability: Durability,
    owner: Owner,
}

impl Writer {
    pub(crate) fn new(writer: SessionWriter, durability: Durability) -> Self {
        Writer {
            id: writer.session().to_string(),
            agent: writer.agent().map(|agent| agent.to_string()),
            path: writer.path().display().to_string(),
            writer: Mutex::new(Some(Arc::new(writer))),
            closed_leaf: OnceLock::new(),
            durability,
            owner: Owner::current(),
        }
    }

    fn writer(&self) -> Result<Arc<SessionWriter>> {
        self.owner.check("writer")?;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer
            .clone()
            .ok_or_else(|| refused("the writer is closed"))
    }

    /// Writes without the interpreter lock if that may take long. Getting it back beside a busy thread
    /// takes longer than an append that is not synced.
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&SessionWriter) -> Result<T> + Send,
    ) -> Result<T> {
        let writer = self.writer()?;
        match self.durability {
            Durability::Os => work(&writer),
            Durability::Disk => detached(py, || work(&writer)),
        }
    }

    /// Appends drafts and returns the rows of the entries as JSON, with their number.
    fn append_drafts(&self, py: Python<'_>, drafts: Vec<Draft>) -> Result<(String, usize)> {
        self.write(py, |writer| {
            writer.check_tools(&drafts)?;
            let entries = writer.append_all(drafts)?;
            let written = entries.len();
            Ok((entries_json(writer, entries)?, written))
        })
    }

    fn append_all(&self, py: Python<'_>, drafts: Vec<Draft>) -> Result<Py<PyAny>> {
        let (json, _) = self.append_drafts(py, drafts)?;
        parse(py, &json)
    }

    /// Appends a draft and returns its last entry, which is the parent of the next one.
    fn append_one(&self, py: Python<'_>, drafts: Vec<Draft>) -> Result<Py<PyAny>> {
        let entries = self.append_all(py, drafts)?;
        let entries = entries.bind(py).cast::<PyList>().map_err(PyErr::from)?;
        let last = entries.len().checked_sub(1);
        let last = last.ok_or_else(|| refused("nothing was written"))?;
        Ok(entries.get_item(last)?.unbind())
    }
}

fn leaf_of(writer: &SessionWriter) -> Option<String> {
    writer.leaf().map(|leaf| leaf.to_string())
}

fn entries_json(writer: &SessionWriter, entries: Vec<Entry>) -> Result<String> {
    let session = writer.session();
    let rows = entries.into_iter();
    let rows = rows.map(|entry| EntryJson::for_session(entry, &session));
    to_json(&rows.collect::<Vec<_>>())
}

#[pymethods]
impl Writer {
    /// Parent of the next entry; of a closed writer, the last one.
    #[getter]
    fn leaf(&self) -> Result<Option<String>> {
        if let Some(leaf) = self.closed_leaf.get() {
            return Ok(leaf.clone());
        }
        let writer = self.writer()?;
        Ok(leaf_of(&writer))
    }

    #[pyo3(signature = (*drafts))]
    fn append(&self, py: Python<'_>, drafts: &Bound<'_, PyTuple>) -> Result<Py<PyAny>> {
        let mut parsed = Vec::new();
        for (at, draft) in drafts.iter().enumerate() {
            match draft.cast::<PyString>() {
                Ok(text) => parsed.push(Draft::user(text.to_str()?)),
                Err(_) => parsed.extend(self::drafts(&draft, drafts.len(), at)?),
            }
        }
        self.append_all(py, parsed)
    }

    /// Appends whole records of the layout, as they are.
    #[pyo3(signature = (*records))]
    fn append_raw(&self, py: Python<'_>, records: &Bound<'_, PyTuple>) -> Result<Py<PyAny>> {
        let mut lines = Vec::new();
        for record in records {
            lines.push(match record.cast::<PyBytes>() {
                Ok(bytes) => bytes.as_bytes().to_vec(),
                Err(_) => from_python(&record)?.into_bytes(),
            });
        }
        let json = self.write(py, |writer| {
            let entries = writer.append_raw(lines)?;
            entries_json(writer, entries)
        })?;
        parse(py, &json)
    }

    #[pyo3(signature = (text, *, parent=None, id=None, timestamp=None))]
    fn user(
        &self,
        py: Python<'_>,
        text: &str,
        parent: Option<&str>,
        id: Option<&str>,
        timestamp: Option<Time>,
    ) -> Result<Py<PyAny>> {
        if parent.is_none() && id.is_none() && timestamp.is_none() {
            return self.append_one(py, vec![Draft::user(text)]);
        }
        let draft = PyDict::new(py);
        draft.set_item("role", "user")?;
        draft.set_item("content", text)?;
        place(&draft, parent, id, timestamp)?;
        self.append_one(py, drafts(&draft, 1, 0)?)
    }

    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[pyo3(signature = (content, *, model=None, usage=None, parent=None, id=None, message_id=None, timestamp=None))]
    fn assistant(
        &self,
        py: Python<'_>,
        content: &Bound<'_, PyAny>,
        model: Option<&str>,
        usage: Option<&Bound<'_, PyAny>>,
        parent: Option<&str>,
        id: Option<&str>,
        message_id: Option<&str>,
        timestamp: Option<Time>,
    ) -> Result<Py<PyAny>> {
        let draft = PyDict::new(py);
        draft.set_item("role", "assistant")?;
        draft.set_item("content", content)?;
        draft.set_item("model", model)?;
        draft.set_item("usage", usage)?;
        draft.set_item("message_id", message_id)?;
        place(&draft, parent, id, timestamp)?;
        self.append_all(py, drafts(&draft, 1, 0)?)
    }

    #[pyo3(signature = (call, output, *, is_error=false))]
    fn tool_result(
        &self,
        py: Python<'_>,
        call: &str,
        output: &Bound<'_, PyAny>,
        is_error: bool,
    ) -> Result<Py<PyAny>> {
        let block = PyDict::new(py);
        block.set_item("type", "tool_result")?;
        block.set_item("tool_use_id", call)?;
        block.set_item("content", output)?;
        if is_error {
            block.set_item("is_error", true)?;
        }
        let draft = PyDict::new(py);
        draft.set_item("role", "user")?;
        draft.set_item("content", [block])?;
        self.append_one(py, drafts(&draft, 1, 0)?)
    }

    fn delegate(
        &self,
        py: Python<'_>,
        call: &str,
        kind: &str,
        description: &str,
    ) -> Result<Writer> {
        let delegate = |writer: &SessionWriter| Ok(writer.delegate(call, kind, description)?);
        Ok(Writer::new(self.write(py, delegate)?, self.durability))
    }

    fn set_todos(&self, py: Python<'_>, todos: &Bound<'_, PyAny>) -> Result<()> {
        let todos = PyList::new(py, todos.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
        let json = from_python(&todos)?;
        let todos: Vec<Todo> = serde_json::from_str(&json).map_err(|error| {
            let why = annals::json_error_reason(&error);
            Failure::BadInput(format!("invalid todo: {why}"))
        })?;
        self.write(py, |writer| Ok(writer.set_todos(&todos)?))
    }

    fn retitle(&self, py: Python<'_>, text: &str) -> Result<()> {
        self.write(py, |writer| Ok(writer.retitle(text)?))
    }

    fn tag(&self, py: Python<'_>, text: &str) -> Result<()> {
        self.write(py, |writer| Ok(writer.tag(text)?))
    }

    fn note(&self, py: Python<'_>, text: &str) -> Result<Py<PyAny>> {
        self.append_one(py, vec![Draft::note(text)])
    }

    #[pyo3(signature = (summary, tokens=None))]
    fn compact(&self, py: Python<'_>, summary: &str, tokens: Option<u64>) -> Result<Py<PyAny>> {
        let json = self.write(py, |writer| {
            let entries = writer.compact(summary, tokens)?;
            entries_json(writer, entries)
        })?;
        parse(py, &json)
    }

    fn totals(&self, py: Python<'_>) -> Result<Py<PyAny>> {
        let writer = self.writer()?;
        let totals = detached(py, || writer.totals())?;
        to_python(py, &totals)
    }

    /// Closes the log. Further calls are refused.
    fn close(&self, py: Python<'_>) -> Result<()> {
        let taken = || {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.take()
        };
        match self.owner.check("writer") {
            Ok(()) => detached(py, || {
                if let Some(writer) = taken() {
                    self.closed_leaf.get_or_init(|| leaf_of(&writer));
                }
            }),
            // The session list is the parent's to update.
            Err(_) => std::mem::forget(taken()),
        }
        Ok(())
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, error, trace, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) -> Result<()> {
        let _ = (kind, error, trace);
        self.close(py)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.owner.check("writer").is_err() {
            let writer = self
                .writer
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(writer.take());
        }
    }
}

/// Parses a draft; `at` is its index among `count`.
fn drafts(draft: &Bound<'_, PyAny>, count: usize, at: usize) -> Result<Vec<Draft>> {
    let json = match draft.cast::<PyDict>() {
        Ok(members) => from_python(as_api_draft(&with_text_time(members)?)?.as_any())?,
        Err(_) => from_python(draft)?,
    };
    Draft::from_json(&json).map_err(|bad| {
        let why = bad.text_without_line();
        Failure::BadInput(match count {
            1 => why,
            _ => format!("draft {}: {why}; nothing was written", at + 1),
        })
    })
}

/// Replaces a `datetime` by its text.
fn with_text_time<'py>(draft: &Bound<'py, PyDict>) -> Result<Bound<'py, PyDict>> {
    let time = draft.get_item("timestamp")?;
    let Some(time) = time.filter(|time| time.hasattr("astimezone").unwrap_or(false)) else {
        return Ok(draft.clone());
    };
    let Time(text) = time.extract()?;
    let draft = draft.copy()?;
    draft.set_item("timestamp", text)?;
    Ok(draft)
}

/// Names of counts in rows, and in `usage` of the Messages API.
const COUNTS: [(&str, &str); 3] = [
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cache_read", "cache_read_input_tokens"),
];

/// Spells the counts of a row as the Messages API does.
fn as_api_draft<'py>(draft: &Bound<'py, PyDict>) -> Result<Bound<'py, PyDict>> {
    let py = draft.py();
    let usage = draft.get_item("usage")?;
    let usage = usage.as_ref().and_then(|usage| usage.cast::<PyDict>().ok());
    let Some(usage) = usage.filter(|usage| {
        let names = ["cache_write_5m", "cache_write_1h", "web_searches"];
        let mut names = COUNTS.iter().map(|(row, _)| *row).chain(names);
        names.any(|name| usage.contains(name).unwrap_or(false))
    }) else {
        return Ok(draft.clone());
    };
    let spelled = usage.copy()?;
    let take = |name: &str| -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = spelled.get_item(name)?;
        if value.is_some() {
            spelled.del_item(name)?;
        }
        Ok(value)
    };
    let short = take("cache_write_5m")?;
    let long = take("cache_write_1h")?;
    let searches = take("web_searches")?;
    let counts = COUNTS.map(|(row, api)| (take(row), api));
    for (value, api) in counts {
        if let Some(value) = value? {
            spelled.set_item(api, value)?;
        }
    }
    let count = |value: &Option<Bound<'_, PyAny>>| -> PyResult<u64> {
        value.as_ref().map_or(Ok(0), |value| value.extract())
    };
    let (short, long) = (count(&short)?, count(&long)?);
    if short + long > 0 {
        let parts = PyDict::new(py);
        parts.set_item("ephemeral_5m_input_tokens", short)?;
        parts.set_item("ephemeral_1h_input_tokens", long)?;
        spelled.set_item("cache_creation_input_tokens", short + long)?;
        spelled.set_item("cache_creation", parts)?;
    }
    if count(&searches)? > 0 {
        let tools = PyDict::new(py);
        tools.set_item("web_search_requests", searches)?;
        spelled.set_item("server_tool_use", tools)?;
    }
    let draft = draft.copy()?;
    draft.set_item("usage", spelled)?;
    Ok(draft)
}

fn place(
    draft: &Bound<'_, PyDict>,
    parent: Option<&str>,
    id: Option<&str>,
    timestamp: Option<Time>,
) -> PyResult<()> {
    draft.set_item("parent", parent)?;
    draft.set_item("id", id)?;
    draft.set_item("timestamp", timestamp.map(|Time(text)| text))
}
