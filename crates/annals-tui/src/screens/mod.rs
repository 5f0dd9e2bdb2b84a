//! The screens, one file each: their data, what their keys do, and how they are drawn.

mod check;
mod cost;
mod dialog;
mod diff;
mod files;
mod help;
mod list;
mod live;
mod rows;
mod tree;

pub(crate) use check::CheckScreen;
pub(crate) use cost::CostScreen;
pub(crate) use dialog::{Dialog, Input, Purpose, Question};
pub(crate) use diff::DiffScreen;
pub(crate) use files::FilesScreen;
pub(crate) use help::Help;
pub(crate) use list::{ListScreen, Scope};
pub(crate) use live::LiveScreen;
pub(crate) use rows::Cursor;
pub(crate) use tree::TreeScreen;

pub(crate) use help::footer;
