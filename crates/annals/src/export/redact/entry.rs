//! Masks the secrets of entries.

use std::borrow::Cow;

use annals_layouts::json;
use annals_layouts::model::{Block, Body, Entry, EntryContext, FileChange, Message, Todo};

use super::Redactor;

impl Redactor {
    /// Masks the secrets of an entry. Its ids are kept, because links depend on them.
    pub(crate) fn mask_entry(&mut self, entry: &mut Entry) {
        let EntryContext {
            cwd,
            git_branch,
            version: _,
            channel: _,
        } = &mut entry.context;
        self.mask_options([cwd, git_branch]);
        let members = entry.members.iter_mut().map(|(name, json)| (&*name, json));
        let of_blocks = entry.block_members.values_mut().flatten();
        for (name, json) in members.chain(of_blocks) {
            *json = match json::decode_string(json) {
                Some(text) => json::quote(&self.mask_member(name, &text)),
                None => self.mask_json(json).into_owned(),
            };
        }
        match &mut entry.body {
            Body::Message(message) => self.mask_message(message),
            Body::Summary { text, .. }
            | Body::Compaction { text }
            | Body::System { text, .. }
            | Body::Attachment { text, .. }
            | Body::Title { text, .. }
            | Body::Queue { text, .. }
            | Body::Tag { text } => self.mask_string(text),
            Body::Note { author, text } => {
                self.mask_options([author]);
                self.mask_string(text);
            }
            Body::TypedPrompt { text, project, .. } => {
                self.mask_options([project]);
                self.mask_string(text);
            }
            Body::Todos(todos) => self.mask_todos(todos),
            Body::Files(FileChange { backups, .. }) => {
                for backup in backups {
                    self.mask_string(&mut backup.path);
                    self.mask_options([&mut backup.base, &mut backup.stored, &mut backup.snippet]);
                }
            }
            Body::Agent {
                kind, description, ..
            } => self.mask_options([kind, description]),
            Body::Resume { .. }
            | Body::Settings { .. }
            | Body::SessionList(_)
            | Body::Opaque { .. } => {}
        }
    }

    /// Masks the secrets of a list of todos.
    pub(crate) fn mask_todos(&mut self, todos: &mut [Todo]) {
        for todo in todos {
            self.mask_string(&mut todo.content);
            self.mask_options([&mut todo.active_form]);
        }
    }

    fn mask_message(&mut self, message: &mut Message) {
        self.mask_options([&mut message.stored]);
        for block in &mut message.blocks {
            self.mask_block(block);
        }
    }

    fn mask_block(&mut self, block: &mut Block) {
        match block {
            Block::Text(text) | Block::Thinking { text, .. } => self.mask_string(text),
            // The log decides the name too.
            Block::ToolUse { name, input, .. } => {
                self.mask_string(name);
                if let Cow::Owned(masked) = self.mask_json(input) {
                    *input = masked;
                }
            }
            // Results are flat, so this recurses only one level.
            Block::ToolResult { output, .. } => {
                for block in output {
                    self.mask_block(block);
                }
            }
            // Image data is not text, but the URL of an image may contain a signature.
            Block::Image { data, .. } if data.contains("://") => self.mask_string(data),
            Block::Image { .. } => {}
            Block::Opaque { json, .. } => {
                if let Cow::Owned(masked) = self.mask_json(json) {
                    *json = masked;
                }
            }
        }
    }

    fn mask_options<'a>(&mut self, texts: impl IntoIterator<Item = &'a mut Option<String>>) {
        for text in texts.into_iter().flatten() {
            self.mask_string(text);
        }
    }

    fn mask_string(&mut self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask_text(text) {
            *text = masked;
        }
    }
}
