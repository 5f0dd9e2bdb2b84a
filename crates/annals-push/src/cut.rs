//! Cuts files into the contents of segments.

use std::io;

use annals_jsonl::ReadAt;
use annals_segments::{MAX_CONTENT, MAX_LINES_CONTENT};

/// Result of looking for the next lines of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Whole lines: at most 256 KiB, or a single line.
    Some(Vec<u8>),
    /// There is no complete line.
    End,
    /// The line is too long to be sent.
    TooLong,
}

/// Reads the next whole lines from `offset` on.
pub(crate) fn next_lines(file: &impl ReadAt, offset: u64) -> io::Result<Lines> {
    let mut block = vec![0; MAX_LINES_CONTENT as usize];
    let mut read = 0;
    loop {
        let room = block.get_mut(read..).unwrap_or_default();
        let wanted = room.len();
        let got = file.fill_at(room, offset + read as u64)?;
        let new = block.get(read..read + got).unwrap_or_default();
        // Of several lines only as many as fit into the first block; of a longer line, all.
        let end = match read {
            0 => new.iter().rposition(|byte| *byte == b'\n'),
            _ => new.iter().position(|byte| *byte == b'\n'),
        };
        if let Some(end) = end {
            block.truncate(read + end + 1);
            return Ok(Lines::Some(block));
        }
        read += got;
        if got < wanted {
            return Ok(Lines::End);
        }
        if read as u64 >= MAX_CONTENT {
            return Ok(Lines::TooLong);
        }
        let longer = (2 * block.len()).min(MAX_CONTENT as usize);
        block.resize(longer, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn all_lines(content: &[u8]) -> Vec<usize> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let mut offset = 0;
        let mut lens = Vec::new();
        while let Lines::Some(lines) = next_lines(&file, offset).unwrap() {
            assert_eq!(lines, content[offset as usize..][..lines.len()]);
            offset += lines.len() as u64;
            lens.push(lines.len());
        }
        lens
    }

    #[test]
    fn lines_are_cut_at_their_ends() {
        assert_eq!(all_lines(b""), Vec::<usize>::new());
        assert_eq!(all_lines(b"no end"), Vec::<usize>::new());
        assert_eq!(all_lines(b"{}\n{}\nno end"), [6]);
        let line = [vec![b'x'; 99_999], vec![b'\n']].concat();
        assert_eq!(all_lines(&line.repeat(5)), [200_000, 200_000, 100_000]);
    }

    #[test]
    fn long_line_is_alone() {
        let long = [vec![b'x'; 900_000], vec![b'\n']].concat();
        let content = [b"{}\n".as_slice(), &long, b"{}\n"].concat();
        assert_eq!(all_lines(&content), [3, 900_001, 3]);
        let exact = [vec![b'x'; (256 << 10) - 1], vec![b'\n']].concat();
        assert_eq!(all_lines(&exact.repeat(2)), [256 << 10, 256 << 10]);
    }

    #[test]
    fn line_above_the_limit_is_reported() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MAX_CONTENT + 5).unwrap();
        assert_eq!(next_lines(&file, 0).unwrap(), Lines::TooLong);
    }
}
