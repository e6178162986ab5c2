//! A unit of media: the smallest piece that has an instant of its own.
//!
//! An access unit of video, a frame of coded audio, a block of PCM, a few packets of a transport
//! stream. Units come from a source or from a depacketizer, and go to a packetizer or a sink.

/// One unit. It borrows its bytes from whoever made it.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'u> {
    /// The bytes, in order. Video has one piece per NAL unit, without start code or length;
    /// everything else has one piece.
    pub pieces: &'u [&'u [u8]],
    /// When it is shown or heard: ticks of the stream's clock since its start. The RTP timestamp is
    /// this plus a random offset.
    pub time: u64,
    /// When it is to be sent, in the same ticks: the decoding time. Never less than that of the
    /// unit before; differs from `time` where video is reordered.
    pub due: u64,
    /// How long it lasts, in ticks; 0 where that is not known.
    pub duration: u32,
    /// Decoding may begin here: a key frame, or the first audio after silence.
    pub is_start: bool,
}

impl Unit<'_> {
    /// Bytes of all pieces together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Has it no byte?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory in which units are put together, one at a time: bytes of our own, or what
/// the caller publishes them from.
pub trait UnitMemory: Send {
    /// What there is of it.
    fn bytes(&self) -> &[u8];

    /// Adds bytes behind.
    fn extend(&mut self, bytes: &[u8]);

    /// Takes back what is behind the first `bytes`.
    fn truncate(&mut self, bytes: usize);

    /// The next unit begins. What was there may have been published and is left alone.
    fn clear(&mut self);
}

impl UnitMemory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn truncate(&mut self, bytes: usize) {
        Vec::truncate(self, bytes);
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }
}
