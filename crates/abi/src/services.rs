//! What the payload of a call and of its reply begins with (`spec/services.md`): 32 bytes.

/// Bytes of a header.
pub const BYTES: usize = 32;

/// The last method that is a program's own; those behind it are Hythe's. The first is 1.
pub const OWN_METHOD_MAX: u32 = 0x7FFF_FFFF;

/// The longest time-out that a header can say; "for ever" is none.
pub const TIMEOUT_MS_MAX: u32 = u32::MAX - 1;

/// Result of a reply: the server has no such method.
pub const NO_SUCH_METHOD: i32 = -38;

/// Result of a reply: the result is larger than the caller takes; value 0 is its size in bytes.
pub const RESULT_TOO_LARGE: i32 = -90;

/// The header of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallHeader {
    /// Which method, never 0.
    pub method: u32,
    /// Number of the caller's task on a core, 0: none.
    pub task: u32,
    /// How long the caller waits, at most [`TIMEOUT_MS_MAX`].
    pub timeout_ms: u32,
    /// By method.
    pub flags: u32,
    /// By method. Of a program's own methods, the first is the largest result that the caller
    /// takes, in bytes.
    pub arguments: [u32; 3],
    /// Bytes behind the header.
    pub bytes: u32,
}

impl CallHeader {
    /// The bytes as they stand in the payload.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let [first, second, third] = self.arguments;
        bytes_of([
            self.method,
            self.task,
            self.timeout_ms,
            self.flags,
            first,
            second,
            third,
            self.bytes,
        ])
    }

    /// Reads a peer's claim; `None` if it is none of ours.
    #[must_use]
    pub fn from_bytes(bytes: [u8; BYTES]) -> Option<Self> {
        let [method, task, timeout_ms, flags, first, second, third, bytes] = words_of(bytes);
        (method != 0 && timeout_ms <= TIMEOUT_MS_MAX).then_some(Self {
            method,
            task,
            timeout_ms,
            flags,
            arguments: [first, second, third],
            bytes,
        })
    }
}

/// The header of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The method that was called.
    pub method: u32,
    /// 0, or what went wrong.
    pub result: i32,
    /// By method and result.
    pub values: [u32; 5],
    /// Bytes behind the header.
    pub bytes: u32,
}

impl ReplyHeader {
    /// The bytes as they stand in the payload.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let [a, b, c, d, e] = self.values;
        let result = self.result.cast_unsigned();
        bytes_of([self.method, result, a, b, c, d, e, self.bytes])
    }

    /// Reads a peer's claim. Whether it makes sense, its method decides.
    #[must_use]
    pub fn from_bytes(bytes: [u8; BYTES]) -> Self {
        let [method, result, a, b, c, d, e, bytes] = words_of(bytes);
        Self {
            method,
            result: result.cast_signed(),
            values: [a, b, c, d, e],
            bytes,
        }
    }
}

fn bytes_of(words: [u32; 8]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn words_of(bytes: [u8; BYTES]) -> [u32; 8] {
    let mut words = [0; 8];
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        let mut four = [0; 4];
        four.copy_from_slice(place);
        *word = u32::from_le_bytes(four);
    }
    words
}
