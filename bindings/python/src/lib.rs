//! The extension module of the Python package `annals_store`.
//!
//! Arguments become requests of [`Service`](annals::service::Service), and its rows become JSON that
//! Python parses. The module decides nothing about logs, and reads no environment variable: `os.environ`
//! is read when a store is created.

mod error;
mod follower;
mod mirror;
mod process;
mod request;
mod session;
mod store;
mod value;
mod writer;

/// Native part of the package.
#[pyo3::pymodule(gil_used = false)]
mod _annals {
    #[pymodule_export]
    use crate::follower::Follower;
    #[pymodule_export]
    use crate::mirror::Mirror;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::store::{Root, Store};
    #[pymodule_export]
    use crate::writer::Writer;
}
