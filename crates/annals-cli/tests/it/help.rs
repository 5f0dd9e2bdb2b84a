//! The whole reference, as people read it.

use insta::assert_snapshot;

use crate::harness::Stage;

#[test]
fn the_help_of_every_verb() {
    let stage = Stage::empty();
    let all = stage.bare(&["--help"]).fine();
    assert_snapshot!("help", all.out);
    let verbs = all
        .out
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        let run = stage.bare(&[verb, "--help"]).fine();
        assert_snapshot!(format!("help_{verb}"), run.out);
    }
}
