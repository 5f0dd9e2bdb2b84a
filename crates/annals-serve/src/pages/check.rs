//! Damage, and the commands that repair it.

use std::sync::Arc;

use annals::text::quoted_command;
use annals_render::size;
use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::{Frame, html};
use crate::app::{App, blocking};
use crate::problem::Problem;

/// Maximum number of files and of findings of a file.
const MAX_FILES: usize = 200;
const MAX_FLAWS: usize = 20;

#[derive(Template)]
#[template(path = "check.html")]
struct Check {
    frame: Frame,
    summary: String,
    files: Vec<File>,
    left_out: usize,
    unreadable: Vec<String>,
}

struct File {
    path: String,
    lines: String,
    flaws: Vec<Found>,
    more: usize,
    command: String,
}

struct Found {
    severity: &'static str,
    place: String,
    what: String,
    /// Advice up to its first command, then each command with the text after it.
    advice_before: &'static str,
    advice: Vec<(&'static str, &'static str)>,
}

pub(super) async fn page(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    blocking(&app, |app, _| {
        let found = app.service.check(None)?.result;
        let damaged: Vec<_> = found
            .reports
            .iter()
            .filter(|report| !report.flaws.is_empty())
            .collect();
        let counts = found.line_counts();
        let file = |report: &&annals::check::FileReport| {
            let path = report.path.display().to_string();
            let fixable = report.flaws.iter().any(|flaw| report.fixable(flaw.kind));
            let flaws = report.flaws.iter().take(MAX_FLAWS).map(|flaw| {
                let (advice_before, advice) = commands(report.advice(flaw.kind));
                Found {
                    severity: flaw.kind.severity().as_str(),
                    place: format!("line {}", flaw.span.line),
                    what: app.line(&format!("{}: {}", flaw.kind.as_str(), flaw.detail)),
                    advice_before,
                    advice,
                }
            });
            File {
                lines: size::pluralize(report.lines, "line"),
                flaws: flaws.collect(),
                more: report.flaws.len().saturating_sub(MAX_FLAWS),
                command: match fixable {
                    true => quoted_command("annals repair", &path, ""),
                    false => String::new(),
                },
                path: app.line(&path),
            }
        };
        html(&Check {
            frame: Frame::new(app, "check", "Check"),
            summary: format!(
                "{} in {}, {} damaged",
                size::pluralize(counts.total, "line"),
                size::pluralize(found.reports.len() as u64, "file"),
                size::pluralize(damaged.len() as u64, "file"),
            ),
            left_out: damaged.len().saturating_sub(MAX_FILES),
            files: damaged.iter().take(MAX_FILES).map(file).collect(),
            unreadable: found.unreadable.iter().map(|text| app.line(text)).collect(),
        })
    })
    .await
}

/// Splits a text at its commands, which stand between backticks.
fn commands(text: &str) -> (&str, Vec<(&str, &str)>) {
    let mut parts = text.split('`');
    let before = parts.next().unwrap_or_default();
    let mut commands = Vec::new();
    while let Some(command) = parts.next() {
        commands.push((command, parts.next().unwrap_or_default()));
    }
    (before, commands)
}
