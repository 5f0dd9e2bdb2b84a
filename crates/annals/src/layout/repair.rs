//! How the lines of a log are mended.
//!
//! A repair decides what must change; a layout knows how its lines say it. Members are spliced in
//! place, so that everything else of a line stays as it is.

use crate::json;
use crate::model::Artifact;

/// What a repair may do to the lines of a layout.
pub trait RepairRules: Sync {
    /// Whether the layout's own program lets other entries hang from such a record.
    fn can_have_children(&self, record: &[u8]) -> bool {
        let _ = record;
        true
    }

    /// Whether the record stands for all that came before it, so that it hangs from nothing else.
    fn starts_conversation(&self, record: &[u8]) -> bool {
        let _ = record;
        false
    }

    /// The record with another parent, or with none; `None` if it cannot be given one.
    fn set_parent(&self, record: &[u8], parent: Option<&str>) -> Option<Vec<u8>> {
        let parent = parent.map_or("null".to_owned(), json::quote);
        json::set_nested_members(record, "annals", &[("parent", &parent)])
    }

    /// The record with another id.
    fn set_id(&self, record: &[u8], id: &str) -> Option<Vec<u8>> {
        json::set_nested_members(record, "annals", &[("id", &json::quote(id))])
    }

    /// Whether the layout's own program shows only one of the entries that have one id.
    fn last_duplicate_wins(&self) -> bool {
        false
    }

    /// What a line that cannot be read still says of its id and of its parent's.
    fn partial_links(&self, line: &[u8]) -> PartialLinks {
        let _ = line;
        PartialLinks::default()
    }

    /// The line that a log must begin with and this one does not. Its first records tell what that
    /// line said.
    fn missing_header(&self, log: &Artifact, records: &[Vec<u8>]) -> Option<Vec<u8>> {
        let _ = (log, records);
        None
    }
}

/// What is left of a record's links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialLinks {
    /// Its id.
    pub id: Option<String>,
    /// Its parent's.
    pub parent: Option<String>,
}

/// Layouts that know no links: those that ours need stand in the member `annals`.
#[derive(Debug)]
pub(super) struct ExtensionRepair;

impl RepairRules for ExtensionRepair {}
