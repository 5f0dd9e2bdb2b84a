//! Rules for repairing the lines of a log.
//!
//! A repair decides what must change; the layout encodes it. Members are spliced in place, so that
//! the rest of a line keeps its bytes.

use crate::json;
use crate::model::Artifact;

/// Repair operations on the lines of a layout.
pub trait RepairRules: Sync {
    /// Returns whether the layout's program accepts such a record as a parent.
    fn can_have_children(&self, record: &[u8]) -> bool {
        let _ = record;
        true
    }

    /// Returns whether the record replaces everything before it, so that it must not be attached to
    /// another parent.
    fn starts_conversation(&self, record: &[u8]) -> bool {
        let _ = record;
        false
    }

    /// Returns the record with another parent, or with none; `None` if that is impossible.
    fn set_parent(&self, record: &[u8], parent: Option<&str>) -> Option<Vec<u8>> {
        let parent = parent.map_or("null".to_owned(), json::quote);
        json::set_nested_members(record, "annals", &[("parent", &parent)])
    }

    /// Returns the record with another id.
    fn set_id(&self, record: &[u8], id: &str) -> Option<Vec<u8>> {
        json::set_nested_members(record, "annals", &[("id", &json::quote(id))])
    }

    /// Returns whether the layout's program shows only the last of several entries with the same
    /// id.
    fn last_duplicate_wins(&self) -> bool {
        false
    }

    /// Extracts the id and the parent's id from a line that cannot be parsed.
    fn partial_links(&self, line: &[u8]) -> PartialLinks {
        let _ = line;
        PartialLinks::default()
    }

    /// Returns the header line that a log must begin with, if it is missing. It is reconstructed
    /// from the first records.
    fn missing_header(&self, log: &Artifact, records: &[Vec<u8>]) -> Option<Vec<u8>> {
        let _ = (log, records);
        None
    }
}

/// Links recovered from a damaged record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialLinks {
    /// The record's id.
    pub id: Option<String>,
    /// The parent's id.
    pub parent: Option<String>,
}

/// Rules for layouts without links, where annals stores links in the member `annals`.
#[derive(Debug)]
pub(super) struct ExtensionRepair;

impl RepairRules for ExtensionRepair {}
