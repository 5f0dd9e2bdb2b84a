use super::super::text::is_hostile;
use super::*;
use anstream::adapter::strip_str;
use insta::assert_snapshot;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn plain(source: &str, max: usize) -> String {
    strip_str(&render(source, Some(max))).to_string()
}

#[test]
fn a_document() {
    let source = "\
# Findings

The **parser** fails on *torn* tails; see `scan()` and [the notes](https://example.org/notes).
Second line of the same paragraph.

1. First step
2. Second step, which is rather long and has to wrap somewhere
   - nested
     - deeper
   - [x] done
   - [ ] open
10. ~~gone~~

> A quote that is long enough to wrap around at this width.
>
> > Nested.

```rust
fn main() {
\tprintln!(\"hi\");
}
```

---

<div>raw &amp; html</div>

![logo](a.png) <https://example.org> a<br>b
";
    assert_snapshot!(plain(source, 44), @r#"
        # Findings

        The parser fails on torn tails; see `scan()`
        and the notes (https://example.org/notes).
        Second line of the same paragraph.

        1. First step
        2. Second step, which is rather long and has
           to wrap somewhere
           • nested
             • deeper
           • [x] done
           • [ ] open
        3. ~~gone~~

        ▎ A quote that is long enough to wrap around
        ▎ at this width.
        ▎
        ▎ ▎ Nested.

        ┌ rust
        │ fn main() {
        │     println!("hi");
        │ }

        ────────────────────────────────────────

        <div>raw &amp; html</div>

        [image: logo] (a.png) https://example.org
        a<br>b
    "#);
}

#[test]
fn loose_lists_have_blank_lines_and_tight_ones_do_not() {
    assert_snapshot!(plain("- a\n- b\n\npara\n\n- c\n\n  more\n\n- d\n\n-\n- ```\n  code\n  ```\n- > quote\n", 40), @r#"
        • a
        • b

        para

        • c

          more

        • d

        •
        • │ code

        • ▎ quote
    "#);
}

#[test]
fn tables_are_aligned() {
    let table = "| Name | Size | Note |\n|:--|--:|:-:|\n| 日本 | 1 | x |\n| `b` | 1,234 | **mid** |\n| c |\n";
    assert_snapshot!(plain(table, 60), @r#"
        Name │  Size │ Note
        ─────┼───────┼─────
        日本 │     1 │  x
        `b`  │ 1,234 │ mid
        c    │       │
    "#);
}

#[test]
fn wide_tables_wrap_their_cells() {
    let table = "| A | Description |\n|---|---|\n| one | a long description that cannot stand on one line |\n";
    assert_snapshot!(plain(table, 30), @r#"
        A   │ Description
        ────┼─────────────────────────
        one │ a long description that
            │ cannot stand on one line
    "#);
}

#[test]
fn tables_with_too_many_columns_become_lists() {
    let table = "| Alpha | Beta | Gamma | Delta |\n|-|-|-|-|\n| first value | second value | third value | 4 |\n| 1 | 2 | | 4 |\n";
    assert_snapshot!(plain(table, 24), @r#"
        Alpha: first value
        Beta: second value
        Gamma: third value
        Delta: 4

        Alpha: 1
        Beta: 2
        Delta: 4
    "#);
}

#[test]
fn styles_are_closed_where_they_end() {
    assert_snapshot!(render("**b** *i* `c` [t](u)", Some(40)).replace('\x1b', "^"), @r#"
        ^[1mb^[0m ^[3mi^[0m ^[38;5;243m`^[0m^[38;5;30mc^[0m^[38;5;243m`^[0m ^[4mt^[0m^[38;5;243m (u)^[0m
    "#);
}

#[test]
fn nothing_wraps_without_a_width() {
    let long = "word ".repeat(100);
    assert_eq!(render(&long, None).lines().count(), 1);
    assert_eq!(
        strip_str(&render("```\n\tx\n```", None)).to_string(),
        "│ \tx\n"
    );
}

#[test]
fn empty_source_renders_nothing() {
    assert_eq!(render("", Some(80)), "");
    assert_eq!(render("\n\n", Some(80)), "");
}

#[test]
fn hostile_text_is_escaped_everywhere() {
    let source = "a\x1b[8mb &#27;[8m &#x202e; `\x1b[8m` [t\u{9b}8m](http://x/\x1b[8m)\n\n\
                  ```\x1b[8m\nc\x1b]52;c;AA\x07\n```\n\n<p \x1b[8m>\n\n| \x1b[8m |\n|-|\n| \u{202E} |\n\n![\x1b[8m](y\x1b[8m)\n";
    for max in [None, Some(20)] {
        let out = render(source, max);
        assert!(!out.contains("\x1b[8m"), "{out:?}");
        assert_only_styles(&out);
    }
    assert_eq!(
        render(source, None).matches('␛').count(),
        source.matches('\x1b').count() + 1
    );
}

fn assert_only_styles(out: &str) {
    let mut rest = out;
    while let Some(at) = rest.find(|c| is_hostile(c) && !matches!(c, '\n' | '\t' | '\u{200D}')) {
        let sequence = rest[at..]
            .strip_prefix("\x1b[")
            .unwrap_or_else(|| panic!("{:?} in {out:?}", &rest[at..]));
        let end = sequence
            .find(|c: char| !c.is_ascii_digit() && c != ';')
            .unwrap();
        assert!(sequence[end..].starts_with('m'), "{out:?}");
        rest = &sequence[end..];
    }
}

#[test]
fn deep_and_large_input_renders_in_linear_time() {
    let n = 10_000;
    for source in [
        ">".repeat(n),
        format!("{} text\n", "> ".repeat(n)),
        "- ".repeat(n),
        format!("{}x", "1. ".repeat(n)),
        "*".repeat(n) + "x" + &"*".repeat(n),
        "[".repeat(n),
        format!("{}x{}", "[".repeat(n), "](u)".repeat(n)),
        "![".repeat(n),
        format!("{}x{}", "![".repeat(n), "](u)".repeat(n)),
        "`".repeat(n),
        "<a ".repeat(n),
        "|x".repeat(n) + "\n" + &"|-".repeat(n) + "\n" + &"|y\n".repeat(n),
        format!("{}\n{}", ">".repeat(n), "lazy\n".repeat(n)),
        (0..500)
            .map(|depth| " ".repeat(depth * 2) + "- x\n")
            .collect(),
        "word ".repeat(100_000),
        "x".repeat(500_000),
    ] {
        let started = Instant::now();
        let rendered = std::thread::Builder::new().stack_size(256 * 1024).spawn({
            let source = source.clone();
            move || render(&source, Some(80)).len()
        });
        let length = rendered.unwrap().join().expect("no overflow");
        let head: String = source.chars().take(20).collect();
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{head:?} took {:?}",
            started.elapsed()
        );
        assert!(
            length < source.len() * 200 + 1000,
            "{head:?} grew to {length}"
        );
    }
}

proptest! {
    #[test]
    fn lines_fit_and_are_safe(
        parts in prop::collection::vec(prop::sample::select(vec![
            "# ", "> ", "- ", "1. ", "  ", "\n", "\n\n", "```\n", "`", "**", "*", "~~", "| a | b |\n|-|-:|\n", "| x ", "[t](u)", "<b>",
            "---\n", "\t", "日本語", "👩‍💻", "word ", "longerword", "\x1b[8m", "\u{202E}", "\u{9b}", "&#27;", "\r", "    ",
        ]), 0..40),
        max in 12usize..60,
    ) {
        let out = render(&parts.concat(), Some(max));
        assert_only_styles(&out);
        for line in strip_str(&out).to_string().lines() {
            prop_assert!(width(line) <= max, "{line:?} > {max}");
        }
    }
}
