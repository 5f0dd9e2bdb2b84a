//! Tests of reports over generated ledgers.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::Account;
use annals_layouts::model::{Project, SessionId};

fn account(session: &str, project: &str) -> Account {
    Account {
        layout: "claude-code",
        root: "/root".into(),
        session: SessionId::new(session).unwrap(),
        file: format!("/root/{session}.jsonl").into(),
        project: Project {
            path: project.to_owned(),
            guessed: false,
        },
        other_directories: Vec::new(),
        aliases: Vec::new(),
        started: None,
    }
}

fn charge(account: usize, time: &str, model: &str, output: u64) -> Charge {
    let mut charge = Charge::new(account);
    charge.time = time.parse().ok();
    charge.source_mut().model = Some(model.into());
    charge.usage.output = output;
    charge
}

/// Returns a price of $1 per token; `odd` has no price.
fn price(charge: &Charge) -> Option<Money> {
    let known = charge.source.model.as_deref() != Some("odd");
    known.then(|| Money::from_pico(1_000_000_000_000) * charge.usage.output)
}

fn ledger() -> Ledger {
    let accounts = vec![account("one", "/home/a"), account("two", "/home/b")];
    let charges = vec![
        charge(0, "2026-11-14T23:30:00Z", "haiku", 5),
        charge(0, "2026-11-15T10:00:00Z", "opus", 50),
        charge(1, "2026-11-15T10:30:00Z", "haiku", 7),
        charge(1, "2026-11-16T10:30:00Z", "odd", 1000),
        charge(1, "never", "haiku", 1),
    ];
    Ledger::new(accounts, charges)
}

fn shape(report: &CostReport) -> Vec<(String, u64, Option<String>)> {
    let row = |row: &ReportRow| {
        let cost = row.tally.priced().map(|cost| cost.to_string());
        (row.key(), row.tally.usage.output, cost)
    };
    report.rows.iter().map(row).collect()
}

fn rows(by: &[Dimension], options: &ReportOptions<'_>) -> Vec<(String, u64, Option<String>)> {
    shape(&CostReport::new(&ledger(), by, options))
}

fn expected(rows: &[(&str, u64, Option<&str>)]) -> Vec<(String, u64, Option<String>)> {
    let rows = rows.iter();
    rows.map(|(key, output, cost)| ((*key).to_owned(), *output, cost.map(str::to_owned)))
        .collect()
}

#[test]
fn days_follow_requested_time_zone() {
    let options = ReportOptions::new(TimeZone::UTC, &price);
    assert_eq!(
        rows(&[Dimension::Day], &options),
        expected(&[
            ("2026-11-14", 5, Some("5")),
            ("2026-11-15", 57, Some("57")),
            ("2026-11-16", 1000, None),
            ("undated", 1, Some("1")),
        ])
    );
    let options = ReportOptions::new(TimeZone::get("Europe/Berlin").unwrap(), &price);
    assert_eq!(
        rows(&[Dimension::Day], &options),
        expected(&[
            ("2026-11-15", 62, Some("62")),
            ("2026-11-16", 1000, None),
            ("undated", 1, Some("1")),
        ])
    );
}

#[test]
fn several_dimensions_give_one_row_per_combination() {
    let options = ReportOptions::new(TimeZone::UTC, &price);
    assert_eq!(
        rows(&[Dimension::Project, Dimension::Model], &options),
        expected(&[
            ("/home/a · opus", 50, Some("50")),
            ("/home/b · haiku", 8, Some("8")),
            ("/home/a · haiku", 5, Some("5")),
            ("/home/b · odd", 1000, None),
        ])
    );
    assert_eq!(rows(&[], &options).len(), 1);
}

#[test]
fn top_keeps_largest_rows_in_order_and_sums_the_rest() {
    let mut options = ReportOptions::new(TimeZone::UTC, &price);
    options.top = Some(2);
    let report = CostReport::new(&ledger(), &[Dimension::Day], &options);
    let days: Vec<String> = report.rows.iter().map(ReportRow::key).collect();
    assert_eq!(days, ["2026-11-14", "2026-11-15"]);
    let (left, rest) = report.left_out.unwrap();
    assert_eq!((left, rest.usage.output, rest.unpriced), (2, 1001, 1));
    options.sort = Some(Sort::Tokens);
    options.reverse = true;
    let report = CostReport::new(&ledger(), &[Dimension::Day], &options);
    let days: Vec<String> = report.rows.iter().map(ReportRow::key).collect();
    assert_eq!(days, ["2026-11-15", "2026-11-16"]);
}

#[test]
fn top_keeps_first_names_among_equal_models() {
    let name = |number: u32| format!("model-{:05}", number * 7 % 10_000);
    let charges = (0..10_000).map(|number| charge(0, "2026-11-15T10:00:00Z", &name(number), 1));
    let ledger = Ledger::new(vec![account("one", "/home/a")], charges.collect());
    let unpriced = |_: &Charge| None;
    let mut options = ReportOptions::new(TimeZone::UTC, &unpriced);
    options.top = Some(2);
    for by in [Dimension::Model, Dimension::Day] {
        let report = CostReport::new(&ledger, &[by], &options);
        assert_eq!(
            (report.total.requests, report.unpriced.len()),
            (10_000, 10_000)
        );
        let first = &report.unpriced[0];
        assert_eq!(
            (first.model.as_deref(), first.tokens),
            (Some("model-00000"), 1)
        );
        match by {
            Dimension::Model => {
                let keys: Vec<String> = report.rows.iter().map(ReportRow::key).collect();
                assert_eq!(keys, ["model-00000", "model-00001"]);
                assert_eq!(
                    report.left_out.map(|(rows, rest)| (rows, rest.requests)),
                    Some((9_998, 9_998))
                );
            }
            _ => assert_eq!(report.rows[0].models.len(), 10_000),
        }
    }
}

#[test]
fn time_range_includes_its_ends_and_excludes_undated() {
    let mut options = ReportOptions::new(TimeZone::UTC, &price);
    options.since = "2026-11-15T10:00:00Z".parse().ok();
    options.until = "2026-11-15T10:30:00Z".parse().ok();
    let keep = |charge: &Charge| charge.account == 0;
    let all = CostReport::new(&ledger(), &[], &options);
    assert_eq!(all.total.usage.output, 57);
    options.filter = Some(&keep);
    let some = CostReport::new(&ledger(), &[], &options);
    assert_eq!(some.total.usage.output, 50);
    assert_eq!(some.first, options.since);
}

#[test]
fn block_start_counts_responses_outside_the_filter() {
    let mut options = ReportOptions::new(TimeZone::UTC, &price);
    let keep = |charge: &Charge| charge.account == 1;
    options.filter = Some(&keep);
    let report = CostReport::new(&ledger(), &[Dimension::Block], &options);
    let keys: Vec<String> = report.rows.iter().map(ReportRow::key).collect();
    assert_eq!(
        keys,
        ["2026-11-15T10:00:00Z", "2026-11-16T10:00:00Z", "undated"]
    );
    let block = report.rows[0].block().unwrap();
    assert_eq!(block.tally.usage.output, 7);
    assert_eq!(block.end, "2026-11-15T15:00:00Z".parse().unwrap());
}

#[test]
fn sessions_with_same_id_in_two_files_stay_apart() {
    let mut ledger = ledger();
    let mut twin = account("one", "/home/a");
    twin.file = "/elsewhere/one.jsonl".into();
    ledger.accounts.push(twin);
    ledger
        .charges
        .push(charge(2, "2026-11-15T10:00:00Z", "opus", 3));
    let options = ReportOptions::new(TimeZone::UTC, &price);
    let report = CostReport::new(&ledger, &[Dimension::Session], &options);
    assert_eq!(report.rows.len(), 3);
    let report = CostReport::new(&ledger, &[Dimension::Project], &options);
    assert_eq!(report.rows.len(), 2);
}

#[test]
fn unpriced_models_are_listed_by_tokens() {
    let options = ReportOptions::new(TimeZone::UTC, &|charge: &Charge| {
        price(charge).filter(|_| charge.source.model.as_deref() != Some("opus"))
    });
    let report = CostReport::new(&ledger(), &[Dimension::Day], &options);
    let named: Vec<_> = report
        .unpriced
        .iter()
        .map(|one| (one.model.as_deref().unwrap(), one.requests, one.tokens))
        .collect();
    assert_eq!(named, [("odd", 1, 1000), ("opus", 1, 50)]);
    assert_eq!(report.total.unpriced_tokens, 1050);
}

fn any_charge() -> impl Strategy<Value = Charge> {
    let times = prop_oneof![
        1 => Just(None),
        9 => (1_700_000_000i64..1_700_900_000).prop_map(|second| Timestamp::from_second(second).ok()),
    ];
    let name = |names: &'static [&'static str]| {
        prop::option::of(prop::sample::select(names)).prop_map(|name| name.map(Arc::from))
    };
    let models = name(&["haiku", "opus", "odd"]);
    let names = (models, name(&["a1", "a2"]), name(&["main", "fix"]));
    (
        times,
        names,
        0usize..2,
        prop::array::uniform6(0u64..1_000_000),
    )
        .prop_map(|(time, (model, agent, git_branch), account, counts)| {
            let mut charge = Charge::new(account);
            charge.time = time;
            charge.source_mut().model = model;
            charge.source_mut().agent = agent;
            charge.source_mut().git_branch = git_branch;
            let [input, output, five, hour, read, searches] = counts;
            charge.usage.input = input;
            charge.usage.output = output;
            charge.usage.cache_write_5m = five;
            charge.usage.cache_write_1h = hour;
            charge.usage.cache_read = read;
            charge.usage.web_searches = searches;
            charge
        })
}

proptest! {
    #[test]
    fn rows_add_up_to_the_total_in_every_dimension(
        charges in prop::collection::vec(any_charge(), 0..60),
        top in prop::option::of(0usize..4),
    ) {
        let ledger = Ledger::new(ledger().accounts, charges);
        let branch = |charge: &Charge| {
            let key = format!("session@{}", charge.usage.input % 3);
            Some(BranchName::new(key))
        };
        let mut options = ReportOptions::new(TimeZone::get("America/New_York").unwrap(), &price);
        options.branch = Some(&branch);
        options.top = top;
        let mut total = Tally::default();
        for charge in &ledger.charges {
            total.add(&charge.usage, price(charge));
        }
        let pairs = [[Dimension::Project, Dimension::Model], [Dimension::Day, Dimension::Agent]];
        let single = Dimension::ALL.map(|dimension| vec![dimension]);
        for by in single.into_iter().chain(pairs.map(Vec::from)) {
            let report = CostReport::new(&ledger, &by, &options);
            let mut sum = report.left_out.map(|(_, rest)| rest).unwrap_or_default();
            for row in &report.rows {
                sum.merge(&row.tally);
                let mut models = Tally::default();
                for one in &row.models {
                    models.merge(&one.tally);
                }
                prop_assert_eq!(models, row.tally);
                if let Some((start, end)) = row.parts[0].period {
                    prop_assert!(row.first >= Some(start) && row.last < Some(end));
                    prop_assert!(by[0] != Dimension::Block || end.duration_since(start) == SignedDuration::from_hours(5));
                }
            }
            prop_assert_eq!(sum, total, "{:?}", by);
            prop_assert_eq!(report.total, total);
        }
    }
}
