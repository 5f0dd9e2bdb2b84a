//! Inverted index segments: collects tokens, and encodes and decodes them.
//!
//! A document is a record of a log. A segment numbers its documents from 0 and maps each token to
//! the documents that contain it. Tokens are sorted, so prefixes can be looked up too. Segments are
//! immutable: new documents create new segments, and many small ones are merged into one.

use hashbrown::HashTable;

use crate::search::tokenizer::Token;

/// Approximate size of a block of tokens, in bytes. A lookup reads one block; four blocks fill a
/// database page.
const BLOCK: usize = 3_800;

/// Collector of the tokens of documents being read.
#[derive(Default)]
pub(super) struct TokenCollector {
    /// Token numbers, hashed by token.
    numbers: HashTable<u32>,
    tokens: Vec<Token>,
    /// Last document of each token, by token number.
    last: Vec<u32>,
    /// Pairs of token number and document, in document order.
    pairs: Vec<(u32, u32)>,
    /// Number of documents.
    pub(super) documents: u32,
}

impl TokenCollector {
    /// Records that the current document contains `token`.
    pub(super) fn add(&mut self, token: Token) {
        let tokens = &self.tokens;
        let is_it = |number: &u32| tokens.get(*number as usize) == Some(&token);
        let number = match self.numbers.find(hash(token), is_it) {
            Some(number) => *number,
            None => {
                let Ok(number) = u32::try_from(tokens.len()) else {
                    return;
                };
                let again = |number: &u32| {
                    let token = self.tokens.get(*number as usize);
                    token.map_or(0, |token| hash(*token))
                };
                self.numbers.insert_unique(hash(token), number, again);
                self.tokens.push(token);
                self.last.push(u32::MAX);
                number
            }
        };
        if let Some(last) = self.last.get_mut(number as usize)
            && *last != self.documents
        {
            *last = self.documents;
            self.pairs.push((number, self.documents));
        }
    }

    /// Ends the current document.
    pub(super) fn end_document(&mut self) {
        self.documents += 1;
    }

    /// Returns the tokens in sorted order, each with its documents.
    pub(super) fn sorted(mut self) -> Vec<(Token, Vec<u32>)> {
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); self.tokens.len()];
        for (number, document) in std::mem::take(&mut self.pairs) {
            if let Some(list) = lists.get_mut(number as usize) {
                list.push(document);
            }
        }
        let mut sorted: Vec<(Token, Vec<u32>)> = self.tokens.into_iter().zip(lists).collect();
        sorted.sort_unstable_by_key(|(token, _)| *token);
        sorted
    }
}

fn hash(token: Token) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: &u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let sum = token.to_u64s().iter().fold(FACTOR, mix);
    sum ^ (sum >> 32)
}

/// Encoder of sorted tokens into blocks.
#[derive(Default)]
pub(super) struct Blocks {
    first: Token,
    last: Token,
    bytes: Vec<u8>,
}

impl Blocks {
    /// Adds a token and its documents. Tokens must be added in sorted order. Returns the previous
    /// block once it is full: its first token and its bytes.
    pub(super) fn add(&mut self, token: Token, documents: &[u32]) -> Option<(Token, Vec<u8>)> {
        let full = match self.bytes.len() >= BLOCK {
            true => self.take(),
            false => None,
        };
        if self.bytes.is_empty() {
            self.first = token;
            self.last = Token::default();
        }
        let (bytes, last) = (token.to_bytes(), self.last.to_bytes());
        let len = token.len();
        let same = bytes
            .iter()
            .zip(&last)
            .take(len)
            .take_while(|(a, b)| a == b);
        let same = same.count();
        self.bytes.push(same as u8);
        self.bytes.push((len - same) as u8);
        self.bytes
            .extend_from_slice(bytes.get(same..len).unwrap_or_default());
        self.last = token;
        let mut list = Vec::with_capacity(documents.len() + 4);
        let mut before = 0;
        for document in documents {
            put_varint(&mut list, u64::from(document - before));
            before = *document;
        }
        put_varint(&mut self.bytes, list.len() as u64);
        self.bytes.append(&mut list);
        full
    }

    /// Returns the unfinished block, if it is not empty.
    pub(super) fn take(&mut self) -> Option<(Token, Vec<u8>)> {
        let bytes = std::mem::take(&mut self.bytes);
        (!bytes.is_empty()).then_some((self.first, bytes))
    }
}

/// Iterator over the tokens of an encoded block and their document lists. Stops where the block is
/// damaged.
pub(super) struct Block<'a> {
    rest: &'a [u8],
    last: [u8; 24],
}

impl<'a> Block<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Block {
            rest: bytes,
            last: [0; 24],
        }
    }
}

impl<'a> Iterator for Block<'a> {
    type Item = (Token, DocumentList<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let ([same, len], rest) = self.rest.split_first_chunk::<2>()?;
        let (fresh, mut rest) = rest.split_at_checked(usize::from(*len))?;
        let end = usize::from(*same) + fresh.len();
        self.last
            .get_mut(usize::from(*same)..end)?
            .copy_from_slice(fresh);
        self.last.get_mut(end..)?.fill(0);
        let bytes = usize::try_from(get_varint(&mut rest)?).ok()?;
        let (list, rest) = rest.split_at_checked(bytes)?;
        self.rest = rest;
        let list = DocumentList {
            rest: list,
            last: 0,
        };
        Some((Token::from_bytes(&self.last), list))
    }
}

/// Iterator over the documents of a token.
pub(super) struct DocumentList<'a> {
    rest: &'a [u8],
    last: u32,
}

impl Iterator for DocumentList<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let step = u32::try_from(get_varint(&mut self.rest)?).ok()?;
        self.last = self.last.checked_add(step)?;
        Some(self.last)
    }
}

/// Appends a number as a varint (LEB128).
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a varint and advances `bytes` past it.
pub(super) fn get_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Set of documents, as a bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Documents(Vec<u64>);

impl Documents {
    /// Returns the empty set, with room for `count` documents.
    pub(super) fn none(count: u32) -> Self {
        Documents(vec![0; (count as usize).div_ceil(64)])
    }

    pub(super) fn add(&mut self, document: u32) {
        if let Some(word) = self.0.get_mut(document as usize / 64) {
            *word |= 1 << (document % 64);
        }
    }

    pub(super) fn contains(&self, document: u32) -> bool {
        let word = self.0.get(document as usize / 64);
        word.is_some_and(|word| word & (1 << (document % 64)) != 0)
    }

    /// Returns true if the set has a document from `first` up to, but not including, `end`.
    pub(super) fn any_within(&self, first: u32, end: u32) -> bool {
        (first..end).any(|document| self.contains(document))
    }

    pub(super) fn both(mut self, other: &Documents) -> Self {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(to, from)| *to &= from);
        self
    }

    pub(super) fn either(mut self, other: &Documents) -> Self {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(to, from)| *to |= from);
        self
    }

    /// Returns the number of documents in the set.
    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the documents in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(at as u32 * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::tokenizer::Tokenizer;

    fn token(text: &str) -> Token {
        Token::from_bytes(text.as_bytes())
    }

    #[test]
    fn collected_tokens_round_trip_through_blocks() {
        let mut collected = TokenCollector::default();
        let texts = ["one two one", "two three", "", "three one prefix preface"];
        let mut cutter = Tokenizer::default();
        for text in texts {
            cutter.tokenize(text, &mut |token| collected.add(token));
            collected.end_document();
        }
        assert_eq!(collected.documents, 4);
        let mut blocks = Blocks::default();
        for (token, documents) in collected.sorted() {
            assert!(blocks.add(token, &documents).is_none());
        }
        let (first, bytes) = blocks.take().unwrap();
        assert_eq!(first, token("one"));
        let read: Vec<(Token, Vec<u32>)> = Block::new(&bytes)
            .map(|(token, list)| (token, list.collect()))
            .collect();
        assert_eq!(
            read,
            [
                (token("one"), vec![0, 3]),
                (token("preface"), vec![3]),
                (token("prefix"), vec![3]),
                (token("three"), vec![1, 3]),
                (token("two"), vec![0, 1]),
            ]
        );
        // No bytes in the database may cause a panic.
        for at in 0..bytes.len() {
            Block::new(&bytes[..at]).for_each(|(_, list)| assert!(list.count() <= bytes.len()));
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            Block::new(&changed).for_each(|(_, list)| assert!(list.count() <= bytes.len()));
        }
    }

    #[test]
    fn full_blocks_are_returned_in_order() {
        let mut blocks = Blocks::default();
        let mut given = Vec::new();
        let documents: Vec<u32> = (0..100).map(|n| n * 1_000).collect();
        for number in 0..1_000 {
            given.extend(blocks.add(token(&format!("t{number:04}")), &documents));
        }
        given.extend(blocks.take());
        assert!(given.len() > 2);
        let mut number = 0;
        for (first, bytes) in given {
            assert_eq!(first, token(&format!("t{number:04}")));
            for (read, list) in Block::new(&bytes) {
                assert_eq!(read, token(&format!("t{number:04}")));
                assert!(list.eq(documents.iter().copied()));
                number += 1;
            }
        }
        assert_eq!(number, 1_000);
    }

    #[test]
    fn document_sets_contain_what_was_added() {
        let mut set = Documents::none(130);
        [0, 64, 129].into_iter().for_each(|one| set.add(one));
        let found: Vec<u32> = (0..200).filter(|one| set.contains(*one)).collect();
        assert_eq!(found, [0, 64, 129]);
        assert!(set.any_within(1, 65) && !set.any_within(1, 64) && !set.any_within(130, 900));
    }

    #[test]
    fn document_sets_intersect_and_unite() {
        let set = |members: &[u32]| {
            let mut set = Documents::none(200);
            members.iter().for_each(|one| set.add(*one));
            set
        };
        let (a, b) = (set(&[0, 63, 64, 199]), set(&[63, 100, 199]));
        let both: Vec<u32> = a.clone().both(&b).iter().collect();
        assert_eq!(both, [63, 199]);
        let either: Vec<u32> = a.either(&b).iter().collect();
        assert_eq!(either, [0, 63, 64, 100, 199]);
    }
}
