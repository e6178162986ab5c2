//! The record layer of TLS 1.3 after the handshake, in two halves that share nothing but key
//! updates.
//!
//! `rustls` makes the keys and seals and opens each record; this puts records one after the other
//! (RFC 8446, section 5). It is ours for two reasons: two threads use the two halves of a
//! connection without a lock, and a record is opened where it was received, so that its bytes are
//! copied once, to where they belong. Bytes in, bytes out: never calls the system.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks,
    OutboundPlainMessage,
};
use rustls::kernel::KernelConnection;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, ExtractedSecrets,
    ProtocolVersion, SupportedCipherSuite, Tls13CipherSuite,
};

/// The most that one record carries.
pub(super) const PLAIN_BYTES_MAX: usize = 16_384;

/// What comes before the sealed part: type, version, length.
pub(super) const HEADER_BYTES: usize = 5;

/// The largest record: its header, the longest plain part, and what sealing may add.
pub(super) const RECORD_BYTES_MAX: usize = HEADER_BYTES + PLAIN_BYTES_MAX + 256;

/// Records under one key: half of what `rustls` allows for AES-GCM.
const RECORDS_PER_KEY: u64 = 1 << 23;

/// Records in a row that carry nothing: more are an attempt to keep this side busy.
pub(super) const EMPTY_RECORDS_MAX: u32 = 32;

/// A handshake message `KeyUpdate` that asks for none in return.
pub(super) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// One that asks for one in return, before anything else is sent.
pub(super) const KEY_UPDATE_REQUESTED: [u8; 5] = [24, 0, 0, 1, 1];

/// The alert `close_notify`.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// What makes the next keys of a connection; both halves have it.
pub(super) trait KeyUpdates: Send {
    fn next_sending(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error>;
    fn next_receiving(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error>;
}

impl<Data: Send> KeyUpdates for KernelConnection<Data> {
    fn next_sending(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.update_tx_secret()
    }

    fn next_receiving(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.update_rx_secret()
    }
}

#[derive(Clone)]
struct Shared {
    suite: &'static Tls13CipherSuite,
    updates: Arc<Mutex<Box<dyn KeyUpdates>>>,
    /// The other side asked this one to change its key, too. Read and written alone: nothing is
    /// ordered by it.
    is_requested: Arc<AtomicBool>,
}

/// Seals what is sent.
pub(super) struct Sealer {
    shared: Shared,
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
    records_per_key: u64,
}

/// Opens what is received.
pub(super) struct Opener {
    shared: Shared,
    decrypter: Box<dyn MessageDecrypter>,
    sequence: u64,
    empty_in_a_row: u32,
}

/// What a record was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// The record is not whole yet: this many bytes are missing, at least.
    Incomplete(usize),
    /// It carried these bytes, of the buffer that was given; the record ends at `end`.
    Data { plain: Range<usize>, end: usize },
    /// It was for the record layer; it ends at `end`.
    Nothing { end: usize },
    /// The other side has closed.
    Closed,
}

/// Both halves, from what a handshake has come to.
pub(super) fn halves(
    suite: SupportedCipherSuite,
    secrets: ExtractedSecrets,
    updates: Box<dyn KeyUpdates>,
) -> Result<(Sealer, Opener), Error> {
    let suite = suite
        .tls13()
        .ok_or_else(|| Error::General("the connection is not TLS 1.3".to_owned()))?;
    let shared = Shared {
        suite,
        updates: Arc::new(Mutex::new(updates)),
        is_requested: Arc::default(),
    };
    let ((sending, sender), (receiving, receiver)) = (secrets.tx, secrets.rx);
    let (key, iv) = key_and_iv(sender)?;
    let sealer = Sealer {
        shared: shared.clone(),
        encrypter: suite.aead_alg.encrypter(key, iv),
        sequence: sending,
        records_per_key: RECORDS_PER_KEY,
    };
    let (key, iv) = key_and_iv(receiver)?;
    let opener = Opener {
        decrypter: suite.aead_alg.decrypter(key, iv),
        shared,
        sequence: receiving,
        empty_in_a_row: 0,
    };
    Ok((sealer, opener))
}

impl Sealer {
    /// Appends the records that carry `data`: it is copied once, and sealed where it lies then.
    pub(super) fn seal(
        &mut self,
        data: OutboundChunks<'_>,
        records: &mut Vec<Vec<u8>>,
    ) -> Result<(), Error> {
        let is_requested = self.shared.is_requested.load(Ordering::Relaxed);
        if is_requested || self.sequence >= self.records_per_key {
            self.shared.is_requested.store(false, Ordering::Relaxed);
            records.push(self.seal_one(ContentType::Handshake, (&KEY_UPDATE[..]).into())?);
            let (sequence, secrets) = self.shared.lock().next_sending()?;
            let (key, iv) = key_and_iv(secrets)?;
            self.encrypter = self.shared.suite.aead_alg.encrypter(key, iv);
            self.sequence = sequence;
        }
        records.push(self.seal_one(ContentType::ApplicationData, data)?);
        Ok(())
    }

    /// The record that says that nothing more comes.
    pub(super) fn close_notify(&mut self) -> Result<Vec<u8>, Error> {
        self.seal_one(ContentType::Alert, (&CLOSE_NOTIFY[..]).into())
    }

    /// Changes keys after so many records, instead of after as many as is safe.
    #[cfg(test)]
    pub(super) fn change_keys_after(&mut self, records: u64) {
        self.records_per_key = records;
    }

    fn seal_one(
        &mut self,
        typ: ContentType,
        payload: OutboundChunks<'_>,
    ) -> Result<Vec<u8>, Error> {
        let plain = OutboundPlainMessage {
            typ,
            version: ProtocolVersion::TLSv1_3,
            payload,
        };
        let sealed = self.encrypter.encrypt(plain, self.sequence)?;
        self.sequence += 1;
        Ok(sealed.encode())
    }
}

impl Opener {
    /// Opens the record at the beginning of `bytes`, in place.
    pub(super) fn open(&mut self, bytes: &mut [u8]) -> Result<Opened, Error> {
        let Some(end) = record_end(bytes)? else {
            return Ok(Opened::Incomplete(HEADER_BYTES - bytes.len()));
        };
        if end > bytes.len() {
            return Ok(Opened::Incomplete(end - bytes.len()));
        }
        let base = bytes.as_ptr().addr();
        let sealed = InboundOpaqueMessage::new(
            ContentType::ApplicationData,
            ProtocolVersion::TLSv1_2,
            &mut bytes[HEADER_BYTES..end],
        );
        let plain = self.decrypter.decrypt(sealed, self.sequence)?;
        self.sequence = self.sequence.checked_add(1).ok_or(Error::DecryptError)?;
        match plain.typ {
            ContentType::ApplicationData if !plain.payload.is_empty() => {
                self.empty_in_a_row = 0;
                // It lies within `bytes`, where it was opened.
                let start = plain.payload.as_ptr().addr() - base;
                let plain = start..start + plain.payload.len();
                Ok(Opened::Data { plain, end })
            }
            ContentType::ApplicationData => self.note_empty(end),
            ContentType::Handshake
                if [KEY_UPDATE, KEY_UPDATE_REQUESTED]
                    .iter()
                    .any(|one| plain.payload == one) =>
            {
                let is_requested = plain.payload == KEY_UPDATE_REQUESTED;
                self.shared
                    .is_requested
                    .fetch_or(is_requested, Ordering::Relaxed);
                self.change_key()?;
                self.note_empty(end)
            }
            ContentType::Alert => closed(plain.payload),
            typ => Err(Error::InappropriateMessage {
                expect_types: vec![ContentType::ApplicationData],
                got_type: typ,
            }),
        }
    }

    fn note_empty(&mut self, end: usize) -> Result<Opened, Error> {
        self.empty_in_a_row += 1;
        match self.empty_in_a_row > EMPTY_RECORDS_MAX {
            true => Err(Error::General("too many records without data".to_owned())),
            false => Ok(Opened::Nothing { end }),
        }
    }

    fn change_key(&mut self) -> Result<(), Error> {
        let (sequence, secrets) = self.shared.lock().next_receiving()?;
        let (key, iv) = key_and_iv(secrets)?;
        self.decrypter = self.shared.suite.aead_alg.decrypter(key, iv);
        self.sequence = sequence;
        Ok(())
    }
}

impl Shared {
    /// A panic while keys are made leaves the old ones.
    fn lock(&self) -> std::sync::MutexGuard<'_, Box<dyn KeyUpdates>> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the record at the beginning of `bytes` ends; `None` if its header is not whole.
fn record_end(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let [typ, _, _, high, low] = *header;
    let end = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if typ != u8::from(ContentType::ApplicationData) {
        return Err(Error::InappropriateMessage {
            expect_types: vec![ContentType::ApplicationData],
            got_type: ContentType::from(typ),
        });
    }
    match end > RECORD_BYTES_MAX {
        true => Err(Error::PeerSentOversizedRecord),
        false => Ok(Some(end)),
    }
}

fn closed(alert: &[u8]) -> Result<Opened, Error> {
    match *alert {
        [_, description] => match AlertDescription::from(description) {
            AlertDescription::CloseNotify => Ok(Opened::Closed),
            other => Err(Error::AlertReceived(other)),
        },
        _ => Err(Error::InvalidMessage(
            rustls::InvalidMessage::MessageTooShort,
        )),
    }
}

fn key_and_iv(secrets: ConnectionTrafficSecrets) -> Result<(AeadKey, Iv), Error> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        _ => Err(Error::General(
            "the cipher is none of this program's".to_owned(),
        )),
    }
}

impl fmt::Debug for Sealer {
    /// Without keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sealer")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Opener {
    /// Without keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Opener")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}
