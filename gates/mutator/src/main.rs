//! Builds many mutants into one program, to be chosen when it runs.
//!
//! `annals-mutator FROM TO` reads from stdin what cargo-mutants would change (an array of [`Mutant`]), reads the
//! files it names below FROM and writes them below TO with every change in place, each behind
//! `crate::mutant::on(N)`. A constant is changed where its own file uses it. Prints the numbers of those that cannot be
//! told apart at run time (`apart`: in the lengths of arrays,
//! or another type behind `impl Trait` that is no iterator) and of those that no compiler takes (`refused`).
//!
//! The text of the change stands between `/*<N*/` and `/*N>*/`, so that who compiles the result can tell whose a
//! complaint is.

mod edit;
mod find;

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, error, fs, io};

use serde::Deserialize;

/// A change as `cargo mutants --list --json` tells it, and the number that chooses it.
#[derive(Debug, Deserialize)]
pub struct Mutant {
    pub number: usize,
    pub file: String,
    pub genre: String,
    pub replacement: String,
    pub span: Span,
}

/// Lines and columns from 1, in characters.
#[derive(Debug, Deserialize)]
pub struct Span {
    pub start: Place,
    pub end: Place,
}

#[derive(Debug, Deserialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else {
        return Err("usage: annals-mutator FROM TO < MUTANTS".into());
    };
    let mutants: Vec<Mutant> = serde_json::from_reader(io::stdin().lock())?;
    let mut files = BTreeMap::<&str, Vec<&Mutant>>::new();
    for mutant in &mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    let (mut apart, mut refused) = (Vec::new(), Vec::new());
    for (file, mutants) in files {
        let source = fs::read_to_string(Path::new(from).join(file))?;
        let found = find::find(&source, &mutants)?;
        fs::write(
            Path::new(to).join(file),
            edit::rewrite(&source, &found.edits),
        )?;
        let expressed = |number| found.numbers.contains(&number) || found.refused.contains(&number);
        apart.extend(
            mutants
                .iter()
                .map(|mutant| mutant.number)
                .filter(|&number| !expressed(number)),
        );
        refused.extend(found.refused);
    }
    println!(
        "{}",
        serde_json::json!({ "apart": apart, "refused": refused })
    );
    Ok(())
}
