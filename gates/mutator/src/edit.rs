//! Changes to a text that lie in each other.

use std::ops::Range;

/// What stands in the place of a stretch of the source.
pub struct Edit {
    pub range: Range<usize>,
    pub pieces: Vec<Piece>,
}

pub enum Piece {
    Text(String),
    /// A stretch of the source, with all edits that lie in it except this one and those around it.
    Source(Range<usize>),
}

/// The source with all edits made. Of two at one place the first is the outer one; an insertion stands before all that
/// begins where it does.
pub fn rewrite(source: &str, edits: &[Edit]) -> String {
    let mut order: Vec<usize> = (0..edits.len()).collect();
    order.sort_by_key(|&at| {
        let range = &edits[at].range;
        (range.start, !range.is_empty(), usize::MAX - range.end, at)
    });
    let mut text = String::with_capacity(source.len() * 3);
    let page = Page {
        source,
        edits,
        order,
    };
    page.render(0..source.len(), 0, &mut text);
    text
}

struct Page<'a> {
    source: &'a str,
    edits: &'a [Edit],
    order: Vec<usize>,
}

impl Page<'_> {
    /// Renders a stretch with the edits from `from` on, in order, that lie in it.
    fn render(&self, range: Range<usize>, from: usize, text: &mut String) {
        let mut at = range.start;
        for (rank, &number) in self.order.iter().enumerate().skip(from) {
            let edit = &self.edits[number];
            if edit.range.start < at || edit.range.end > range.end {
                continue;
            }
            text.push_str(&self.source[at..edit.range.start]);
            for piece in &edit.pieces {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Source(range) => self.render(range.clone(), rank + 1, text),
                }
            }
            at = edit.range.end;
        }
        text.push_str(&self.source[at..range.end]);
    }
}
