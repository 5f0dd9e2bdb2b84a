//! Arguments of tools.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fewest and most tokens of an answer.
const BUDGETS: std::ops::RangeInclusive<u64> = 200..=10_000;
const DEFAULT_BUDGET: u64 = 2_000;

/// Bytes of a token.
const TOKEN: u64 = 4;

/// Parses the arguments of a tool.
pub(crate) fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    let arguments = match arguments {
        Value::Null => Value::Object(Default::default()),
        arguments => arguments,
    };
    serde_json::from_value(arguments).map_err(|error| format!("invalid arguments: {error}"))
}

/// Returns the most bytes of an answer.
pub(crate) fn budget_bytes(tokens: Option<u64>) -> Result<usize, String> {
    let tokens = within("budget", tokens, &BUDGETS, DEFAULT_BUDGET)?;
    Ok(usize::try_from(tokens * TOKEN).unwrap_or(usize::MAX))
}

/// Returns an argument, or its default.
pub(crate) fn within(
    name: &str,
    given: Option<u64>,
    range: &std::ops::RangeInclusive<u64>,
    default: u64,
) -> Result<u64, String> {
    match given.unwrap_or(default) {
        number if range.contains(&number) => Ok(number),
        number => Err(format!(
            "{name} is {number}; it must be from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

/// Parses the cursor of a list: the number of rows before it.
pub(crate) fn offset(next: Option<&str>) -> Result<usize, String> {
    let number = next.map_or(Ok(0), str::parse::<u32>);
    let number = number.ok().and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| "`next` is not from an answer of this tool".to_owned())
}
