//! A full-screen list to choose from.
//!
//! Owns the terminal while it is shown, and always restores it. Typing filters the list. [`List`]
//! does not use the terminal, so that tests can press its keys.

use super::out::Out;
use annals_render::style::{BOLD, DIM, HEADER, ID, paint};
use annals_render::text::safe;
use annals_render::width::{truncate_end, width};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{Command, execute};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which the program checks whether it is asked to terminate.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(200);

/// An item to choose.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The name.
    pub(crate) name: String,
    /// Further information, at the end of the line.
    pub(crate) detail: String,
}

/// The outcome of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The item with this index was chosen.
    Picked(usize),
    /// Back to the previous list.
    Back,
    /// Quit.
    Quit,
}

/// A terminal that shows lists; restored on drop.
pub(crate) struct Picker<'a> {
    out: &'a mut Out,
    /// Set when the program is asked to terminate.
    stop: &'a AtomicBool,
}

impl<'a> Picker<'a> {
    pub(crate) fn open(out: &'a mut Out, ended: &'a AtomicBool) -> io::Result<Self> {
        out.flush()?;
        enable_raw_mode()?;
        // From here on `drop` restores the terminal.
        let picker = Picker { out, stop: ended };
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(picker)
    }

    /// Lets the user choose an item.
    pub(crate) fn pick(&mut self, title: &str, items: &[Item]) -> io::Result<Choice> {
        let mut list = List::new(title, items);
        loop {
            self.draw(&mut list)?;
            // crossterm never returns from a terminal that is gone, so it is only asked while there is
            // one, and never waits.
            let mut limit = Duration::ZERO;
            loop {
                if wait_for_key(limit) == Terminal::Gone || self.stop.load(Ordering::SeqCst) {
                    return Ok(Choice::Quit);
                }
                if event::poll(Duration::ZERO)? {
                    break;
                }
                limit = SIGNAL_INTERVAL;
            }
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && let Some(choice) = list.handle_key(key)
            {
                return Ok(choice);
            }
        }
    }

    fn draw(&mut self, list: &mut List<'_>) -> io::Result<()> {
        let (columns, rows) = terminal::size().unwrap_or((80, 24));
        let lines = list.lines(columns.into(), rows.into());
        for (row, line) in lines.iter().enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            self.control(MoveTo(0, row))?;
            self.out.text(line)?;
            self.control(Clear(ClearType::UntilNewLine))?;
        }
        self.control(Clear(ClearType::FromCursorDown))?;
        self.out.flush()
    }

    fn control(&mut self, command: impl Command) -> io::Result<()> {
        let mut text = String::new();
        _ = command.write_ansi(&mut text);
        self.out.raw(text.as_bytes())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Terminal {
    Connected,
    Gone,
}

/// Waits for a key or a signal, for at most `limit`. Returns whether the terminal still exists.
fn wait_for_key(limit: Duration) -> Terminal {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec::try_from(limit).unwrap_or_default();
    let polled = poll(&mut fds, Some(&limit));
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match polled.is_ok() && fds.iter().any(|it| it.revents().intersects(gone)) {
        true => Terminal::Gone,
        false => Terminal::Connected,
    }
}

impl Drop for Picker<'_> {
    fn drop(&mut self) {
        _ = self.out.flush();
        _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        _ = disable_raw_mode();
    }
}

/// A list with its filter and selection.
struct List<'a> {
    title: &'a str,
    items: &'a [Item],
    filter: String,
    /// The items that match the filter.
    matching: Vec<usize>,
    /// Index in `matching` of the selected item.
    selected: usize,
    /// Index in `matching` of the first item on the screen.
    top: usize,
    page: usize,
}

impl<'a> List<'a> {
    fn new(title: &'a str, items: &'a [Item]) -> Self {
        List {
            title,
            items,
            filter: String::new(),
            matching: (0..items.len()).collect(),
            selected: 0,
            top: 0,
            page: 1,
        }
    }

    fn handle_key(&mut self, key: KeyEvent) -> Option<Choice> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        // Letters move the selection only while the filter is empty.
        let free = self.filter.is_empty();
        match key.code {
            KeyCode::Char('c' | 'd') if control => return Some(Choice::Quit),
            KeyCode::Enter => {
                return self
                    .matching
                    .get(self.selected)
                    .map(|&at| Choice::Picked(at));
            }
            KeyCode::Esc if free => return Some(Choice::Back),
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('q') if free => return Some(Choice::Back),
            KeyCode::Down | KeyCode::Tab => self.select(self.selected + 1),
            KeyCode::Up | KeyCode::BackTab => self.select(self.selected.saturating_sub(1)),
            KeyCode::Char('n') if control => self.select(self.selected + 1),
            KeyCode::Char('p') if control => self.select(self.selected.saturating_sub(1)),
            KeyCode::Char('j') if free => self.select(self.selected + 1),
            KeyCode::Char('k') if free => self.select(self.selected.saturating_sub(1)),
            KeyCode::PageDown => self.select(self.selected + self.page),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(self.page)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Char('u') if control => self.set_filter(String::new()),
            KeyCode::Backspace => {
                let mut filter = self.filter.clone();
                filter.pop();
                self.set_filter(filter);
            }
            KeyCode::Char('/') if free => {}
            KeyCode::Char(letter) if !control => {
                self.set_filter(format!("{}{letter}", self.filter))
            }
            _ => {}
        }
        None
    }

    fn select(&mut self, at: usize) {
        self.selected = at.min(self.matching.len().saturating_sub(1));
    }

    /// Selects the items that contain all words of the filter, ignoring case.
    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        let words: Vec<String> = self
            .filter
            .split_whitespace()
            .map(str::to_lowercase)
            .collect();
        let fits = |(at, item): (usize, &Item)| {
            let text = format!("{} {}", item.name, item.detail).to_lowercase();
            words.iter().all(|word| text.contains(word)).then_some(at)
        };
        self.matching = self.items.iter().enumerate().filter_map(fits).collect();
        self.selected = 0;
        self.top = 0;
    }

    /// The title and the filter; if both do not fit, the end of the filter is shown.
    fn title_line(&self, columns: usize) -> String {
        if self.filter.is_empty() {
            return self.title.to_owned();
        }
        let filter = safe(&self.filter);
        let mut typed: &str = &filter;
        while width(typed) + width(" › ▏") > columns && !typed.is_empty() {
            let mut letters = typed.chars();
            letters.next();
            typed = letters.as_str();
        }
        let typed = format!(" › {typed}▏");
        let room = columns.saturating_sub(width(&typed));
        format!("{}{typed}", truncate_end(&safe(self.title), room))
    }

    /// The lines of the screen; none is wider than it.
    fn lines(&mut self, columns: usize, rows: usize) -> Vec<String> {
        const KEY_HELP: &str = "↑↓ move · Enter choose · Esc back · type to filter";
        let frame = 3;
        self.page = rows.saturating_sub(frame).max(1);
        self.top = self
            .top
            .min(self.selected)
            .max((self.selected + 1).saturating_sub(self.page));
        let cut = |text: &str| truncate_end(&safe(text), columns);
        let count = format!("{} of {}", self.matching.len(), self.items.len());
        let head = self.title_line(columns);
        let mut lines = vec![paint(HEADER, &cut(&head)).to_string(), String::new()];
        let shown = self
            .matching
            .iter()
            .enumerate()
            .skip(self.top)
            .take(self.page);
        for (at, &item) in shown {
            let Some(item) = self.items.get(item) else {
                continue;
            };
            lines.push(item_line(item, at == self.selected, columns));
        }
        if self.matching.is_empty() {
            lines.push(paint(DIM, &cut("  no matches")).to_string());
        }
        while lines.len() + 1 < rows {
            lines.push(String::new());
        }
        lines.push(paint(DIM, &cut(&format!("{count} · {KEY_HELP}"))).to_string());
        lines.truncate(rows.max(1));
        lines
    }
}

/// Formats a name and, if there is room, its detail on the right.
fn item_line(item: &Item, marked: bool, columns: usize) -> String {
    let (name, detail) = (safe(&item.name), safe(&item.detail));
    let room = columns.saturating_sub(2);
    // The name has priority: a detail that would take more than half is omitted.
    let detail = match width(&detail) + 2 <= room / 2 {
        true => truncate_end(&detail, room),
        false => String::new(),
    };
    let left = match detail.is_empty() {
        true => room,
        false => room.saturating_sub(width(&detail) + 2),
    };
    let name = truncate_end(&name, left);
    let gap = " ".repeat(room.saturating_sub(width(&name) + width(&detail)));
    let (mark, style) = match marked {
        true => ("❯ ", BOLD),
        false => ("  ", annals_render::style::PLAIN),
    };
    let line = format!(
        "{}{}{gap}{}",
        paint(ID, mark),
        paint(style, &name),
        paint(DIM, &detail)
    );
    match columns {
        0 | 1 => String::new(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;

    fn items() -> Vec<Item> {
        let item = |name: &str, detail: &str| Item {
            name: name.to_owned(),
            detail: detail.to_owned(),
        };
        vec![
            item("everything", ""),
            item("my-app", "2 min ago"),
            item("other\x1b[2J app", "3 days ago"),
            item(
                "日本語のとても長い名前のプロジェクト、端末には入らない",
                "1 y ago",
            ),
        ]
    }

    fn press(list: &mut List<'_>, keys: &str) -> Option<Choice> {
        let mut last = None;
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '↓' => KeyCode::Down,
                '↑' => KeyCode::Up,
                '⌫' => KeyCode::Backspace,
                letter => KeyCode::Char(letter),
            };
            last = list.handle_key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    #[test]
    fn keys_move_filter_and_choose() {
        let items = items();
        for (keys, choice) in [
            ("\n", Some(Choice::Picked(0))),
            ("↓\n", Some(Choice::Picked(1))),
            ("jj\n", Some(Choice::Picked(2))),
            ("jjk\n", Some(Choice::Picked(1))),
            ("↑\n", Some(Choice::Picked(0))),
            ("↓↓↓↓↓↓↓\n", Some(Choice::Picked(3))),
            ("app↓\n", Some(Choice::Picked(2))),
            ("APP days\n", Some(Choice::Picked(2))),
            ("xyz\n", None),
            ("xyz⌫⌫⌫\n", Some(Choice::Picked(0))),
            // Escape clears the filter first, then leaves the list.
            ("app\x1b", None),
            ("app\x1b\x1b", Some(Choice::Back)),
            ("q", Some(Choice::Back)),
            // After other letters they are part of the filter.
            ("xq", None),
        ] {
            assert_eq!(press(&mut List::new("t", &items), keys), choice, "{keys:?}");
        }
        let stop = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(List::new("t", &items).handle_key(stop), Some(Choice::Quit));
    }

    #[test]
    fn picker_fits_any_terminal_size() {
        let items = items();
        for columns in [0, 1, 2, 5, 20, 40, 100] {
            for rows in [0, 1, 2, 3, 4, 10] {
                let mut list = List::new("Which project?", &items);
                press(&mut list, "↓↓↓");
                let lines = list.lines(columns, rows);
                assert!(lines.len() <= rows.max(1), "{columns}×{rows}");
                for line in lines {
                    let plain = strip_str(&line).to_string();
                    assert!(width(&plain) <= columns, "{columns}: {plain:?}");
                    assert!(!plain.contains('\x1b'));
                }
            }
        }
    }

    #[test]
    fn picker_shows_names_and_details_in_forty_columns() {
        let items = items();
        let lines = List::new("Which project?", &items).lines(40, 7);
        let plain: Vec<String> = lines
            .iter()
            .map(|line| strip_str(line).to_string().trim_end().to_owned())
            .collect();
        insta::assert_snapshot!(plain.join("\n"), @r"
        Which project?

        ❯ everything
          my-app                       2 min ago
          other␛[2J app               3 days ago
          日本語のとても長い名前のプロ…  1 y ago
        4 of 4 · ↑↓ move · Enter choose · Esc b…
        ");
    }

    #[test]
    fn title_line_shows_typed_text_after_a_long_title() {
        let items = items();
        let title = "a-project-with-a-long-name: which conversation?";
        for (typed, end) in [("xyz", " › xyz▏"), (&*"12345".repeat(20), "45▏")] {
            let mut list = List::new(title, &items);
            press(&mut list, typed);
            let head = strip_str(&list.lines(40, 7)[0]).to_string();
            assert!(head.ends_with(end) && width(&head) <= 40, "{head}");
        }
    }

    #[test]
    fn selected_line_is_always_on_screen() {
        let many: Vec<Item> = (0..100)
            .map(|n| Item {
                name: format!("item {n}"),
                detail: String::new(),
            })
            .collect();
        let mut list = List::new("t", &many);
        for _ in 0..150 {
            press(&mut list, "↓");
            let lines = list.lines(30, 10);
            assert!(lines.iter().any(|line| line.contains('❯')));
        }
        assert_eq!(press(&mut list, "\n"), Some(Choice::Picked(99)));
    }
}
