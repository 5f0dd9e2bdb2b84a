//! The catalogue: what was read of files before, so that it need not be read again.
//!
//! It is derived and disposable. Whatever it knows of a file is used only as far as the file is
//! still the same, so every answer is the same without it; deleting it costs time and nothing else.

mod catalogue;
mod database;
mod tab;

pub use catalogue::{Catalogue, Notice, Recent};
