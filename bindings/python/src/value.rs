//! Values that cross between Rust and Python as JSON.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict as _, PyAny, PyString};
use serde::Serialize;

use crate::error::{Failure, Result};

/// Converts a row to Python.
pub(crate) fn to_python<T: Serialize + ?Sized>(py: Python<'_>, row: &T) -> Result<Py<PyAny>> {
    parse(py, &to_json(row)?)
}

/// Serialises a row; callers do that without the interpreter lock.
pub(crate) fn to_json<T: Serialize + ?Sized>(row: &T) -> Result<String> {
    serde_json::to_string(row).map_err(|error| Failure::BadInput(error.to_string()))
}

/// Parses JSON with Python's parser.
pub(crate) fn parse(py: Python<'_>, json: &str) -> Result<Py<PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let loads = LOADS.import(py, "json", "loads")?;
    Ok(loads.call1((PyString::new(py, json),))?.unbind())
}

/// Converts a Python value to JSON on one line. Half surrogate pairs, which UTF-8 lacks, are escaped.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> Result<String> {
    static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static ESCAPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let encoded = encoder(value.py(), &ENCODE, false)?.call1((value,))?;
    if let Ok(text) = encoded.cast::<PyString>().map_err(PyErr::from)?.to_str() {
        return Ok(text.to_owned());
    }
    let encoded = encoder(value.py(), &ESCAPE, true)?.call1((value,))?;
    Ok(encoded.extract()?)
}

fn encoder<'py>(
    py: Python<'py>,
    cache: &PyOnceLock<Py<PyAny>>,
    ascii: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let encode = cache.get_or_try_init(py, || {
        let options = [
            (
                "ensure_ascii",
                ascii.into_pyobject(py)?.to_owned().into_any(),
            ),
            ("allow_nan", false.into_pyobject(py)?.to_owned().into_any()),
            ("separators", (",", ":").into_pyobject(py)?.into_any()),
        ];
        let encoder = py.import("json")?.getattr("JSONEncoder")?;
        let encoder = encoder.call((), Some(&options.into_py_dict(py)?))?;
        Ok::<_, PyErr>(encoder.getattr("encode")?.unbind())
    })?;
    Ok(encode.bind(py).clone())
}

/// A time as a text, or a `datetime`. Without a zone, that is local time.
pub(crate) struct Time(pub(crate) String);

impl<'py> FromPyObject<'_, 'py> for Time {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Time(text.to_str()?.to_owned()));
        }
        let zoned = value.call_method0("astimezone")?;
        Ok(Time(zoned.call_method0("isoformat")?.extract()?))
    }
}
