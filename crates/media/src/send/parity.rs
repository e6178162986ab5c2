//! Parity of a stream on its way: made as packets leave, and sent one by one between the groups
//! that follow. Where the kernel keeps packets apart, groups leave some time after they were handed
//! over; their parity is handed over with them then, and leaves between their departures.
//!
//! Between calls the queue has capacity for what the next packet makes. Nothing is allocated after
//! [`ParitySender::new`].

use std::collections::VecDeque;
use std::io::IoSlice;

use hythe_rtp::loss::fec::encoder::{Direction, FecPacket, Format};
use hythe_rtp::loss::fec::{Encoder, ulpfec};
use hythe_rtp::{HEADER_BYTES, Identity};

use crate::MediaError;
use crate::wire::destinations::Destinations;

use super::repair::Parity;

/// What a packet makes, at most: a row and a column.
const PER_PACKET: usize = 2;
/// Parity packets that wait, at most: those of a group of the largest size where each row and
/// column is one packet.
const WAITING_MAX: usize = 64 * PER_PACKET;
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
        let buffer = || Vec::with_capacity(ulpfec::HEADER_BYTES_MAX + usize::from(body_bytes_max));
        Ok(Self {
            encoder,
            format,
            waiting: VecDeque::with_capacity(WAITING_MAX),
            spare: (0..WAITING_MAX).map(|_| buffer()).collect(),
            sent: 0,
        })
    }

    /// Takes a packet that left, its header and what follows in pieces. Sends what waits if there
    /// would be no free capacity for what it makes.
    pub(super) fn push(
        &mut self,
        header: &[u8; HEADER_BYTES],
        body: &[&[u8]],
        destinations: &mut Destinations,
    ) {
        while self.waiting.len() + PER_PACKET > WAITING_MAX {
            self.send_one(destinations, None);
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

    /// Hands all that wait over, to leave evenly spread between two departures; the last of theirs,
    /// if there were any.
    pub(super) fn send_between(
        &mut self,
        behind_ns: u64,
        next_ns: u64,
        destinations: &mut Destinations,
    ) -> Option<u64> {
        let mut spread = Spread::new(behind_ns, next_ns, self.waiting.len());
        let mut last_ns = None;
        while !self.waiting.is_empty() {
            last_ns = Some(spread.next_ns());
            self.send_one(destinations, last_ns);
        }
        last_ns
    }

    /// Sends one to all destinations: at its departure, where it has one and the way heeds it, else
    /// at once.
    pub(super) fn send_one(&mut self, destinations: &mut Destinations, departure_ns: Option<u64>) {
        let Some(mut made) = self.waiting.pop_front() else {
            return;
        };
        let parts = [IoSlice::new(&made.bytes)];
        destinations.for_each(|destination| {
            destination.send_repair(&parts, made.ports_above, departure_ns);
        });
        self.sent += 1;
        made.bytes.clear();
        self.spare.push(made.bytes);
    }

    /// At the end of the stream: lets the next of the columns that are left wait; whether there was
    /// one.
    pub(super) fn flush(&mut self) -> bool {
        let (waiting, spare, format) = (&mut self.waiting, &mut self.spare, self.format);
        self.encoder
            .flush(&mut |made| enqueue(waiting, spare, format, &made))
    }
}

/// Departures between two others.
#[derive(Debug)]
struct Spread {
    last_ns: u64,
    apart_ns: u64,
}

impl Spread {
    /// So many behind `behind_ns`, all in front of `next_ns` if there are as many nanoseconds.
    fn new(behind_ns: u64, next_ns: u64, count: usize) -> Self {
        let between_ns = next_ns.saturating_sub(behind_ns);
        Self {
            last_ns: behind_ns,
            apart_ns: (between_ns / (count as u64 + 1)).max(1),
        }
    }

    fn next_ns(&mut self) -> u64 {
        self.last_ns = self.last_ns.saturating_add(self.apart_ns);
        self.last_ns
    }
}

/// The most parity packets that any `packets` one behind the other make.
fn made_at_most(parity: &Parity, packets: usize) -> usize {
    let (columns, rows) = (parity.shape.columns(), parity.shape.rows());
    let protection = parity.protection;
    // A row's behind every L packets, a column's behind every D.
    let of_rows = protection.has_rows().then(|| packets.div_ceil(columns));
    let of_columns = protection.has_columns().then(|| packets.div_ceil(rows));
    of_rows.unwrap_or(0) + of_columns.unwrap_or(0)
}

/// How many packets of a stream may be on their way in a scheduler that takes `packets_max` of
/// them, if their parity is there, too.
pub(super) fn packets_beside(parity: Option<&Parity>, packets_max: usize) -> usize {
    let all = |packets: &usize| {
        packets + parity.map_or(0, |parity| made_at_most(parity, *packets)) <= packets_max
    };
    (1..=packets_max).rev().find(all).unwrap_or(1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_rtp::loss::fec::{Protection, Shape};

    #[test]
    fn departures_lie_between_two_others() {
        let mut spread = Spread::new(100, 500, 3);
        assert_eq!([(); 3].map(|()| spread.next_ns()), [200, 300, 400]);
        // Where there is no free capacity between them, still one behind the other.
        let mut spread = Spread::new(100, 101, 2);
        assert_eq!([(); 2].map(|()| spread.next_ns()), [101, 102]);
    }

    #[test]
    fn scheduler_has_capacity_for_parity_beside_packets() {
        let parity = |columns, rows, protection| Parity {
            shape: Shape::new(columns, rows).unwrap(),
            protection,
            payload_type: None,
        };
        assert_eq!(packets_beside(None, 96), 96);
        for (columns, rows, protection, packets) in [
            (1, 1, Protection::Both, 32),
            (1, 1, Protection::Rows, 48),
            (8, 5, Protection::Both, 72),
            (20, 5, Protection::Columns, 80),
        ] {
            let found = packets_beside(Some(&parity(columns, rows, protection)), 96);
            assert_eq!(found, packets, "{columns}x{rows}");
        }
    }

    #[test]
    fn no_more_parity_is_made_than_reckoned_with() {
        for (columns, rows) in [(1, 1), (2, 3), (4, 4), (8, 5), (20, 5), (5, 9)] {
            for protection in [Protection::Rows, Protection::Columns, Protection::Both] {
                let shape = Shape::new(columns, rows).unwrap();
                let parity = Parity {
                    shape,
                    protection,
                    payload_type: Some(100),
                };
                let format = parity.format(&Identity::seeded(1));
                let Ok(mut encoder) = Encoder::new(format, shape, protection, 10, 0) else {
                    continue;
                };
                // How many the packets up to each have made.
                let mut made = vec![0];
                for sequence in 0..400_u16 {
                    let mut all = made[made.len() - 1];
                    let [high, low] = sequence.to_be_bytes();
                    let header = [0x80, 33, high, low, 0, 0, 0, 0, 0, 0, 0, 1];
                    encoder
                        .push(&header, &[&[7; 10]], &mut |_| all += 1)
                        .unwrap();
                    made.push(all);
                }
                for packets in [1, 2, 7, 31, 64] {
                    let most = made
                        .windows(packets + 1)
                        .map(|window| window[packets] - window[0]);
                    let most = most.max().unwrap();
                    let reckoned = made_at_most(&parity, packets);
                    assert!(most <= reckoned, "{columns}x{rows}: {most} of {packets}");
                }
            }
        }
    }
}
