//! Makes parity packets as the packets of a stream go by.
//!
//! The sender pushes each packet once, in order, as it leaves; its bytes are XORed into the sum of
//! its row and of its column while they are in the cache, and are not needed afterwards. A row's
//! parity is emitted behind the row's last packet. The columns of a matrix are complete all at
//! once; they are emitted one by one, evenly spread, while the next matrix goes by, so that parity
//! never makes a burst of its own. Numbers that do not follow each other begin a new matrix: what
//! was begun stays unprotected.
//!
//! All memory is set at the start: `2 L + 1` sums. Never copies a media packet, never reads a
//! clock.

use super::parity::{Members, Recovery, Sum};
use super::{BadShape, Protection, SIDE_MIN, Shape, smpte2022, ulpfec};
use crate::loss::{RTP_HEADER_BYTES, be16, be32};

/// How parity packets are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SMPTE ST 2022-1: at least four rows, and at least four columns where rows are protected.
    Smpte2022,
    /// RFC 5109: at most 48 packets.
    Ulpfec {
        /// Payload type of the parity stream.
        payload_type: u8,
        /// Its source; RFC 5109, section 7.2, wants that of the media where both have sessions of
        /// their own.
        ssrc: u32,
    },
}

/// Which way a parity packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It covers a column.
    Column,
    /// It covers a row.
    Row,
}

/// A parity packet: header and payload in order make up the datagram.
#[derive(Clone, Copy, Debug)]
pub struct FecPacket<'f> {
    /// SMPTE ST 2022-1 sends columns and rows to different ports.
    pub direction: Direction,
    /// RTP header and FEC header.
    pub header: &'f [u8],
    /// The XOR; stays as it is until the next call only.
    pub payload: &'f [u8],
}

/// Takes parity packets one at a time.
pub type EmitFec<'e> = dyn FnMut(FecPacket<'_>) + 'e;

/// A packet too long to be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a packet with {bytes} bytes after its header is too long for parity: the limit is {limit} bytes"
)]
pub struct TooLong {
    /// Behind the header.
    pub bytes: usize,
    /// As given to [`Encoder::new`].
    pub limit: usize,
}

/// Numbers of the two parity streams, and how they are written.
#[derive(Debug)]
struct Writer {
    format: Format,
    shape: Shape,
    column_sequence: u16,
    row_sequence: u16,
}

/// Makes the parity of one stream.
#[derive(Debug)]
pub struct Encoder {
    shape: Shape,
    protection: Protection,
    body_bytes_max: usize,
    writer: Writer,
    row: Sum,
    /// Of the matrix that goes by.
    columns: Vec<Sum>,
    /// Of the one before.
    complete: Vec<Sum>,
    /// How many of `complete` were emitted.
    emitted: usize,
    /// Place of the next packet in its matrix.
    place: usize,
    /// Number of the next packet, once there was one.
    expected: Option<u16>,
    timestamp: u32,
}

impl Encoder {
    /// An encoder for packets with at most `body_bytes_max` bytes behind their twelve-byte headers.
    /// Parity packets are 16 bytes longer than the longest they cover (18 at most with ULPFEC):
    /// leave space for them in the MTU. `sequence`: the first number of parity packets, which RFC
    /// 3550 wants chosen at random.
    ///
    /// # Errors
    ///
    /// [`BadShape`] for what the format does not allow.
    pub fn new(
        format: Format,
        shape: Shape,
        protection: Protection,
        body_bytes_max: u16,
        sequence: u16,
    ) -> Result<Self, BadShape> {
        check(format, shape, protection)?;
        let sum = || Sum::new(body_bytes_max.into());
        let sums = if protection.has_columns() {
            shape.columns()
        } else {
            0
        };
        Ok(Self {
            shape,
            protection,
            body_bytes_max: body_bytes_max.into(),
            writer: Writer {
                format,
                shape,
                column_sequence: sequence,
                row_sequence: sequence,
            },
            row: sum(),
            columns: (0..sums).map(|_| sum()).collect(),
            complete: (0..sums).map(|_| sum()).collect(),
            emitted: sums,
            place: 0,
            expected: None,
            timestamp: 0,
        })
    }

    /// Takes the packet that was just sent, as its first twelve bytes and what follows, in pieces;
    /// emits what is due behind it: at most a row's parity and a column's.
    ///
    /// # Errors
    ///
    /// [`TooLong`]: the packet, and the matrix it is in, goes unprotected.
    pub fn push(
        &mut self,
        header: &[u8; RTP_HEADER_BYTES],
        body: &[&[u8]],
        emit: &mut EmitFec<'_>,
    ) -> Result<(), TooLong> {
        let bytes = body.iter().map(|piece| piece.len()).sum();
        if bytes > self.body_bytes_max {
            (self.place, self.expected) = (0, None);
            let limit = self.body_bytes_max;
            return Err(TooLong { bytes, limit });
        }
        let sequence = be16(header, 2);
        if self.expected != Some(sequence) {
            self.place = 0;
        }
        self.expected = Some(sequence.wrapping_add(1));
        self.timestamp = be32(header, 4);
        // At most `body_bytes_max`, which has 16 bits.
        let recovery = Recovery::of(header, bytes as u16);
        self.add(sequence, recovery, body);
        self.emit_due(emit);
        self.place = (self.place + 1) % self.shape.packets();
        Ok(())
    }

    /// Emits the next waiting column; `false`: there is none. For the end of a stream, at the
    /// caller's pace; packets of a matrix that was not completed have no column parity.
    pub fn flush(&mut self, emit: &mut EmitFec<'_>) -> bool {
        let Some(column) = self.complete.get(self.emitted) else {
            return false;
        };
        self.emitted += 1;
        self.writer
            .emit(Direction::Column, column, self.timestamp, emit);
        true
    }

    fn add(&mut self, sequence: u16, recovery: Recovery, body: &[&[u8]]) {
        let (row, column) = (
            self.place / self.shape.columns(),
            self.place % self.shape.columns(),
        );
        if self.protection.has_rows() {
            if column == 0 {
                self.row.restart(sequence);
            }
            self.row.add(recovery, body);
        }
        if let Some(sum) = self.columns.get_mut(column) {
            if row == 0 {
                sum.restart(sequence);
            }
            sum.add(recovery, body);
        }
    }

    fn emit_due(&mut self, emit: &mut EmitFec<'_>) {
        let (columns, rows) = (self.shape.columns(), self.shape.rows());
        if self.protection.has_rows() && self.place % columns == columns - 1 {
            self.writer
                .emit(Direction::Row, &self.row, self.timestamp, emit);
        }
        // L columns over L x D packets: one in D, between rows where that can be.
        if self.place % rows == rows / 2 {
            self.flush(emit);
        }
        if self.place == self.shape.packets() - 1 {
            // Every column of the matrix before was due while this one went by.
            std::mem::swap(&mut self.columns, &mut self.complete);
            self.emitted = 0;
        }
    }
}

impl Writer {
    fn emit(&mut self, direction: Direction, sum: &Sum, timestamp: u32, emit: &mut EmitFec<'_>) {
        let payload = sum.payload();
        let (columns, rows) = (self.shape.columns(), self.shape.rows());
        let (offset, count) = match direction {
            Direction::Column => (columns, rows),
            Direction::Row => (1, columns),
        };
        match self.format {
            Format::Smpte2022 => {
                let sequence = match direction {
                    Direction::Column => &mut self.column_sequence,
                    Direction::Row => &mut self.row_sequence,
                };
                let header = smpte2022::Header {
                    sequence: next(sequence),
                    timestamp,
                    base: sum.base,
                    recovery: sum.recovery,
                    // Both are at most 20.
                    offset: offset as u8,
                    count: count as u8,
                    is_row: direction == Direction::Row,
                };
                let header = &header.bytes();
                emit(FecPacket {
                    direction,
                    header,
                    payload,
                });
            }
            Format::Ulpfec { payload_type, ssrc } => {
                let header = ulpfec::Header {
                    ssrc,
                    payload_type,
                    sequence: next(&mut self.row_sequence),
                    timestamp,
                    members: Members::stride(sum.base, offset, count),
                    recovery: sum.recovery,
                    protected: payload.len() as u16,
                };
                let (bytes, length) = header.bytes();
                emit(FecPacket {
                    direction,
                    header: &bytes[..length],
                    payload,
                });
            }
        }
    }
}

fn next(sequence: &mut u16) -> u16 {
    let now = *sequence;
    *sequence = now.wrapping_add(1);
    now
}

fn check(format: Format, shape: Shape, protection: Protection) -> Result<(), BadShape> {
    let least = usize::from(SIDE_MIN);
    match format {
        Format::Smpte2022 if shape.rows() < least => Err(shape.refuse("4 rows are the fewest")),
        Format::Smpte2022 if protection.has_rows() && shape.columns() < least => {
            Err(shape.refuse("4 columns are the fewest where rows are protected"))
        }
        Format::Ulpfec { .. } if shape.packets() > ulpfec::SPAN_MAX => {
            Err(shape.refuse("48 packets are the most of ULPFEC"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(sequence: u16) -> [u8; 12] {
        let [s0, s1] = sequence.to_be_bytes();
        [0x80, 33, s0, s1, 0, 0, s0, s1, 1, 2, 3, 4]
    }

    fn encoder(protection: Protection) -> Encoder {
        let shape = Shape::new(5, 4).unwrap();
        Encoder::new(Format::Smpte2022, shape, protection, 10, 0xffff).unwrap()
    }

    /// What is emitted behind each of `sequences`: direction, first number covered, number of its
    /// own.
    fn run(encoder: &mut Encoder, sequences: &[u16]) -> Vec<Vec<(Direction, u16, u16)>> {
        let emitted = |sequence: &u16| {
            let mut behind = Vec::new();
            encoder
                .push(&header(*sequence), &[&[1, 2]], &mut |packet| {
                    let number = be16(packet.header, 2);
                    behind.push((packet.direction, be16(packet.header, 12), number));
                })
                .unwrap();
            behind
        };
        sequences.iter().map(emitted).collect()
    }

    fn numbers(first: u16, count: u16) -> Vec<u16> {
        (0..count).map(|index| first.wrapping_add(index)).collect()
    }

    #[test]
    fn encoder_spreads_columns_and_sends_rows_at_once() {
        use Direction::{Column, Row};
        let mut both = encoder(Protection::Both);
        let first = run(&mut both, &numbers(0xfff6, 20));
        for (place, emitted) in first.iter().enumerate() {
            let row = (place / 5) as u16;
            let expected = (Row, 0xfff6_u16.wrapping_add(row * 5), row.wrapping_sub(1));
            assert_eq!(*emitted, [expected][..usize::from(place % 5 == 4)]);
        }
        let second = run(&mut both, &numbers(10, 20));
        let columns: Vec<_> = (0..)
            .zip(second)
            .filter_map(|(place, emitted)| {
                let column = emitted.iter().find(|packet| packet.0 == Column)?;
                Some((place, column.1, column.2))
            })
            .collect();
        let expected =
            (0..5).map(|c: u16| (4 * c + 2, 0xfff6_u16.wrapping_add(c), c.wrapping_sub(1)));
        assert_eq!(columns, expected.collect::<Vec<_>>());
        // The second matrix's columns wait; the end calls them.
        let mut waiting = 0;
        while both.flush(&mut |packet| assert_eq!(packet.direction, Column)) {
            waiting += 1;
        }
        assert_eq!(waiting, 5);
    }

    #[test]
    fn only_what_is_asked_for_is_made() {
        for (protection, columns, rows) in [(Protection::Columns, 5, 0), (Protection::Rows, 0, 8)] {
            let all = run(&mut encoder(protection), &numbers(0, 40)).concat();
            let count = |direction| all.iter().filter(|packet| packet.0 == direction).count();
            assert_eq!(
                (count(Direction::Column), count(Direction::Row)),
                (columns, rows)
            );
        }
    }

    #[test]
    fn numbers_that_do_not_follow_begin_a_new_matrix() {
        let mut encoder = encoder(Protection::Both);
        assert!(run(&mut encoder, &numbers(0, 4)).concat().is_empty());
        // A hole: the row so far is void, and so is the column.
        let emitted = run(&mut encoder, &numbers(100, 30)).concat();
        assert!(emitted.iter().all(|packet| packet.1 >= 100), "{emitted:?}");
        assert_eq!(emitted.len(), 6 + 2);
    }

    #[test]
    fn packet_that_is_too_long_goes_unprotected() {
        let mut encoder = encoder(Protection::Both);
        run(&mut encoder, &numbers(0, 4));
        let refused = encoder.push(&header(4), &[&[0; 6], &[0; 5]], &mut |_| panic!("a row"));
        assert_eq!(
            refused,
            Err(TooLong {
                bytes: 11,
                limit: 10
            })
        );
        assert_eq!(run(&mut encoder, &numbers(5, 5)).concat().len(), 1);
    }

    #[test]
    fn formats_limit_shapes() {
        let make = |format, columns, rows, protection| {
            let shape = Shape::new(columns, rows).unwrap();
            Encoder::new(format, shape, protection, 10, 0)
                .map(|_| ())
                .map_err(|refused| refused.reason)
        };
        let ulpfec = Format::Ulpfec {
            payload_type: 100,
            ssrc: 1,
        };
        assert!(make(Format::Smpte2022, 1, 4, Protection::Columns).is_ok());
        assert!(make(Format::Smpte2022, 1, 4, Protection::Both).is_err());
        assert!(make(Format::Smpte2022, 5, 3, Protection::Columns).is_err());
        assert!(make(ulpfec, 8, 6, Protection::Both).is_ok());
        assert!(make(ulpfec, 7, 7, Protection::Both).is_err());
        assert!(make(ulpfec, 5, 1, Protection::Rows).is_ok());
    }
}
