//! Writes sessions in another layout.

use serde::Serialize;

use super::Service;
use crate::convert::{self, ConvertOptions, ConvertSelection};
use crate::error::Result;
use crate::store::Root;

/// Result of a conversion.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Converted {
    /// Number of sessions in the target that were converted or restored, now or earlier.
    pub sessions: usize,
    /// What the target lacks, with reasons. What its layout cannot represent is stored beside the
    /// logs, so that converting back gives the same bytes.
    pub lost: Vec<String>,
}

impl Service {
    /// Writes sessions to a root of another layout; without `sessions`, those of all roots. The
    /// sources are only read.
    pub fn convert(&self, into: &Root, sessions: Option<&[String]>) -> Result<Converted> {
        let inventory = self.inventory();
        let files = match sessions {
            None => inventory.sessions,
            Some(ids) => {
                let found = ids.iter().map(|id| self.find_session(&inventory, id));
                found.collect::<Result<_>>()?
            }
        };
        let archive = self.store.archive().ok();
        let selection = ConvertSelection::Sessions(files);
        let plan = convert::plan(selection, into.clone(), archive.as_ref())?;
        let options = ConvertOptions {
            zone: self.zone.clone(),
            ..ConvertOptions::default()
        };
        let report = convert::run(&plan, &options, &|_, _| ())?;
        let failed = report.failed.iter();
        let failed = failed.map(|(session, why)| format!("{session} was not converted: {why}"));
        let differing = report.differing.iter();
        let differing =
            differing.map(|(session, why)| format!("{session} was left as it is: {why}"));
        Ok(Converted {
            sessions: report.sessions + report.already_converted,
            lost: plan
                .left_out
                .iter()
                .cloned()
                .chain(failed)
                .chain(differing)
                .collect(),
        })
    }
}
