//! Masks the secrets of entries.

use std::borrow::Cow;

use crate::json;
use crate::model::{Block, Body, Entry, FileChange, Message, Place, Todo};

use super::Redactor;

impl Redactor {
    /// Masks the secrets of an entry. Its ids stay: links hang on them.
    pub fn entry(&mut self, entry: &mut Entry) {
        let Place {
            cwd,
            git_branch,
            version: _,
            channel: _,
        } = &mut entry.place;
        self.each([cwd, git_branch]);
        let members = entry.members.iter_mut().map(|(name, json)| (&*name, json));
        let of_blocks = entry.block_members.values_mut().flatten();
        for (name, json) in members.chain(of_blocks) {
            *json = match json::string(json) {
                Some(text) => json::quote(&self.member(name, &text)),
                None => self.json(json).into_owned(),
            };
        }
        match &mut entry.body {
            Body::Message(message) => self.message(message),
            Body::Summary { text, .. }
            | Body::Compaction { text }
            | Body::System { text, .. }
            | Body::Attachment { text, .. }
            | Body::Title { text, .. }
            | Body::Queue { text, .. }
            | Body::Tag { text } => self.one(text),
            Body::Note { author, text } => {
                self.each([author]);
                self.one(text);
            }
            Body::Typed { text, project, .. } => {
                self.each([project]);
                self.one(text);
            }
            Body::Todos(todos) => self.todos(todos),
            Body::Files(FileChange { backups, .. }) => {
                for backup in backups {
                    self.one(&mut backup.path);
                    self.each([&mut backup.base, &mut backup.stored, &mut backup.snippet]);
                }
            }
            Body::Agent { description, .. } => self.each([description]),
            Body::Resume { .. }
            | Body::Settings { .. }
            | Body::Register(_)
            | Body::Opaque { .. } => {}
        }
    }

    /// Masks the secrets of a list of todos.
    pub fn todos(&mut self, todos: &mut [Todo]) {
        for todo in todos {
            self.one(&mut todo.content);
            self.each([&mut todo.active_form]);
        }
    }

    fn message(&mut self, message: &mut Message) {
        self.each([&mut message.stored]);
        for block in &mut message.blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &mut Block) {
        match block {
            Block::Text(text) | Block::Thinking { text, .. } => self.one(text),
            Block::ToolUse { input, .. } => {
                if let Cow::Owned(masked) = self.json(input) {
                    *input = masked;
                }
            }
            // Results are flat, so this goes one level deep.
            Block::ToolResult { output, .. } => {
                for block in output {
                    self.block(block);
                }
            }
            // Its bytes are no text; its address may carry a signature.
            Block::Image { data, .. } if data.contains("://") => self.one(data),
            Block::Image { .. } => {}
            Block::Opaque { json, .. } => {
                if let Cow::Owned(masked) = self.json(json) {
                    *json = masked;
                }
            }
        }
    }

    fn each<'a>(&mut self, texts: impl IntoIterator<Item = &'a mut Option<String>>) {
        for text in texts.into_iter().flatten() {
            self.one(text);
        }
    }

    fn one(&mut self, text: &mut String) {
        if let Cow::Owned(masked) = self.text(text) {
            *text = masked;
        }
    }
}
