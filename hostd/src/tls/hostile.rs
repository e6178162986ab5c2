//! Whatever may come where records of TLS are expected, from strangers on the way and from hosts
//! that have the keys: for the bounded test, and for the fuzz target `host_records`, which includes
//! this file.

use std::collections::VecDeque;

use rustls::crypto::cipher::{AeadKey, Iv, MessageEncrypter, OutboundPlainMessage};
use rustls::crypto::ring::cipher_suite::TLS13_AES_256_GCM_SHA384;
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ExtractedSecrets, ProtocolVersion};

use super::record::{
    EMPTY_RECORDS_MAX, HEADER_BYTES, KEY_UPDATE, KEY_UPDATE_REQUESTED, KeyUpdates, Opened, Opener,
    PLAIN_BYTES_MAX, RECORD_BYTES_MAX, Sealer, halves,
};

/// It comes as it is; any other is sealed before, with this byte as the type of what is in it.
const AS_IT_IS: u8 = 255;
/// A little longer than may be.
const SEALED_BYTES_MAX: usize = PLAIN_BYTES_MAX + 8;

/// Reads `bytes` as records, each behind a byte that says what it is and its length (16 bits), and
/// opens them. No panic; only what was sealed comes out, in order; what carries nothing is bounded.
pub(crate) fn play(bytes: &[u8]) {
    let (mut sealer, opener) = both();
    let mut left = bytes;
    let mut there = There::new();
    let mut here = Here {
        opener,
        received: Vec::new(),
        empty: 0,
    };
    while let Some((&[what, low, high], rest)) = left.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([low, high]));
        let (data, rest) = rest.split_at(length.min(rest.len()));
        left = rest;
        match what {
            AS_IT_IS => here.received.extend_from_slice(data),
            typ => here.received.extend(there.seal(typ, data)),
        }
        if !here.open_all(&mut there.sent) {
            return;
        }
        // Before it goes a change of keys, if one was asked for.
        let mut records = Vec::new();
        sealer
            .seal((&[7; 10][..]).into(), &mut records)
            .expect("sealed");
        assert!((1..=2).contains(&records.len()));
    }
}

/// The side that is tried.
struct Here {
    opener: Opener,
    received: Vec<u8>,
    empty: u32,
}

impl Here {
    /// Opens what is whole. False: the connection has ended.
    fn open_all(&mut self, sent: &mut VecDeque<Vec<u8>>) -> bool {
        loop {
            let end = match self.opener.open(&mut self.received) {
                Ok(Opened::Data { plain, end }) => {
                    assert!(HEADER_BYTES <= plain.start && plain.end <= end);
                    let wanted = sent.pop_front().expect("something was sealed");
                    assert!(
                        self.received[plain] == *wanted,
                        "other bytes than were sealed"
                    );
                    self.empty = 0;
                    end
                }
                Ok(Opened::Nothing { end }) => {
                    self.empty += 1;
                    assert!(self.empty <= EMPTY_RECORDS_MAX);
                    end
                }
                Ok(Opened::Incomplete(missing)) => {
                    assert!(missing > 0 && self.received.len() + missing <= RECORD_BYTES_MAX);
                    return true;
                }
                Ok(Opened::Closed) | Err(_) => return false,
            };
            assert!(end <= self.received.len());
            self.received.drain(..end);
        }
    }
}

/// Whoever has the keys.
struct There {
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
    keys: Keys,
    /// What has to come out.
    sent: VecDeque<Vec<u8>>,
}

impl There {
    fn new() -> Self {
        Self {
            encrypter: encrypter(0),
            sequence: 0,
            keys: Keys::default(),
            sent: VecDeque::new(),
        }
    }

    fn seal(&mut self, typ: u8, data: &[u8]) -> Vec<u8> {
        let data = &data[..data.len().min(SEALED_BYTES_MAX)];
        let plain = OutboundPlainMessage {
            typ: ContentType::from(typ),
            version: ProtocolVersion::TLSv1_3,
            payload: data.into(),
        };
        let sealed = self.encrypter.encrypt(plain, self.sequence);
        let sealed = sealed.expect("sealed").encode();
        self.sequence += 1;
        match as_read(typ, data) {
            Some((23, payload)) if !payload.is_empty() => self.sent.push_back(payload.to_vec()),
            Some((22, payload)) if payload == KEY_UPDATE || payload == KEY_UPDATE_REQUESTED => {
                self.encrypter = encrypter(self.keys.next());
                self.sequence = 0;
            }
            _ => {}
        }
        sealed
    }
}

/// Zeros behind the type are padding (RFC 8446, section 5.4): if it is one, too, it is in the data.
fn as_read(typ: u8, data: &[u8]) -> Option<(u8, &[u8])> {
    if typ != 0 {
        return Some((typ, data));
    }
    let at = data.iter().rposition(|byte| *byte != 0)?;
    Some((data[at], &data[..at]))
}

/// Keys that both sides know: one after the other.
#[derive(Default)]
struct Keys(u8);

impl Keys {
    fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

/// Those of the sides are the same, so each has its own count.
#[derive(Default)]
struct Updates {
    sending: Keys,
    receiving: Keys,
}

impl KeyUpdates for Updates {
    fn next_sending(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        Ok((0, secrets(self.sending.next())))
    }

    fn next_receiving(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        Ok((0, secrets(self.receiving.next())))
    }
}

fn both() -> (Sealer, Opener) {
    let extracted = ExtractedSecrets {
        tx: (0, secrets(0)),
        rx: (0, secrets(0)),
    };
    let updates = Box::new(Updates::default());
    halves(TLS13_AES_256_GCM_SHA384, extracted, updates).expect("TLS 1.3")
}

fn secrets(number: u8) -> ConnectionTrafficSecrets {
    let (key, iv) = key(number);
    ConnectionTrafficSecrets::Aes256Gcm { key, iv }
}

fn encrypter(number: u8) -> Box<dyn MessageEncrypter> {
    let suite = TLS13_AES_256_GCM_SHA384.tls13().expect("TLS 1.3");
    let (key, iv) = key(number);
    suite.aead_alg.encrypter(key, iv)
}

fn key(number: u8) -> (AeadKey, Iv) {
    (AeadKey::from([number; 32]), Iv::from([number; 12]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    const DATA: u8 = 23;

    fn script(records: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (what, data) in records {
            bytes.push(*what);
            let length = u16::try_from(data.len()).expect("short");
            bytes.extend(length.to_le_bytes());
            bytes.extend(*data);
        }
        bytes
    }

    /// As the fuzz target, bounded.
    #[test]
    fn whatever_comes_in_records_is_bounded() {
        let talk = script(&[
            (DATA, b"one"),
            (HANDSHAKE, &KEY_UPDATE),
            (DATA, b""),
            (DATA, &[1; 300]),
            (0, &[2, 2, DATA, 0, 0]),
            (HANDSHAKE, &KEY_UPDATE_REQUESTED),
            (DATA, b"three"),
            (ALERT, &[1, 0]),
        ]);
        let long = [3; SEALED_BYTES_MAX];
        let cut = script(&[(DATA, &long[..PLAIN_BYTES_MAX]), (AS_IT_IS, &[23, 3, 3, 1])]);
        let nothing = [(DATA, &b""[..]); 2 * EMPTY_RECORDS_MAX as usize];
        let others = [script(&[(DATA, &long)]), script(&nothing)];
        let [too_long, empty] = others;
        hythe_testing::play(&[talk, cut, too_long, empty], 20_000, |bytes| play(&bytes));
    }

    /// The bounds that the test above tries are reached in it.
    #[test]
    fn what_was_sealed_comes_out_and_what_carries_nothing_ends_it() {
        let (mut there, (_, opener)) = (There::new(), both());
        let mut here = Here {
            opener,
            received: Vec::new(),
            empty: 0,
        };
        let records: [(u8, &[u8]); 4] = [
            (DATA, b"one"),
            (HANDSHAKE, &KEY_UPDATE),
            (0, &[2, DATA, 0]),
            (DATA, b"two"),
        ];
        for (typ, data) in records {
            here.received.extend(there.seal(typ, data));
        }
        assert!(here.open_all(&mut there.sent) && there.sent.is_empty());
        for _ in 0..EMPTY_RECORDS_MAX {
            here.received.extend(there.seal(DATA, b""));
            assert!(here.open_all(&mut there.sent));
        }
        here.received.extend(there.seal(DATA, b""));
        assert!(!here.open_all(&mut there.sent));
    }
}
