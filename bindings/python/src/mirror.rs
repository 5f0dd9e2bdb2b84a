//! The class `Mirror`: whole lines of a log, as they are.

use std::sync::Arc;

use annals::store::{self, WriteOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;
use crate::process::{Owner, detached};
use crate::store::Shared;
use crate::value::from_python;

/// The log of a session or sub-agent, as whole lines.
#[pyclass(module = "annals_store", frozen)]
pub(crate) struct Mirror {
    shared: Arc<Shared>,
    mirror: store::Mirror,
    owner: Owner,
}

impl Mirror {
    pub(crate) fn new(
        shared: Arc<Shared>,
        project: &str,
        session: &str,
        sub: Option<&str>,
    ) -> Result<Self> {
        let service = shared.service()?;
        let options = WriteOptions::default();
        let mirror = service.store().mirror(project, session, sub, options)?;
        Ok(Mirror {
            shared,
            mirror,
            owner: Owner::current(),
        })
    }
}

#[pymethods]
impl Mirror {
    #[getter]
    fn path(&self) -> String {
        self.mirror.path().display().to_string()
    }

    fn append(&self, py: Python<'_>, lines: &Bound<'_, PyAny>) -> Result<usize> {
        self.owner.check("mirror")?;
        let mut whole: Vec<Vec<u8>> = Vec::new();
        for line in lines.try_iter()? {
            let line = line?;
            whole.push(match line.cast::<PyBytes>() {
                Ok(bytes) => bytes.as_bytes().to_vec(),
                Err(_) => from_python(&line)?.into_bytes(),
            });
        }
        Ok(detached(py, || self.mirror.append(&whole))?)
    }

    fn load(&self, py: Python<'_>) -> Result<Option<Vec<Py<PyBytes>>>> {
        let lines = detached(py, || self.mirror.load())?;
        let bytes = |line: Vec<u8>| PyBytes::new(py, &line).unbind();
        Ok(lines.map(|lines| lines.into_iter().map(bytes).collect()))
    }

    fn subs(&self, py: Python<'_>) -> Result<Vec<String>> {
        Ok(detached(py, || self.mirror.subs())?)
    }

    fn delete(&self, py: Python<'_>) -> Result<()> {
        self.owner.check("mirror")?;
        let delete =
            |service: &annals::service::Service| Ok(self.mirror.delete(service.store())?);
        self.shared.ask(py, delete)
    }
}
