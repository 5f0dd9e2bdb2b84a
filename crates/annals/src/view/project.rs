//! Projects as JSON.

use std::collections::HashMap;
use std::ffi::OsStr;

use annals_layouts::model::Money;
use serde::Serialize;

use crate::cost::{PriceFn, Tally};
use crate::store::{ProjectInfo, SessionInfo};

/// A project as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProjectJson<'a> {
    #[serde(flatten)]
    project: &'a ProjectInfo,
    cost_usd: Option<Money>,
    unpriced: u64,
}

impl<'a> ProjectJson<'a> {
    /// Converts a project; `cost` is the sum of its sessions.
    pub fn new(project: &'a ProjectInfo, cost: &Tally) -> Self {
        ProjectJson {
            project,
            cost_usd: cost.known_cost(),
            unpriced: cost.unpriced,
        }
    }
}

/// Costs of projects.
#[derive(Debug)]
pub struct ProjectCosts<'a>(HashMap<(&'a OsStr, &'a str), Tally>);

impl<'a> ProjectCosts<'a> {
    /// Sums the costs of sessions by project.
    pub fn new(sessions: &'a [SessionInfo], price: PriceFn<'_>) -> Self {
        // Paths are compared as strings: splitting them into components is slower.
        let mut costs: HashMap<(&OsStr, &str), Tally> = HashMap::new();
        for session in sessions {
            let project = (session.root.as_os_str(), session.project.path.as_str());
            let sum = Tally::from_charges(&session.charges, price);
            costs.entry(project).or_default().merge(&sum);
        }
        ProjectCosts(costs)
    }

    /// Returns the cost of a project.
    pub fn get(&self, project: &ProjectInfo) -> Tally {
        let key = (project.root.as_os_str(), project.path.as_str());
        self.0.get(&key).copied().unwrap_or_default()
    }
}
