//! Parity of a stream on its way: made as packets leave, and sent one by one between the groups that follow.
//!
//! Between calls the queue has room for what the next packet makes. Nothing is allocated after [`ParitySender::new`].

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::MediaError;
use crate::loss::fec::encoder::{Direction, FecPacket, Format};
use crate::loss::fec::{Encoder, ulpfec};
use crate::rtp::{HEADER_BYTES, Identity};
use crate::wire::destinations::Destinations;

use super::repair::Parity;

/// Parity packets that wait, at most: those of a group of the largest size where each row is one packet.
const WAITING_MAX: usize = 64;
/// What a packet makes, at most: a row and a column.
const PER_PACKET: usize = 2;
/// SMPTE ST 2022-1, annex: where parity goes, counted from the port of the media.
const COLUMN_PORTS_ABOVE: u16 = 2;
const ROW_PORTS_ABOVE: u16 = 4;

#[derive(Debug)]
struct Made {
    bytes: Vec<u8>,
    ports_above: u16,
}

/// Makes and sends the parity of one stream.
#[derive(Debug)]
pub(super) struct ParitySender {
    encoder: Encoder,
    format: Format,
    waiting: VecDeque<Made>,
    spare: Vec<Vec<u8>>,
    /// Packets sent, each counted once however many destinations there are.
    sent: u64,
}

impl ParitySender {
    /// For payloads of at most `payload_bytes_max`.
    pub(super) fn new(
        parity: &Parity,
        identity: &Identity,
        payload_bytes_max: usize,
    ) -> Result<Self, MediaError> {
        let format = parity.format(identity);
        let body_bytes_max = u16::try_from(payload_bytes_max).unwrap_or(u16::MAX);
        let encoder = Encoder::new(
            format,
            parity.shape,
            parity.protection,
            body_bytes_max,
            identity.sequence,
        );
        let encoder = encoder.map_err(|refused| MediaError::Packet {
            what: "parity",
            reason: refused.to_string(),
        })?;
        let room = || Vec::with_capacity(ulpfec::HEADER_BYTES_MAX + usize::from(body_bytes_max));
        Ok(Self {
            encoder,
            format,
            waiting: VecDeque::with_capacity(WAITING_MAX),
            spare: (0..WAITING_MAX).map(|_| room()).collect(),
            sent: 0,
        })
    }

    /// Takes a packet that left, its header and what follows in pieces. Sends what waits if there would be no room for what it makes.
    pub(super) fn push(
        &mut self,
        header: &[u8; HEADER_BYTES],
        body: &[&[u8]],
        destinations: &mut Destinations,
    ) {
        while self.waiting.len() + PER_PACKET > WAITING_MAX {
            self.send_one(destinations);
        }
        let (waiting, spare, format) = (&mut self.waiting, &mut self.spare, self.format);
        // Too long is none that was cut by the limit that the encoder was made with.
        let _ = self.encoder.push(header, body, &mut |made| {
            enqueue(waiting, spare, format, &made);
        });
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Packets sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends one to all destinations.
    pub(super) fn send_one(&mut self, destinations: &mut Destinations) {
        let Some(mut made) = self.waiting.pop_front() else {
            return;
        };
        let parts = [IoSlice::new(&made.bytes)];
        destinations.for_each(|destination| {
            destination.send_repair(&parts, made.ports_above);
        });
        self.sent += 1;
        made.bytes.clear();
        self.spare.push(made.bytes);
    }

    /// At the end of the stream: lets the next of the columns that are left wait; whether there was one.
    pub(super) fn flush(&mut self) -> bool {
        let (waiting, spare, format) = (&mut self.waiting, &mut self.spare, self.format);
        self.encoder
            .flush(&mut |made| enqueue(waiting, spare, format, &made))
    }
}

fn enqueue(
    waiting: &mut VecDeque<Made>,
    spare: &mut Vec<Vec<u8>>,
    format: Format,
    made: &FecPacket<'_>,
) {
    // There are as many as can wait.
    let mut bytes = spare.pop().unwrap_or_default();
    bytes.extend_from_slice(made.header);
    bytes.extend_from_slice(made.payload);
    let ports_above = match (format, made.direction) {
        (Format::Ulpfec { .. }, _) => 0,
        (Format::Smpte2022, Direction::Column) => COLUMN_PORTS_ABOVE,
        (Format::Smpte2022, Direction::Row) => ROW_PORTS_ABOVE,
    };
    waiting.push_back(Made { bytes, ports_above });
}
