//! Two versions of a file, line by line.

use std::time::{Duration, Instant};

use similar::{Algorithm, ChangeTag, DiffOp};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Time after which the comparison becomes coarser.
const PATIENCE: Duration = Duration::from_millis(500);

/// A run of changed lines and the unchanged ones around it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hunk {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
    pub(super) pairs: Vec<(Option<Line>, Option<Line>)>,
}

/// A line of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) class: &'static str,
    pub(super) sign: char,
    pub(super) old: Option<usize>,
    pub(super) new: Option<usize>,
    pub(super) text: String,
}

/// Compares two texts.
pub(super) fn hunks(old: &str, new: &str) -> Vec<Hunk> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let until = Some(Instant::now() + PATIENCE);
    let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, until);
    let groups = similar::group_diff_ops(ops, CONTEXT);
    groups.iter().map(|ops| hunk(ops, &old, &new)).collect()
}

fn hunk(ops: &[DiffOp], old: &[&str], new: &[&str]) -> Hunk {
    let changes = ops.iter().flat_map(|op| op.iter_changes(old, new));
    let lines: Vec<Line> = changes
        .map(|change| {
            let (class, sign) = match change.tag() {
                ChangeTag::Delete => ("del", '-'),
                ChangeTag::Insert => ("ins", '+'),
                ChangeTag::Equal => ("same", ' '),
            };
            Line {
                class,
                sign,
                old: change.old_index().map(|at| at + 1),
                new: change.new_index().map(|at| at + 1),
                text: change.value().to_owned(),
            }
        })
        .collect();
    let first = lines.first();
    let number = |at: Option<usize>| at.map_or_else(|| "0".to_owned(), |at| at.to_string());
    Hunk {
        name: format!(
            "line {} of the old, {} of the new version",
            number(first.and_then(|line| line.old)),
            number(first.and_then(|line| line.new))
        ),
        pairs: pairs(&lines),
        lines,
    }
}

/// Puts removed lines beside the added ones that follow them.
fn pairs(lines: &[Line]) -> Vec<(Option<Line>, Option<Line>)> {
    let mut pairs: Vec<(Option<Line>, Option<Line>)> = Vec::new();
    // First pair of the current run without a right side.
    let mut open = 0;
    for line in lines {
        match line.sign {
            '-' => pairs.push((Some(line.clone()), None)),
            '+' => {
                let place = pairs.get_mut(open).filter(|(_, right)| right.is_none());
                match place {
                    Some((_, right)) => {
                        *right = Some(line.clone());
                        open += 1;
                    }
                    None => {
                        pairs.push((None, Some(line.clone())));
                        open = pairs.len();
                    }
                }
            }
            _ => {
                pairs.push((Some(line.clone()), Some(line.clone())));
                open = pairs.len();
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_stand_beside_each_other() {
        let found = hunks("a\nb\nc\nd\n", "a\nx\ny\nz\nd\n");
        let shown: Vec<String> = found[0]
            .pairs
            .iter()
            .map(|(left, right)| {
                let text = |side: &Option<Line>| side.as_ref().map_or("", |it| &it.text).to_owned();
                format!("{}|{}", text(left), text(right))
            })
            .collect();
        assert_eq!(shown, ["a|a", "b|x", "c|y", "|z", "d|d"]);
        assert_eq!(found[0].lines.len(), 7);
        assert!(hunks("same\n", "same\n").is_empty());
    }
}
