//! Whatever may come over a tunnel, and from whoever may say it: for the bounded test, and for the
//! fuzz target `host_tunnels`, which includes this file.

use super::flow::{CHUNK_BYTES, Flow, WINDOW_BYTES};
use super::message::Message;

/// Reads `bytes` as messages, each behind its length (16 bits), and has one end take them, which
/// sends something at each `open`. No panic, and no more is kept than the window.
pub(crate) fn play(bytes: &[u8]) {
    let (mut flow, mut left) = (Flow::default(), bytes);
    while let Some((length, rest)) = left.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (message, rest) = rest.split_at(length.min(rest.len()));
        left = rest;
        let Some(message) = Message::decode(message) else {
            continue;
        };
        assert_eq!(Message::decode(&message.encode()), Some(message));
        let is_sound = match message {
            Message::Open => {
                let _ = flow.send(&[7; 3 * CHUNK_BYTES / 2]);
                true
            }
            Message::Bytes(position, bytes) => flow.take(position, bytes),
            Message::Taken(there) => flow.taken(there),
            Message::Close => false,
        };
        if !is_sound {
            return;
        }
        let _ = (flow.owed(), flow.probe(), flow.wants_mending());
        while let Some((_, chunk)) = flow.send_again() {
            assert!((1..=CHUNK_BYTES).contains(&chunk.len()));
        }
        let mut into = [0; 1000];
        let (consumed, _) = flow.consume(&mut into);
        assert!(consumed <= into.len());
    }
    let mut rest = vec![0; 2 * WINDOW_BYTES];
    assert!(flow.consume(&mut rest).0 <= WINDOW_BYTES);
}

#[cfg(test)]
mod tests {
    use super::super::flow::Taken;
    use super::*;

    fn script(messages: &[Message<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            let encoded = message.encode();
            let length = u16::try_from(encoded.len()).expect("short");
            bytes.extend(length.to_le_bytes());
            bytes.extend(encoded);
        }
        bytes
    }

    /// As the fuzz target, bounded.
    #[test]
    fn whatever_comes_over_a_tunnel_is_bounded() {
        let taken = |received, consumed, is_missing| {
            Message::Taken(Taken {
                received,
                consumed,
                is_missing,
            })
        };
        let part = [1; 300];
        let talk = script(&[
            Message::Open,
            Message::Bytes(0, &part),
            Message::Bytes(600, &part),
            Message::Bytes(300, &part),
            taken(100, 0, true),
            Message::Open,
            taken(CHUNK_BYTES as u64, 50, false),
            Message::Bytes(600, &[]),
            Message::Close,
        ]);
        let far = script(&[Message::Bytes(u64::MAX, &part), taken(u64::MAX, 0, true)]);
        hythe_testing::play(&[talk, far, Vec::new()], 20_000, |bytes| play(&bytes));
    }
}
