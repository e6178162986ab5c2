//! Reads bytes as all that another host may send: for the test of frames and the fuzz target.

use hythe_cluster::frame::{Answer, Assembler, Control, Header, Hello, MESSAGE_BYTES_MAX, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads `bytes` as headers, and as messages of each kind, in pieces of several sizes.
pub(crate) fn read_all(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk::<{ Header::BYTES }>()
        && let Ok(read) = Header::from_bytes(header)
    {
        assert_eq!(read.to_bytes(), *header);
    }
    for piece in [1, 7, 4096] {
        read_messages::<Hello>(bytes, piece);
        read_messages::<Answer>(bytes, piece);
        read_messages::<Control>(bytes, piece);
    }
}

fn read_messages<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    mut bytes: &[u8],
    piece: usize,
) {
    let mut assembler = Assembler::default();
    while !bytes.is_empty() {
        let Ok(taken) = assembler.take_in(&bytes[..piece.min(bytes.len())]) else {
            return;
        };
        bytes = &bytes[taken..];
        match assembler.message::<T>() {
            Ok(Some(message)) => write_and_read(&message),
            Ok(None) => assert!(taken > 0, "it goes on"),
            Err(_) => return,
        }
    }
}

fn write_and_read<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(message: &T) {
    let mut written = Vec::new();
    encode(message, &mut written).expect("what was read is short");
    assert!(written.len() <= MESSAGE_BYTES_MAX + 4);
    let mut assembler = Assembler::default();
    let mut left = &written[..];
    while !left.is_empty() {
        left = &left[assembler.take_in(left).expect("its own")..];
    }
    let again: T = assembler.message().expect("readable").expect("whole");
    assert_eq!(again, *message);
}
