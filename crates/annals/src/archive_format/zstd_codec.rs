//! Compresses and decompresses single zstd frames. Without the feature `archive`, both fail.

#[cfg(feature = "archive")]
mod codec {
    use std::io;

    use zstd::bulk::{Compressor, Decompressor};
    use zstd::zstd_safe::{CParameter, compress_bound};

    /// A balance of speed and size. Makes up for what small frames cost.
    const LEVEL: i32 = 4;

    pub(in super::super) struct Encoder(Compressor<'static>);

    impl Encoder {
        pub(in super::super) fn new() -> io::Result<Self> {
            let mut compressor = Compressor::new(LEVEL)?;
            compressor.set_parameter(CParameter::ChecksumFlag(true))?;
            Ok(Encoder(compressor))
        }

        /// Replaces `packed` by a frame with the content and its checksum.
        pub(in super::super) fn encode(
            &mut self,
            content: &[u8],
            packed: &mut Vec<u8>,
        ) -> io::Result<()> {
            packed.clear();
            packed.reserve(compress_bound(content.len()));
            self.0.compress_to_buffer(content, packed).map(|_| ())
        }
    }

    pub(in super::super) struct Decoder(Decompressor<'static>);

    impl Decoder {
        pub(in super::super) fn new() -> io::Result<Self> {
            Decompressor::new().map(Decoder)
        }

        /// Decompresses a frame into a buffer, which limits its length; returns the length.
        pub(in super::super) fn decode(
            &mut self,
            packed: &[u8],
            content: &mut [u8],
        ) -> io::Result<usize> {
            self.0.decompress_to_buffer(packed, content)
        }
    }
}

#[cfg(not(feature = "archive"))]
mod codec {
    use std::io;

    fn unsupported() -> io::Error {
        let text = "annals was built without the feature `archive`";
        io::Error::new(io::ErrorKind::Unsupported, text)
    }

    pub(in super::super) enum Encoder {}

    impl Encoder {
        pub(in super::super) fn new() -> io::Result<Self> {
            Err(unsupported())
        }

        pub(in super::super) fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
            match *self {}
        }
    }

    pub(in super::super) enum Decoder {}

    impl Decoder {
        pub(in super::super) fn new() -> io::Result<Self> {
            Err(unsupported())
        }

        pub(in super::super) fn decode(&mut self, _: &[u8], _: &mut [u8]) -> io::Result<usize> {
            match *self {}
        }
    }
}

pub(super) use codec::{Decoder, Encoder};
