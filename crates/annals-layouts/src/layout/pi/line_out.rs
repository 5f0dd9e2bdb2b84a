//! The lines that annals writes.

use serde::Serialize;
use serde_json::value::RawValue;

use super::decode::CUSTOM_TYPE;
use crate::layout::extension::ExtensionOut;

/// The first line.
#[derive(Serialize)]
pub(super) struct HeaderOut<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) version: u64,
    pub(super) id: &'a str,
    pub(super) timestamp: String,
    pub(super) cwd: &'a str,
    #[serde(rename = "parentSession", skip_serializing_if = "Option::is_none")]
    pub(super) forked_from: Option<String>,
    pub(super) annals: ExtensionOut<'a>,
}

/// Any other line.
#[derive(Serialize)]
pub(super) struct LineOut<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) id: &'a str,
    #[serde(rename = "parentId")]
    pub(super) parent: Option<&'a str>,
    pub(super) timestamp: String,
    #[serde(flatten)]
    pub(super) content: ContentOut<'a>,
    pub(super) annals: ExtensionOut<'a>,
}

#[derive(Default, Serialize)]
pub(super) struct ContentOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(rename = "targetId", skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<&'a str>,
    #[serde(rename = "customType", skip_serializing_if = "Option::is_none")]
    pub(super) custom_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<&'a str>,
    #[serde(rename = "firstKeptEntryId", skip_serializing_if = "Option::is_none")]
    pub(super) first_kept: Option<&'a str>,
    #[serde(rename = "tokensBefore", skip_serializing_if = "Option::is_none")]
    pub(super) tokens_before: Option<u64>,
}

impl ContentOut<'_> {
    /// Content that the program does not send.
    pub(super) fn custom() -> Self {
        ContentOut {
            custom_type: Some(CUSTOM_TYPE),
            ..ContentOut::default()
        }
    }
}
