//! The overview: what happens now, activity, cost, what expires, damage.

use std::collections::BTreeMap;
use std::sync::Arc;

use annals::service::{SessionRow, SessionsRequest};
use annals_render::size;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};

use super::{Frame, ListedSession, cost_text, html, is_live};
use crate::app::{App, blocking};
use crate::problem::Problem;

/// Number of recent sessions shown.
const RECENT: usize = 8;

/// Days before the deletion of a session in which it is shown.
const EXPIRY_DAYS: i64 = 7;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    counts: Vec<(String, &'static str, &'static str)>,
    live: Vec<ListedSession>,
    recent: Vec<ListedSession>,
    activity: Vec<Day>,
    first_day: String,
    week: String,
    month: String,
    expiring: Vec<ListedSession>,
    damaged: Vec<ListedSession>,
    roots: Vec<String>,
}

/// A bar of the activity.
struct Day {
    name: String,
    messages: u64,
    x: usize,
    y: u64,
    height: u64,
}

/// Number of days of the activity.
const DAYS: i64 = 42;

/// Height of the tallest bar.
const BAR: u64 = 56;

pub(super) async fn page(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    blocking(&app, |app, _| {
        let clock = app.clock();
        let inventory = app.service.inventory();
        let all = app
            .service
            .sessions_in(&inventory, &SessionsRequest::default())?
            .rows;
        let places = app.places(&inventory);
        let listed = |rows: Vec<&SessionRow>| -> Vec<ListedSession> {
            let rows = rows.into_iter();
            rows.map(|row| ListedSession::new(app, row, places.address(&row.info), &clock))
                .collect()
        };
        let days_ago = |days: i64| {
            let span = SignedDuration::from_hours(days * 24);
            clock.now.checked_sub(span).unwrap_or(Timestamp::MIN)
        };
        let totals = app.service.totals_since(&[days_ago(7), days_ago(30)]);
        let cost = |at: usize| match totals.get(at).map(cost_text) {
            Some(text) if !text.is_empty() => text,
            _ => "$0.00".to_owned(),
        };
        let soon = clock
            .now
            .checked_add(SignedDuration::from_hours(EXPIRY_DAYS * 24));
        let expires_soon = |row: &&SessionRow| {
            let expires = row.info.expires.zip(soon.as_ref().ok());
            expires.is_some_and(|(time, soon)| time > clock.now && time <= *soon)
        };
        let live = all
            .iter()
            .filter(|row| !row.info.archived && is_live(row.info.updated, &clock));
        let mut activity: BTreeMap<jiff::civil::Date, u64> = BTreeMap::new();
        for row in &all {
            for (day, messages) in &row.info.messages_by_day {
                *activity.entry(*day).or_default() += messages;
            }
        }
        let messages: u64 = all.iter().map(|row| row.info.messages).sum();
        let mut projects: Vec<&str> = all
            .iter()
            .map(|row| row.info.project.path.as_str())
            .collect();
        projects.sort_unstable();
        projects.dedup();
        let agents: usize = all.iter().map(|row| row.info.agents).sum();
        let roots = app.service.store().roots().iter();
        let today = clock.now.to_zoned(clock.zone.clone()).date();
        let activity = days(&activity, today);
        html(&Overview {
            counts: vec![
                (size::count(all.len() as u64), "sessions", "/sessions"),
                (size::count(projects.len() as u64), "projects", "/projects"),
                (size::compact(messages), "messages", "/search"),
                (size::count(agents as u64), "sub-agents", "/sessions"),
            ],
            live: listed(live.collect()),
            recent: listed(all.iter().take(RECENT).collect()),
            first_day: activity
                .first()
                .map(|day| day.name.clone())
                .unwrap_or_default(),
            activity,
            week: cost(0),
            month: cost(1),
            expiring: listed(all.iter().filter(expires_soon).take(RECENT).collect()),
            damaged: listed(
                all.iter()
                    .filter(|row| row.info.flaw_counts().errors > 0)
                    .take(RECENT)
                    .collect(),
            ),
            roots: roots
                .map(|root| {
                    format!(
                        "{}: {}",
                        root.layout.name(),
                        app.line(&root.path.display().to_string())
                    )
                })
                .collect(),
            frame: Frame::new(app, "overview", "Overview"),
        })
    })
    .await
}

/// Returns a bar for each of the last days.
fn days(activity: &BTreeMap<jiff::civil::Date, u64>, today: jiff::civil::Date) -> Vec<Day> {
    let dates = (0..DAYS).rev().filter_map(|back| {
        let span = jiff::Span::new().days(back);
        today.checked_sub(span).ok()
    });
    let dates: Vec<jiff::civil::Date> = dates.collect();
    let messages = |date: &jiff::civil::Date| activity.get(date).copied().unwrap_or(0);
    let most = dates.iter().map(messages).max().unwrap_or(0).max(1);
    let dates = dates.iter().enumerate();
    dates
        .map(|(at, date)| {
            let count = messages(date);
            let height = (count * BAR).div_ceil(most).max(2);
            Day {
                name: date.strftime("%-d %b").to_string(),
                messages: count,
                x: at * 10,
                y: BAR - height,
                height,
            }
        })
        .collect()
}
