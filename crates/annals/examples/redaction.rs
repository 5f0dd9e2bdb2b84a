//! Measures how well secrets are masked: on a corpus of generated secrets, and on the files of
//! directories.
//!
//! `cargo run -p annals --example redaction [--misses] [DIR]...` prints the figures of docs/THREATS.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use annals::export::Redactor;

#[path = "../src/export/redact/corpus.rs"]
mod corpus;
#[path = "../src/export/redact/forms.rs"]
mod forms;

/// The seed of the figures in the documentation.
const SEED: u64 = 17;
const ROUNDS: usize = 4;

/// Counts of one row of the table.
#[derive(Default)]
struct Count {
    samples: usize,
    masked: usize,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (options, dirs): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|arg| arg.starts_with("--"));
    let misses = options.iter().any(|option| option == "--misses");
    let samples = corpus::samples(SEED, ROUNDS);
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let mut rules: BTreeSet<&str> = BTreeSet::new();
    let mut bytes = 0;
    let begin = Instant::now();
    for sample in &samples {
        let mut redactor = Redactor::new()?;
        let masked = match sample.json {
            true => redactor.mask_json(&sample.text),
            false => redactor.mask_text(&sample.text),
        };
        bytes += sample.text.len();
        rules.insert(sample.rule);
        let (class, hit) = match (sample.rule, sample.structured) {
            ("", _) => ("none", redactor.masked().places > 0),
            (_, true) => ("structured", !sample.leaks(&masked)),
            (_, false) => ("context", !sample.leaks(&masked)),
        };
        let count = counts.entry(class).or_default();
        count.samples += 1;
        count.masked += usize::from(hit);
        if misses && hit == (class == "none") {
            println!(
                "{} in {}: {:?} became {:?}",
                sample.rule, sample.form, sample.text, masked
            );
        }
    }
    let time = begin.elapsed();
    let kinds_of = |class: &str| {
        let count = counts.get(class).map_or(0, |count| count.samples);
        count / corpus::FORMS.len() / ROUNDS
    };
    rules.remove("");
    println!(
        "{} kinds of secrets of {} rules and {} of other text in {} forms, each {ROUNDS} times: {} samples",
        kinds_of("structured") + kinds_of("context"),
        rules.len(),
        kinds_of("none"),
        corpus::FORMS.len(),
        samples.len()
    );
    let (mut right, mut wrong) = (0, 0);
    for (class, label) in [
        ("structured", "secrets with a shape"),
        ("context", "secrets known by their context"),
        ("none", "texts without a secret"),
    ] {
        let Some(count) = counts.get(class) else {
            continue;
        };
        let share = 100.0 * count.masked as f64 / count.samples as f64;
        println!(
            "{label}: {} of {} masked ({share:.2} %)",
            count.masked, count.samples
        );
        match class {
            "none" => wrong += count.masked,
            _ => right += count.masked,
        }
    }
    println!(
        "precision: {:.2} %",
        100.0 * right as f64 / (right + wrong) as f64
    );
    println!("{:.1} MB/s", bytes as f64 / 1e6 / time.as_secs_f64());
    measure_forms("second corpus", forms::samples(SEED, ROUNDS), misses)?;
    measure_forms("held-out forms", forms::held_out(SEED, ROUNDS), misses)?;
    measure_forms("later held-out forms", forms::unseen(SEED, ROUNDS), misses)?;
    for dir in dirs {
        measure(Path::new(&dir), misses)?;
    }
    Ok(())
}

/// Masks samples and counts their forms.
fn measure_forms(
    label: &str,
    samples: Vec<corpus::Sample>,
    show: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let mut rules: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for sample in samples {
        let mut redactor = Redactor::new()?;
        let masked = match sample.json {
            true => redactor.mask_json(&sample.text),
            false => redactor.mask_text(&sample.text),
        };
        let count = counts.entry(sample.form).or_default();
        count.samples += 1;
        count.masked += usize::from(!sample.leaks(&masked));
        let found = redactor.masked().secrets.keys().map(ToString::to_string);
        rules.entry(sample.form).or_default().extend(found);
    }
    let samples: usize = counts.values().map(|count| count.samples).sum();
    let masked: usize = counts.values().map(|count| count.masked).sum();
    let whole = counts
        .values()
        .filter(|count| count.masked == count.samples);
    println!(
        "{label}: {masked} of {samples} masked ({:.2} %), {} of {} forms always",
        100.0 * masked as f64 / samples as f64,
        whole.count(),
        counts.len()
    );
    for (form, count) in counts.iter().filter(|_| show) {
        let rules = rules.get(form).into_iter().flatten();
        let rules: Vec<&str> = rules.map(String::as_str).collect();
        println!(
            "{form}: {} of {}, {}",
            count.masked,
            count.samples,
            rules.join(", ")
        );
    }
    Ok(())
}

/// Masks every file below a directory and counts what was masked.
fn measure(dir: &Path, show: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut pending = vec![dir.to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(path) = pending.pop() {
        match path.is_dir() {
            true => pending.extend(
                std::fs::read_dir(&path)?
                    .flatten()
                    .map(|entry| entry.path()),
            ),
            false => files.push(path),
        }
    }
    let mut redactor = Redactor::new()?;
    let (mut bytes, begin) = (0, Instant::now());
    for path in &files {
        let Ok(text) = std::fs::read_to_string(path) else {
            continue;
        };
        bytes += text.len();
        for line in text.lines() {
            let masked = redactor.mask_json(line);
            if show && masked != line {
                for at in masked.match_indices("[redacted:").map(|(at, _)| at) {
                    let before: Vec<char> = masked[..at].chars().rev().take(60).collect();
                    let before: String = before.into_iter().rev().collect();
                    let after: String = masked[at..].chars().take(60).collect();
                    println!("{}: {before}{after}", path.display());
                }
            }
        }
    }
    let masked = redactor.masked();
    println!(
        "{}: {} files, {:.1} MB, {} places masked, {} different: {:?}, {:.1} MB/s",
        dir.display(),
        files.len(),
        bytes as f64 / 1e6,
        masked.places,
        masked.total(),
        masked.secrets,
        bytes as f64 / 1e6 / begin.elapsed().as_secs_f64(),
    );
    Ok(())
}
