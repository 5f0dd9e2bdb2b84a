//! Errors, warnings and notes of a check.

use annals::model::{FlawCounts, Severity};
use anstyle::Style;

use super::style::{DIM, FAILED, WARNING, paint};

/// Returns the style of a severity.
pub fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Error => FAILED,
        Severity::Warning => WARNING,
        _ => DIM,
    }
}

/// Returns the mark of a line that reports a flaw of this severity.
pub fn severity_mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "✗",
        Severity::Warning => "!",
        _ => "·",
    }
}

/// Formats the number of errors and warnings, followed by `rest`, with the mark of the worst.
/// Returns `None` if there are neither.
pub fn flaw_line(counts: FlawCounts, rest: &str) -> Option<String> {
    let worst = counts.worst()?;
    let text = format!("{} {counts}{rest}", severity_mark(worst));
    Some(paint(severity_style(worst), &text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;

    #[test]
    fn flaw_line_names_the_worst_and_is_absent_for_notes() {
        let line = |errors, warnings| {
            let line = flaw_line(FlawCounts { errors, warnings }, ": annals check");
            line.map(|line| strip_str(&line).to_string())
        };
        assert_eq!(line(0, 0), None);
        assert_eq!(line(0, 1).unwrap(), "! 1 warning: annals check");
        assert_eq!(
            line(2, 1).unwrap(),
            "✗ 2 errors and 1 warning: annals check"
        );
    }
}
