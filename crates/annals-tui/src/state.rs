//! The state of the browser: plain data that events change and frames show.

use annals::resume::Resume;
use annals_render::time::Clock;

use crate::keys::Context;
use crate::protocol::{ConversationRef, Effect, ReaderId, SessionName};
use crate::reader::Reader;
use crate::screens::{
    CheckScreen, CostScreen, Dialog, DiffScreen, FilesScreen, ListScreen, LiveScreen, Scope,
    TreeScreen,
};

/// Terminals narrower than this have no preview.
const PREVIEW_COLUMNS: u16 = 100;
/// The smallest terminal that is drawn on.
pub(crate) const SMALLEST: (u16, u16) = (20, 5);

/// Arguments of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Print the id of the chosen session.
    pub pick: bool,
    /// Hide what writes.
    pub read_only: bool,
}

/// Result of the browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The user left it.
    Quit,
    /// A session was chosen.
    Picked(String),
    /// This command shall replace the program.
    Resume(Box<Resume>),
}

/// A screen above the list.
#[derive(Debug)]
pub(crate) enum Screen {
    Reader(Box<Reader>),
    Tree(TreeScreen),
    Cost(CostScreen),
    Files(FilesScreen),
    Diff(DiffScreen),
    Live(LiveScreen),
    Check(CheckScreen),
}

impl Screen {
    /// The keys that work on it.
    pub(crate) fn context(&self) -> Context {
        match self {
            Screen::Reader(_) => Context::Reader,
            Screen::Tree(_) => Context::Tree,
            Screen::Cost(_) => Context::Cost,
            Screen::Files(_) => Context::Files,
            Screen::Diff(_) => Context::Diff,
            Screen::Live(_) => Context::Live,
            Screen::Check(_) => Context::Check,
        }
    }
}

/// A message in the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// The state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) clock: Clock,
    pub(crate) list: ListScreen,
    /// Screens above the list; the last one is shown.
    pub(crate) screens: Vec<Screen>,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) notice: Option<Notice>,
    pub(crate) has_mouse: bool,
    /// Whether the time does not go on, for tests and pictures.
    pub(crate) is_time_fixed: bool,
    pub(crate) exit: Option<Exit>,
    next_reader: ReaderId,
}

impl State {
    /// Creates the state, and the first questions.
    pub(crate) fn new(
        mode: Mode,
        clock: Clock,
        size: (u16, u16),
        query: String,
        here: bool,
    ) -> (Self, Vec<Effect>) {
        let mut list = ListScreen::default();
        list.query = query;
        if here {
            list.scope = Scope::Here;
        }
        let mut state = State {
            mode,
            width: size.0,
            height: size.1,
            clock,
            list,
            screens: Vec::new(),
            dialog: None,
            notice: None,
            has_mouse: false,
            is_time_fixed: false,
            exit: None,
            next_reader: 0,
        };
        let mut effects = vec![Effect::ListSessions];
        if !state.list.query.is_empty() {
            let question = state.list.change_query(&state.clock);
            effects.extend(question.map(Effect::Search));
        }
        (state, effects)
    }

    /// The keys that work now.
    pub(crate) fn context(&self) -> Context {
        self.screens.last().map_or(Context::List, Screen::context)
    }

    /// The conversation on the screen.
    pub(crate) fn reader(&mut self) -> Option<&mut Reader> {
        match self.screens.last_mut() {
            Some(Screen::Reader(reader)) => Some(reader),
            _ => None,
        }
    }

    /// Returns the reader with a number, on any screen.
    pub(crate) fn reader_by_id(&mut self, id: ReaderId) -> Option<&mut Reader> {
        let screens = self.screens.iter_mut().filter_map(|screen| match screen {
            Screen::Reader(reader) => Some(reader.as_mut()),
            _ => None,
        });
        let mut all = screens.chain(self.list.preview.as_mut());
        all.find(|reader| reader.id == id)
    }

    /// Opens a conversation on a screen of its own.
    pub(crate) fn open(
        &mut self,
        session: SessionName,
        which: ConversationRef,
        at: Option<String>,
    ) -> Vec<Effect> {
        self.next_reader += 1;
        let (reader, effect) = Reader::open(self.next_reader, session, which, at, false);
        self.screens.push(Screen::Reader(Box::new(reader)));
        vec![effect]
    }

    /// Shows the selected session beside the list, if there is room.
    pub(crate) fn update_preview(&mut self) -> Option<Effect> {
        if !self.has_preview() || !self.screens.is_empty() {
            return None;
        }
        let Some(name) = self.list.selected_name() else {
            self.list.preview = None;
            return None;
        };
        let hit = self.list.selected_hit();
        let which = match &hit {
            Some(id) => ConversationRef::Through(id.clone()),
            None => ConversationRef::Resumed,
        };
        let shown = self.list.preview.as_ref();
        let is_shown = shown.is_some_and(|reader| {
            reader.conversation.session.key == name.key && reader.asked_conversation() == &which
        });
        if is_shown {
            return None;
        }
        self.next_reader += 1;
        let (reader, effect) = Reader::open(self.next_reader, name, which, hit, true);
        self.list.preview = Some(reader);
        Some(effect)
    }

    /// Whether the preview is shown.
    pub(crate) fn has_preview(&self) -> bool {
        self.width >= PREVIEW_COLUMNS && self.height >= 10
    }

    /// Whether the terminal is large enough.
    pub(crate) fn is_too_small(&self) -> bool {
        self.width < SMALLEST.0 || self.height < SMALLEST.1
    }

    /// Says something in the footer.
    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice {
            text: text.into(),
            is_error: false,
        });
    }

    /// Says in the footer what went wrong.
    pub(crate) fn fail(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice {
            text: text.into(),
            is_error: true,
        });
    }
}
