//! Retention policy: how long sessions are kept.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;

use crate::store::keep_cutoff;
use crate::time_input::Now;

use super::Term;

/// Retention period, with exceptions for projects and layouts.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Term of sessions without a more specific one; `None` keeps them.
    pub default: Option<Term>,
    /// Terms by layout.
    pub layouts: BTreeMap<String, Term>,
    /// Terms by directory, including directories below it.
    pub projects: BTreeMap<String, Term>,
    /// Number of newest sessions of each project that are kept regardless of age.
    pub keep_last: usize,
    /// If the session's own program deletes sessions after some days, use that term instead of all
    /// others.
    pub program_terms: bool,
}

/// The part of a policy that applies to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The default term.
    Default,
    /// The term of its layout.
    Layout,
    /// The term of its own program.
    Program,
    /// The term of this directory.
    Project(String),
}

impl Policy {
    /// Creates a policy with one term for all sessions.
    pub fn new(term: Term) -> Self {
        Policy {
            default: Some(term),
            ..Policy::default()
        }
    }

    /// Returns whether the policy has no terms.
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.layouts.is_empty() && self.projects.is_empty()
    }

    /// Replaces all terms except `never` by `term`: a term given for one run does not override what
    /// is kept forever.
    pub fn with_term(mut self, term: Term) -> Self {
        let never = |_: &String, term: &mut Term| matches!(term, Term::Never);
        self.layouts.retain(never);
        self.projects.retain(never);
        self.default = Some(term);
        self
    }

    /// Returns the time before which a session has expired, with the term and the rule that apply;
    /// `None` keeps the session. `keep_days` is the term of its own program.
    pub(super) fn cutoff(
        &self,
        layout: &str,
        project: &str,
        keep_days: Option<u64>,
        now: &Now,
    ) -> Option<(Timestamp, String, Rule)> {
        if let Some(days) = keep_days.filter(|_| self.program_terms) {
            let cutoff = keep_cutoff(days, now.time)?;
            return Some((cutoff, format!("{days}d"), Rule::Program));
        }
        let (term, rule) = self.term(layout, project)?;
        Some((term.cutoff(now)?, term.to_string(), rule))
    }

    /// Returns the term of a session and its rule: that of the nearest directory, else of its
    /// layout, else the default. `None` keeps the session.
    pub(crate) fn term(&self, layout: &str, project: &str) -> Option<(&Term, Rule)> {
        let project = Path::new(project);
        let around = self.projects.iter();
        let around = around.filter(|(dir, _)| project.starts_with(dir));
        let nearest = around.max_by_key(|(dir, _)| Path::new(dir).components().count());
        if let Some((dir, term)) = nearest {
            return Some((term, Rule::Project(dir.clone())));
        }
        if let Some(term) = self.layouts.get(layout) {
            return Some((term, Rule::Layout));
        }
        let term = self.default.as_ref()?;
        Some((term, Rule::Default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        let term = |text: &str| Term::parse(text).unwrap();
        Policy {
            default: Some(term("90d")),
            layouts: [("chorus".to_owned(), term("1y"))].into(),
            projects: [
                ("/home/me/app".to_owned(), term("never")),
                ("/home/me/app/tmp".to_owned(), term("1d")),
                ("/home/me/old".to_owned(), term("2d")),
            ]
            .into(),
            keep_last: 0,
            program_terms: false,
        }
    }

    fn term_text(policy: &Policy, layout: &str, project: &str) -> String {
        let found = policy.term(layout, project);
        found.map_or("kept".to_owned(), |(term, _)| term.to_string())
    }

    #[test]
    fn nearest_rule_applies() {
        let policy = policy();
        for (layout, project, term) in [
            ("claude-code", "/srv", "90d"),
            ("chorus", "/srv", "1y"),
            ("chorus", "/home/me/app", "never"),
            ("chorus", "/home/me/app/src", "never"),
            ("clog", "/home/me/app/tmp/x", "1d"),
            // A directory whose name starts the same is a different one.
            ("clog", "/home/me/apple", "90d"),
        ] {
            assert_eq!(
                term_text(&policy, layout, project),
                term,
                "{layout} {project}"
            );
        }
        assert!(Policy::default().is_empty());
        let (default, layouts, projects) = (policy.default, policy.layouts, policy.projects);
        let none = Policy::default;
        for one in [
            Policy { default, ..none() },
            Policy { layouts, ..none() },
            Policy { projects, ..none() },
        ] {
            assert!(!one.is_empty(), "{one:?}");
        }
        assert_eq!(term_text(&Policy::default(), "clog", "/x"), "kept");
    }

    #[test]
    fn with_term_leaves_sessions_that_never_expire() {
        let policy = policy().with_term(Term::parse("30d").unwrap());
        for (layout, project, term) in [
            ("chorus", "/srv", "30d"),
            ("clog", "/home/me/old", "30d"),
            ("clog", "/home/me/app/src", "never"),
            // A shorter term inside a directory kept forever was only an exception.
            ("clog", "/home/me/app/tmp", "never"),
        ] {
            assert_eq!(
                term_text(&policy, layout, project),
                term,
                "{layout} {project}"
            );
        }
    }
}
