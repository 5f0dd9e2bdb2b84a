//! Errors as the Python exception `AnnalsError`.

use annals::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// An error that becomes an exception.
pub(crate) enum Failure {
    /// An error of the library.
    Library(Error),
    /// An error in the arguments.
    BadInput(String),
    /// An exception of Python.
    Python(PyErr),
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Python(error) => error,
            Failure::BadInput(why) => exception(&why, ErrorKind::BadInput, None, &[]),
            Failure::Library(error) => {
                let path = error.path().map(|path| path.display().to_string());
                exception(&error.to_string(), error.kind(), path, error.candidates())
            }
        }
    }
}

fn exception(why: &str, kind: ErrorKind, path: Option<String>, candidates: &[String]) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Python::attach(|py| {
        let class = match CLASS.import(py, "annals_store.types", "AnnalsError") {
            Ok(class) => class,
            Err(error) => return error,
        };
        match class.call1((why, kind.as_str(), path, candidates.to_vec())) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    })
}

pub(crate) fn refused(why: &str) -> Failure {
    Failure::Library(Error::refused(why))
}
