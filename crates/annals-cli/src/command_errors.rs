//! Errors of commands that the error report explains: contexts that are attached to an [`anyhow::Error`].

/// Marks an error about the directory that `--into` names.
#[derive(Debug)]
pub(crate) struct TargetError;

impl std::fmt::Display for TargetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the target cannot be used")
    }
}

/// Marks an error about the state directory.
#[derive(Debug)]
pub(crate) struct StateDirError;

impl std::fmt::Display for StateDirError {
    /// Nothing: the error itself names the directory.
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

/// Details of the candidates of an ambiguous name, such as their titles, in the same order.
#[derive(Debug)]
pub(crate) struct CandidateDetails(pub(crate) Vec<String>);

impl std::fmt::Display for CandidateDetails {
    /// Nothing: the report prints them next to the candidates.
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

/// Returns the text of an error with its causes. An error often contains the text of its source,
/// which is not repeated.
pub(crate) fn error_chain_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for part in error.chain().map(ToString::to_string) {
        if !text.contains(&part) {
            text = if text.is_empty() {
                part
            } else {
                format!("{text}: {part}")
            };
        }
    }
    text
}
