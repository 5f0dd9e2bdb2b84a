//! The line after `:`: a command of the program that only looks.

/// Commands that only look, each with those of its words that do more.
const COMMANDS: &[(&str, &[&str])] = &[
    ("archive", &[]),
    ("check", &[]),
    ("conversations", &[]),
    ("cost", &["--plot"]),
    ("delete", &[]),
    ("doctor", &[]),
    ("documents", &["set", "log"]),
    ("files", &["--restore", "--save"]),
    ("help", &[]),
    ("history", &["add"]),
    ("notes", &["add"]),
    ("pin", &[]),
    ("plans", &[]),
    ("prices", &[]),
    ("projects", &[]),
    ("search", &[]),
    ("sessions", &[]),
    ("show", &[]),
    ("todos", &["add", "start", "done", "remove"]),
    ("tree", &[]),
    ("watch", &[]),
];

/// Commands that only look if they are asked to list.
const LISTED: &[&str] = &["archive", "delete", "pin"];

/// Splits a line into the words of a command that only looks, or says why it is none.
pub(crate) fn parse(line: &str) -> Result<Vec<String>, String> {
    let words = split(line).ok_or("missing closing quote")?;
    let words: Vec<String> = words
        .into_iter()
        .skip_while(|word| word == "annals")
        .collect();
    let verb = words.first().map_or("", String::as_str);
    let known = COMMANDS.iter().find(|(name, _)| *name == verb);
    let Some((_, writing)) = known else {
        let names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
        let names = names.join(" ");
        return Err(format!(
            "`{verb}` is not a command that only looks: {names}"
        ));
    };
    let is = |word: &str, name: &str| {
        let rest = word.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || name.starts_with('-') && rest.starts_with('='))
    };
    let mut rest = words.iter().skip(1);
    let refused = rest.find(|word| writing.iter().any(|name| is(word, name)));
    if let Some(word) = refused {
        return Err(format!(
            "`{verb} {word}` writes; the browser runs only what looks"
        ));
    }
    let is_list = words.iter().any(|word| word == "--list");
    if LISTED.contains(&verb) && !is_list {
        return Err(format!("`{verb}` only looks with --list"));
    }
    Ok(words)
}

/// Splits a line at spaces outside of quotes. Returns `None` if a quote is not closed.
fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn words_are_split_as_in_a_shell() {
        let words = parse("search '\"reset by peer\" role:user' -p \"my app\"").unwrap();
        assert_eq!(
            words,
            ["search", "\"reset by peer\" role:user", "-p", "my app"]
        );
        assert_eq!(parse("annals  cost").unwrap(), ["cost"]);
        assert_eq!(parse("show ''").unwrap(), ["show", ""]);
        assert!(parse("search 'open").unwrap_err().contains("quote"));
    }

    #[test]
    fn what_writes_is_refused() {
        for line in [
            "",
            "append latest -m x",
            "repair x --apply",
            "files x y --restore /tmp",
            "files x y --restore=/tmp",
            "files --save y",
            "cost --plot x.svg",
            "cost --plot=x.svg",
            "todos add x y",
            "todos --all start",
            "notes add x",
            "documents set a b",
            "history add x",
            "delete latest --apply",
            "delete latest",
            "archive latest",
            "pin latest",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in [
            "cost --by model",
            "todos -p app --all",
            "delete --list",
            "archive --list",
            "pin --list",
            "files x y --diff 1 2",
            "notes list",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }
}
