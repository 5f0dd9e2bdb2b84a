//! Tests of `history` and `plans`.

use insta::assert_snapshot;

use crate::harness::Stage;

#[test]
fn history_lists_typed_prompts() {
    let stage = Stage::with_fixture("history");
    assert_snapshot!("history", stage.annals(&["history"]));
    assert_snapshot!(
        "history_json",
        stage.annals(&["history", "-n", "2", "--json"])
    );
    assert_snapshot!("history_text", stage.annals(&["history", "QUESTION"]));
    assert_snapshot!(
        "history_project",
        stage.annals(&["history", "-p", "elsewhere"])
    );
    assert_snapshot!(
        "history_period",
        stage.annals(&[
            "history",
            "--since",
            "2026-03-02T09:00:03Z",
            "--until",
            "2026-03-02"
        ])
    );
    assert_snapshot!("history_none", stage.annals(&["history", "--since", "1d"]));
    assert_snapshot!(
        "history_bad_time",
        stage.refused(&["history", "--since", "whenever"], "")
    );
}

#[test]
fn plans_lists_and_prints_plans() {
    let stage = Stage::with_fixture("plans");
    assert_snapshot!("plans", stage.annals(&["plans"]));
    assert_snapshot!("plans_json", stage.annals(&["plans", "--json"]));
    assert_snapshot!("plan", stage.annals(&["plans", "starry"]));
    assert_snapshot!(
        "plan_json",
        stage.annals(&["plans", "nobody-names-this.md", "--json"])
    );
    assert_snapshot!("plan_unknown", stage.refused(&["plans", "../projects"], ""));
    assert_snapshot!(
        "plans_none",
        Stage::with_fixture("history").annals(&["plans"])
    );
}
