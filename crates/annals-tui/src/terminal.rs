//! The terminal: entered, left, and given back however the program ends.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::{Terminal, TerminalOptions, Viewport};

use crate::draw::draw;
use crate::state::State;

/// Where frames are written: the terminal itself, because standard output may be a pipe.
type Output = BufWriter<File>;

/// The terminal while the browser is shown.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Output>>,
    size: (u16, u16),
    has_colors: bool,
    has_mouse: bool,
}

/// Whether the terminal is that of the browser now.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send>;

/// Returns why there is no terminal to draw on, if there is none. `needs_stdout` is false if
/// standard output is for the result.
pub fn refusal(needs_stdout: bool) -> Option<&'static str> {
    let is_terminal = io::stdin().is_terminal() && (!needs_stdout || io::stdout().is_terminal());
    let can_open = || open_terminal().is_ok();
    (!is_terminal || !can_open()).then_some("`annals browse` needs a terminal")
}

/// Creates what draws frames. It never asks the terminal for anything, as ratatui does to follow its
/// size: the answer would be expected on standard output, and may never come.
fn new_terminal((width, height): (u16, u16)) -> io::Result<Terminal<CrosstermBackend<Output>>> {
    let output = BufWriter::with_capacity(1 << 16, open_terminal()?);
    let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
    Terminal::with_options(CrosstermBackend::new(output), TerminalOptions { viewport })
}

fn open_terminal() -> io::Result<File> {
    let path = "/dev/tty";
    let own = OpenOptions::new().read(true).write(true).open(path);
    own.or_else(|error| {
        // A terminal that does not control this process.
        let stdout = rustix::stdio::stdout();
        match io::stdout().is_terminal() {
            true => Ok(File::from(rustix::io::dup(stdout)?)),
            false => Err(error),
        }
    })
}

impl Screen {
    /// Enters the terminal.
    pub(crate) fn enter(size: (u16, u16), has_colors: bool) -> io::Result<Self> {
        let mut screen = Screen {
            terminal: new_terminal(size)?,
            size,
            has_colors,
            has_mouse: false,
        };
        screen.resume()?;
        Ok(screen)
    }

    /// Takes the terminal, again.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        IS_ENTERED.store(true, Ordering::Relaxed);
        let output = self.terminal.backend_mut();
        execute!(output, EnterAlternateScreen, EnableBracketedPaste, Hide)?;
        if self.has_mouse {
            execute!(output, EnableMouseCapture)?;
        }
        self.redraw()
    }

    /// Gives the terminal back for a while.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        give_back(self.terminal.backend_mut())
    }

    /// Draws a frame.
    pub(crate) fn draw(&mut self, state: &State) -> io::Result<()> {
        let size = (state.width, state.height);
        if self.size != size {
            self.terminal = new_terminal(size)?;
            self.size = size;
            self.redraw()?;
        }
        let has_colors = self.has_colors;
        self.terminal.draw(|frame| {
            draw(state, frame);
            if !has_colors {
                remove_colors(frame.buffer_mut());
            }
        })?;
        Ok(())
    }

    /// Draws everything at the next frame.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), Clear(ClearType::All))?;
        // The last frame is forgotten.
        self.terminal.swap_buffers();
        Ok(())
    }

    /// Captures the mouse, or releases it.
    pub(crate) fn set_mouse(&mut self, is_on: bool) -> io::Result<()> {
        self.has_mouse = is_on;
        let output = self.terminal.backend_mut();
        match is_on {
            true => execute!(output, EnableMouseCapture),
            false => execute!(output, DisableMouseCapture),
        }
    }

    /// Puts text on the clipboard of the terminal (OSC 52), which also works over SSH.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        use base64::Engine as _;
        let coded = base64::engine::general_purpose::STANDARD.encode(text);
        let output = self.terminal.backend_mut();
        write!(output, "\u{1b}]52;c;{coded}\u{7}")?;
        io::Write::flush(output)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        _ = self.leave();
    }
}

/// Gives the terminal back, unless it was given back already: leaving the alternate screen twice
/// moves the cursor.
fn give_back(output: &mut impl Write) -> io::Result<()> {
    if !IS_ENTERED.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    queue!(
        output,
        DisableMouseCapture,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show
    )?;
    output.flush()?;
    disable_raw_mode()
}

/// Removes the colours of a frame; bold, underlined and reversed text stays.
fn remove_colors(buffer: &mut ratatui::buffer::Buffer) {
    for cell in &mut buffer.content {
        cell.fg = Color::Reset;
        cell.bg = Color::Reset;
    }
}

/// Gives the terminal back before a panic of this thread is reported. Panics of other threads are
/// not reported: their questions fail. Returns the hook that was set before.
pub(crate) fn restore_on_panic() -> Arc<Hook> {
    let before: Arc<Hook> = Arc::new(std::panic::take_hook());
    let main = std::thread::current().id();
    let report = Arc::clone(&before);
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == main {
            if let Ok(mut output) = open_terminal() {
                _ = give_back(&mut output);
            }
            report(info);
        }
    }));
    before
}
