//! Standard output of commands.
//!
//! Owns standard output: its buffer, width, colour and pager. On a terminal it buffers the first
//! screen until it is clear whether to start a pager. Does not sanitise: renderers do.
//!
//! A closed pipe is an error here so that a command stops at once; `main` turns it into success
//! with [`is_closed_pipe`].

use super::color::ColorChoice;
use super::json::{self, OpenDocument};
use super::pager::{Pager, PagerCommand};
use annals_render::width::width;
use anstream::adapter::{StripBytes, strip_bytes};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

/// The output of a command.
pub(crate) struct Out {
    sink: Sink,
    is_terminal: bool,
    width: Option<usize>,
    color: bool,
    strip: StripBytes,
    /// Whether the width is the terminal's own.
    follows_terminal: bool,
    /// The JSON document whose end is not yet written, so that members can be added.
    open_document: Option<OpenDocument>,
    has_written: bool,
}

impl Out {
    /// Opens standard output. `pager` allows a pager if standard output is a terminal.
    pub(crate) fn stdout(
        color: ColorChoice,
        pager: bool,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Out {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let size = terminal_size::terminal_size_of(&stdout);
        let width = is_terminal.then(|| {
            columns(&env)
                .or(size.map(|(width, _)| usize::from(width.0)))
                .unwrap_or(80)
        });
        let pager = PagerCommand::from_env(&env).filter(|_| pager && is_terminal);
        let color = color.resolve(is_terminal, &env);
        let stdout = BufWriter::new(stdout.lock());
        let sink = match (pager, size) {
            (Some(pager), Some((_, height))) => {
                let rows = usize::from(height.0).saturating_sub(1);
                Sink::Held {
                    pager,
                    rows,
                    text: Vec::new(),
                    mark: PageStart::None,
                    stdout,
                }
            }
            _ => Sink::Direct(stdout),
        };
        Out {
            sink,
            is_terminal,
            width: width.map(|width| width.max(1)),
            color,
            strip: StripBytes::new(),
            follows_terminal: columns(&env).is_none(),
            open_document: None,
            has_written: false,
        }
    }

    /// Writes to another sink.
    #[cfg(test)]
    pub(crate) fn to_writer(sink: Box<dyn Write>, width: Option<usize>, color: bool) -> Out {
        Out {
            sink: Sink::Other(sink),
            is_terminal: false,
            width,
            color,
            strip: StripBytes::new(),
            follows_terminal: false,
            open_document: None,
            has_written: false,
        }
    }

    /// Whether something was written.
    pub(crate) fn has_written(&self) -> bool {
        self.has_written
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether styles are written.
    #[cfg(feature = "browse")]
    pub(crate) fn has_colors(&self) -> bool {
        self.color
    }

    /// The columns to fit into; `None` for a pipe or a file, where nothing is truncated.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Updates the width from the terminal, for commands that run for hours.
    pub(crate) fn update_width(&mut self) {
        let size = terminal_size::terminal_size_of(io::stdout());
        if let (Some(width), Some((columns, _)), true) =
            (&mut self.width, size, self.follows_terminal)
        {
            *width = usize::from(columns.0).max(1);
        }
    }

    /// Writes rendered text and a line break.
    pub(crate) fn line(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self, "{text}")
    }

    /// Writes rendered text.
    pub(crate) fn text(&mut self, text: impl fmt::Display) -> io::Result<()> {
        write!(self, "{text}")
    }

    /// Writes an empty line.
    pub(crate) fn blank(&mut self) -> io::Result<()> {
        self.write_all(b"\n")
    }

    /// Writes one indented JSON document. The end of an object is written before the next output,
    /// so that [`Out::json_member`] can add to it.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.open_document = json::write_open(&mut UnstyledWriter(self), value)?;
        Ok(())
    }

    /// Adds a member to the last JSON document; does nothing if there is none.
    pub(crate) fn json_member(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        match self.open_document.take() {
            None => Ok(()),
            Some(unclosed) => {
                unclosed.add(&mut UnstyledWriter(self), name, value)?;
                self.open_document = Some(OpenDocument::Members);
                Ok(())
            }
        }
    }

    /// Writes a JSON document on one line.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        json::write_line(&mut UnstyledWriter(self), value)
    }

    /// Announces that [`Out::mark`] will set where the pager opens the page.
    pub(crate) fn await_mark(&mut self) {
        if let Sink::Held { mark, .. } = &mut self.sink {
            *mark = PageStart::Awaited;
        }
    }

    /// Sets the next output as the position where the pager opens the page. The first call counts.
    pub(crate) fn mark_page_start(&mut self) {
        if let Sink::Held { mark, text, .. } = &mut self.sink
            && *mark == PageStart::Awaited
        {
            *mark = PageStart::At(text.iter().filter(|byte| **byte == b'\n').count() + 1);
        }
    }

    /// Writes directly to the terminal from now on, for output that continues for hours.
    pub(crate) fn stop_paging(&mut self) -> io::Result<()> {
        self.sink.release()
    }

    /// Writes bytes unchanged, with styles and controls: only for `--raw` and exports.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.close_document()?;
        self.has_written = true;
        self.sink.write_all(bytes, self.width)
    }

    /// Writes the buffered text and waits for the pager.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.close_document()?;
        self.sink.finish()
    }

    /// Writes the end of the JSON document.
    fn close_document(&mut self) -> io::Result<()> {
        match self.open_document.take() {
            None => Ok(()),
            Some(unclosed) => unclosed.close(&mut UnstyledWriter(self)),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.close_document()?;
        self.has_written = true;
        if self.color {
            return self.sink.write_all(bytes, self.width);
        }
        for plain in self.strip.strip_next(bytes) {
            self.sink.write_all(plain, self.width)?;
        }
        Ok(())
    }

    /// Flushes the output. Also stops waiting for a full screen, so that the text is visible at
    /// once.
    fn flush(&mut self) -> io::Result<()> {
        self.sink.release()?;
        match &mut self.sink {
            Sink::Direct(stdout) | Sink::Held { stdout, .. } => stdout.flush(),
            Sink::Paged(pager) => pager.flush(),
            #[cfg(test)]
            Sink::Other(sink) => sink.flush(),
            Sink::Done => Ok(()),
        }
    }
}

/// Output without styles to strip: JSON escapes control characters.
struct UnstyledWriter<'a>(&'a mut Out);

impl Write for UnstyledWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.raw(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Out {
    /// A command that fails midway still prints its output and leaves no pager running.
    fn drop(&mut self) {
        _ = self.finish();
    }
}

/// The width of the terminal on standard error, or 80.
pub(crate) fn error_width() -> usize {
    let size = terminal_size::terminal_size_of(io::stderr());
    size.map_or(80, |(width, _)| usize::from(width.0))
}

/// Whether `error` is a closed output pipe, which is not a failure.
pub(crate) fn is_closed_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The position at which the pager opens the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageStart {
    /// At its start.
    None,
    /// At a mark that is not yet set.
    Awaited,
    /// At this line, from 1.
    At(usize),
}

enum Sink {
    Direct(BufWriter<StdoutLock<'static>>),
    /// Buffers text until the screen is full.
    Held {
        pager: PagerCommand,
        rows: usize,
        text: Vec<u8>,
        mark: PageStart,
        stdout: BufWriter<StdoutLock<'static>>,
    },
    Paged(Pager),
    #[cfg(test)]
    Other(Box<dyn Write>),
    Done,
}

impl Sink {
    fn write_all(&mut self, bytes: &[u8], columns: Option<usize>) -> io::Result<()> {
        match self {
            Sink::Direct(stdout) => stdout.write_all(bytes),
            Sink::Paged(pager) => pager.write_all(bytes),
            #[cfg(test)]
            Sink::Other(sink) => sink.write_all(bytes),
            Sink::Done => Err(io::ErrorKind::BrokenPipe.into()),
            Sink::Held {
                rows, text, mark, ..
            } => {
                text.extend_from_slice(bytes);
                // The pager needs the position when it starts.
                if *mark == PageStart::Awaited {
                    return Ok(());
                }
                // Renderers write whole lines, so counting only at line ends keeps this linear.
                if bytes.contains(&b'\n') && screen_rows(text, columns) > *rows {
                    self.start_pager()
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Passes the buffered text to the pager, or to the terminal if there is none.
    fn start_pager(&mut self) -> io::Result<()> {
        let Sink::Held {
            pager,
            text,
            mark,
            stdout,
            ..
        } = std::mem::replace(self, Sink::Done)
        else {
            return Ok(());
        };
        let line = match mark {
            PageStart::At(line) => Some(line),
            PageStart::None | PageStart::Awaited => None,
        };
        *self = pager.start(line).map_or(Sink::Direct(stdout), Sink::Paged);
        self.write_all(&text, None)
    }

    /// Writes the buffered text to the terminal.
    fn release(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Sink::Done) {
            Sink::Held { text, stdout, .. } => {
                *self = Sink::Direct(stdout);
                self.write_all(&text, None)
            }
            other => {
                *self = other;
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        // The mark may never have been set.
        if let Sink::Held {
            mark, text, rows, ..
        } = self
            && *mark == PageStart::Awaited
            && screen_rows(text, None) > *rows
        {
            self.start_pager()?;
        }
        let released = self.release();
        let flushed = match std::mem::replace(self, Sink::Done) {
            Sink::Direct(mut stdout) | Sink::Held { mut stdout, .. } => stdout.flush(),
            Sink::Paged(mut pager) => pager.finish(),
            #[cfg(test)]
            Sink::Other(mut sink) => sink.flush(),
            Sink::Done => Ok(()),
        };
        released.and(flushed)
    }
}

fn columns(env: impl Fn(&str) -> Option<OsString>) -> Option<usize> {
    env("COLUMNS")?
        .to_str()?
        .parse()
        .ok()
        .filter(|columns| *columns > 0)
}

/// Counts the rows that `text` takes on a screen; long lines take several.
fn screen_rows(text: &[u8], columns: Option<usize>) -> usize {
    let plain = strip_bytes(text).into_vec();
    let columns = columns.unwrap_or(usize::MAX);
    plain
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            width(String::from_utf8_lossy(line).trim_end_matches('\n'))
                .div_ceil(columns)
                .max(1)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_render::style::{ERROR, paint};
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Clone, Default)]
    struct Memory(Rc<RefCell<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(color: bool, work: impl FnOnce(&mut Out) -> io::Result<()>) -> String {
        let memory = Memory::default();
        let mut out = Out::to_writer(Box::new(memory.clone()), None, color);
        work(&mut out).unwrap();
        out.finish().unwrap();
        String::from_utf8(memory.0.take()).unwrap()
    }

    #[test]
    fn styles_are_removed_without_colour() {
        let work = |out: &mut Out| out.line(format_args!("{} ok", paint(ERROR, "bad")));
        assert_eq!(written(false, work), "bad ok\n");
        assert_eq!(written(true, work), "\x1b[1m\x1b[38;5;161mbad\x1b[0m ok\n");
    }

    #[test]
    fn documents_end_in_a_line_break() {
        assert_eq!(
            written(true, |out| out.json(&serde_json::json!({ "a": 1 }))),
            "{\n  \"a\": 1\n}\n"
        );
    }

    #[test]
    fn raw_bytes_pass_untouched() {
        assert_eq!(written(false, |out| out.raw(b"\x1b[1m\n")), "\x1b[1m\n");
    }

    #[test]
    fn a_closed_pipe_is_recognised_through_its_causes() {
        let error = Out::to_writer(Box::new(Closed), None, false)
            .line("x")
            .unwrap_err();
        assert!(is_closed_pipe(&error));
        let wrapped = anyhow::Error::from(error).context("writing the table");
        assert!(is_closed_pipe(wrapped.as_ref()));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::NotFound)));
    }

    #[cfg(unix)]
    fn paged(rows: usize, work: impl FnOnce(&mut Out) -> io::Result<()>) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("screen");
        let wish = OsString::from(format!("tee {}", file.display()));
        let pager =
            PagerCommand::from_env(|name| (name == "ANNALS_PAGER").then(|| wish.clone())).unwrap();
        let stdout = BufWriter::new(io::stdout().lock());
        let sink = Sink::Held {
            pager,
            rows,
            text: Vec::new(),
            mark: PageStart::None,
            stdout,
        };
        let mut out = Out {
            sink,
            is_terminal: true,
            width: Some(80),
            color: false,
            strip: StripBytes::new(),
            follows_terminal: false,
            open_document: None,
            has_written: false,
        };
        work(&mut out).unwrap();
        out.finish().unwrap();
        std::fs::read_to_string(file).ok()
    }

    #[cfg(unix)]
    #[test]
    fn output_longer_than_a_screen_is_paged_completely() {
        let lines = |n: usize| move |out: &mut Out| (0..n).try_for_each(|n| out.line(n));
        assert_eq!(paged(3, lines(3)), None);
        assert_eq!(paged(3, lines(5)).as_deref(), Some("0\n1\n2\n3\n4\n"));
        assert_eq!(
            paged(3, |out| out.line(format_args!("{}", "x".repeat(100)))).map(|text| text.len()),
            None
        );
        assert_eq!(
            paged(1, |out| out.line(format_args!("{}", "x".repeat(100)))).map(|text| text.len()),
            Some(101)
        );
    }

    #[cfg(unix)]
    #[test]
    fn output_is_held_until_the_awaited_mark() {
        let line_of_mark = |out: &mut Out| match &out.sink {
            Sink::Held { mark, .. } => *mark,
            _ => PageStart::None,
        };
        let shown = paged(3, |out| {
            out.await_mark();
            (0..9).try_for_each(|n| out.line(n))?;
            assert_eq!(line_of_mark(out), PageStart::Awaited);
            out.mark_page_start();
            assert_eq!(line_of_mark(out), PageStart::At(10));
            out.line("here")?;
            // A second mark has no effect.
            out.mark_page_start();
            out.line("end")
        });
        assert!(shown.is_some_and(|text| text.ends_with("8\nhere\nend\n")));
        let shown = paged(3, |out| {
            out.await_mark();
            (0..9).try_for_each(|n| out.line(n))
        });
        assert!(shown.is_some_and(|text| text.ends_with("8\n")));
    }

    #[cfg(unix)]
    #[test]
    fn flushed_output_is_not_held_back() {
        let shown = paged(3, |out| {
            out.line("now")?;
            out.flush()?;
            (0..9).try_for_each(|n| out.line(n))
        });
        assert_eq!(shown, None);
    }

    #[cfg(unix)]
    #[test]
    fn output_is_not_paged_after_stop_paging() {
        let shown = paged(3, |out| {
            out.stop_paging()?;
            (0..9).try_for_each(|n| out.line(n))
        });
        assert_eq!(shown, None);
    }

    #[test]
    fn long_lines_take_several_rows() {
        assert_eq!(screen_rows(b"a\n\nb", Some(80)), 3);
        assert_eq!(
            screen_rows(
                format!("\x1b[1m{}\x1b[0m\n", "x".repeat(79)).as_bytes(),
                Some(80)
            ),
            1
        );
        assert_eq!(screen_rows("日".repeat(41).as_bytes(), Some(80)), 2);
    }
}
