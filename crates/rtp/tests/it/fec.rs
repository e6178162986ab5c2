//! Forward error correction from end to end: what the encoder made of a stream, less what is lost,
//! through the decoder. What it repairs is compared, byte by byte, with what was lost; what it
//! leaves, with a model that knows nothing of packets.

use std::collections::BTreeMap;

use crate::streams::{BODY_BYTES_MAX, packets};
use hythe_rtp::loss::Repaired;
use hythe_rtp::loss::fec::decoder::{DecoderLimits, FecCounts};
use hythe_rtp::loss::fec::encoder::{Direction, FecPacket, Format};
use hythe_rtp::loss::fec::predict::{Chance, Losses, residual};
use hythe_rtp::loss::fec::{Decoder, Encoder, Protection, Shape, smpte2022, ulpfec};

const ULPFEC: Format = Format::Ulpfec {
    payload_type: 100,
    ssrc: 77,
};
const PROTECTIONS: [Protection; 3] = [Protection::Columns, Protection::Rows, Protection::Both];

/// A packet on its way.
enum Sent {
    Media(usize),
    /// A line of a matrix; which one, and the datagram.
    Parity(Direction, usize, usize, Vec<u8>),
}

/// A protected stream, parity where it was emitted.
struct Stream {
    format: Format,
    shape: Shape,
    protection: Protection,
    media: Vec<Vec<u8>>,
    sent: Vec<Sent>,
}

/// Which packets of [`Stream::sent`] do not arrive.
type Lost = Vec<bool>;

impl Stream {
    fn new(format: Format, shape: Shape, protection: Protection, matrices: usize) -> Self {
        let first = 0xffff - shape.packets() as u16 / 2;
        let media = packets(first, matrices * shape.packets(), 11);
        let mut encoder = Encoder::new(format, shape, protection, BODY_BYTES_MAX, 0xfffe).unwrap();
        let mut sent = Vec::new();
        let mut parity = Vec::new();
        let take = |packet: FecPacket<'_>, parity: &mut Vec<Sent>| {
            let bytes = [packet.header, packet.payload].concat();
            let base = match format {
                Format::Smpte2022 => smpte2022::parse(&bytes),
                Format::Ulpfec { .. } => ulpfec::parse(&bytes),
            };
            let at = usize::from(base.unwrap().members.base.wrapping_sub(first));
            let (matrix, place) = (at / shape.packets(), at % shape.packets());
            let line = match packet.direction {
                Direction::Column => place,
                Direction::Row => place / shape.columns(),
            };
            parity.push(Sent::Parity(packet.direction, matrix, line, bytes));
        };
        for (index, packet) in media.iter().enumerate() {
            let (header, body) = packet.split_first_chunk().unwrap();
            // In two pieces, as prefix and media are.
            let (prefix, rest) = body.split_at(body.len() / 3);
            sent.push(Sent::Media(index));
            encoder
                .push(header, &[prefix, rest], &mut |packet| {
                    take(packet, &mut parity)
                })
                .unwrap();
            sent.append(&mut parity);
        }
        while encoder.flush(&mut |packet| take(packet, &mut sent)) {}
        Self {
            format,
            shape,
            protection,
            media,
            sent,
        }
    }

    fn nothing_lost(&self) -> Lost {
        vec![false; self.sent.len()]
    }

    /// Loses media packets of these indices.
    fn lose(&self, indices: &[usize]) -> Lost {
        let is_lost = |sent: &Sent| matches!(sent, Sent::Media(index) if indices.contains(index));
        self.sent.iter().map(is_lost).collect()
    }

    /// Loses anything but the first packet, without which a decoder does not know where the stream
    /// begins.
    fn lose_at_random(&self, loss: f64, chance: &mut Chance) -> Lost {
        let mut lost: Lost = self.sent.iter().map(|_| chance.happens(loss)).collect();
        lost[0] = false;
        lost
    }

    /// Media packets that the model says stay lost.
    fn left_by_model(&self, lost: &Lost) -> Vec<usize> {
        let packets = self.shape.packets();
        let mut matrices =
            vec![Losses::none(self.shape, self.protection); self.media.len() / packets];
        for (sent, _) in self.sent.iter().zip(lost).filter(|(_, lost)| **lost) {
            match sent {
                Sent::Media(index) => matrices[index / packets].lose(index % packets),
                Sent::Parity(Direction::Column, matrix, line, _) => {
                    matrices[*matrix].lose_column(*line);
                }
                Sent::Parity(Direction::Row, matrix, line, _) => matrices[*matrix].lose_row(*line),
            }
        }
        let left = |(matrix, losses): (usize, &mut Losses)| {
            let left: Vec<_> = losses
                .repair()
                .map(|place| matrix * packets + place)
                .collect();
            left
        };
        matrices.iter_mut().enumerate().flat_map(left).collect()
    }

    /// Sends what is not lost, in `order`, through a decoder; which media packets stay lost.
    fn decode(&self, lost: &Lost, order: &[usize]) -> (Vec<usize>, FecCounts) {
        let mut decoder = Decoder::new(DecoderLimits {
            packet_bytes_max: BODY_BYTES_MAX + 12,
            ..DecoderLimits::default()
        });
        let mut repaired = BTreeMap::new();
        for index in order.iter().copied().filter(|index| !lost[*index]) {
            let mut emit = |packet: Repaired<'_>| {
                let twice = repaired.insert(packet.sequence, packet.bytes.to_vec());
                assert_eq!(twice, None, "repaired once");
            };
            match &self.sent[index] {
                Sent::Media(index) => decoder.take_media(&self.media[*index], &mut emit),
                Sent::Parity(_, _, _, bytes) => {
                    let parity = match self.format {
                        Format::Smpte2022 => smpte2022::parse(bytes),
                        Format::Ulpfec { .. } => ulpfec::parse(bytes),
                    };
                    decoder.take_parity(&parity.unwrap(), &mut emit);
                }
            }
        }
        assert_eq!(decoder.counts().repaired, repaired.len() as u64);
        let is_left = |(sent, lost): (&Sent, &bool)| {
            let Sent::Media(index) = sent else {
                return None;
            };
            let original = &self.media[*index];
            let sequence = u16::from_be_bytes([original[2], original[3]]);
            // What was repaired and arrives all the same is a duplicate.
            match repaired.remove(&sequence) {
                Some(bytes) => {
                    assert_eq!(bytes, *original);
                    None
                }
                None => lost.then_some(*index),
            }
        };
        let left = self.sent.iter().zip(lost).filter_map(is_left).collect();
        assert!(repaired.is_empty());
        (left, decoder.counts())
    }

    /// The decoder leaves what the model leaves; how many.
    fn check(&self, lost: &Lost) -> usize {
        let in_order: Vec<usize> = (0..self.sent.len()).collect();
        let (left, counts) = self.decode(lost, &in_order);
        let by_model = self.left_by_model(lost);
        assert_eq!(left, by_model, "{:?} {:?}", self.shape, self.protection);
        assert_eq!((counts.inconsistent, counts.stale), (0, 0));
        assert_eq!(counts.duplicates, 0, "nothing is repaired that arrives");
        left.len()
    }
}

/// Both formats, with the shapes that they share.
fn streams(columns: u8, rows: u8, matrices: usize) -> Vec<Stream> {
    let shape = Shape::new(columns, rows).unwrap();
    let formats = [Format::Smpte2022, ULPFEC];
    formats
        .into_iter()
        .flat_map(|format| PROTECTIONS.map(|protection| (format, protection)))
        .filter(|(format, _)| *format == Format::Smpte2022 || shape.packets() <= 48)
        .map(|(format, protection)| Stream::new(format, shape, protection, matrices))
        .collect()
}

#[test]
fn nothing_lost_nothing_repaired() {
    for stream in streams(5, 5, 3) {
        assert_eq!(stream.check(&stream.nothing_lost()), 0);
    }
}

#[test]
fn every_single_loss_is_repaired() {
    for (columns, rows) in [(5, 4), (4, 12), (12, 4)] {
        for stream in streams(columns, rows, 2) {
            for index in 1..stream.media.len() {
                assert_eq!(stream.check(&stream.lose(&[index])), 0, "{index}");
            }
        }
    }
}

#[test]
fn every_pair_of_a_matrix_is_repaired_as_far_as_its_lines_go() {
    for stream in streams(5, 5, 2) {
        for first in 25..50 {
            for second in first + 1..50 {
                let left = stream.check(&stream.lose(&[first, second]));
                let same_column = first % 5 == second % 5;
                let same_row = first / 5 == second / 5;
                let stays = match stream.protection {
                    Protection::Columns => same_column,
                    Protection::Rows => same_row,
                    Protection::Both => false,
                };
                assert_eq!(left, if stays { 2 } else { 0 }, "{first} {second}");
            }
        }
    }
}

#[test]
fn columns_repair_bursts_as_long_as_a_row_and_rows_alone_none() {
    for stream in streams(6, 5, 4) {
        for first in 31..60 {
            for length in 1..=12 {
                let burst: Vec<usize> = (first..first + length).collect();
                let left = stream.check(&stream.lose(&burst));
                // A burst that ends in the next matrix meets other columns.
                let is_within = first / 30 == (first + length - 1) / 30;
                match stream.protection {
                    Protection::Columns if is_within && length <= 6 => assert_eq!(left, 0),
                    Protection::Rows if length == 2 && first % 6 != 5 => assert_eq!(left, 2),
                    Protection::Rows if length >= 7 => assert!(left > 0),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn random_losses_leave_what_the_model_leaves() {
    let mut chance = Chance::new(5);
    for (columns, rows) in [(5, 5), (4, 4), (10, 10), (20, 5), (5, 20), (8, 6)] {
        for stream in streams(columns, rows, 6) {
            for per_cent in [1.0, 2.0, 5.0, 10.0, 20.0] {
                for _ in 0..4 {
                    stream.check(&stream.lose_at_random(per_cent / 100.0, &mut chance));
                }
            }
        }
    }
}

#[test]
fn order_of_arrival_does_not_matter() {
    let mut chance = Chance::new(6);
    for stream in streams(5, 5, 6) {
        for _ in 0..20 {
            let lost = stream.lose_at_random(0.1, &mut chance);
            // Each is up to a matrix late; the first comes first.
            let mut order: Vec<(u64, usize)> = (0..stream.sent.len())
                .map(|index| (index as u64 + chance.number() % 25, index))
                .collect();
            order[0].0 = 0;
            order.sort_unstable();
            let order: Vec<usize> = order.into_iter().map(|(_, index)| index).collect();
            let (left, _) = stream.decode(&lost, &order);
            assert_eq!(left, stream.left_by_model(&lost));
        }
    }
}

#[test]
fn what_is_left_is_what_was_predicted() {
    let shape = Shape::new(5, 5).unwrap();
    for protection in PROTECTIONS {
        let stream = Stream::new(Format::Smpte2022, shape, protection, 60);
        let mut chance = Chance::new(7);
        let rounds = 20;
        let left: usize = (0..rounds)
            .map(|_| stream.check(&stream.lose_at_random(0.1, &mut chance)))
            .sum();
        let packets = (rounds * stream.media.len()) as f64;
        let predicted = residual(shape, protection, 0.1, 20_000, 8);
        // Five standard errors, taking losses that stay as clusters of four.
        let error = 5.0 * (predicted * 4.0 / packets).sqrt();
        let measured = left as f64 / packets;
        assert!(
            (measured - predicted).abs() < error,
            "{protection:?}: {measured} measured, {predicted} predicted, {error} allowed"
        );
    }
}

#[test]
fn steady_stream_allocates_nothing() {
    let shape = Shape::new(5, 4).unwrap();
    let stream = Stream::new(Format::Smpte2022, shape, Protection::Both, 8);
    let mut encoder = Encoder::new(
        Format::Smpte2022,
        shape,
        Protection::Both,
        BODY_BYTES_MAX,
        0,
    )
    .unwrap();
    let mut decoder = Decoder::new(DecoderLimits::default());
    let mut repaired = 0;
    let counted = allocation_counter::measure(|| {
        for packet in &stream.media {
            let (header, body) = packet.split_first_chunk().unwrap();
            encoder.push(header, &[body], &mut |_| {}).unwrap();
        }
        for (_, sent) in stream.sent.iter().enumerate().filter(|at| at.0 % 9 != 4) {
            match sent {
                Sent::Media(media) => {
                    decoder.take_media(&stream.media[*media], &mut |_| repaired += 1);
                }
                Sent::Parity(_, _, _, bytes) => {
                    let parity = smpte2022::parse(bytes).unwrap();
                    decoder.take_parity(&parity, &mut |_| repaired += 1);
                }
            }
        }
    });
    assert!(repaired > 10, "{repaired}");
    assert_eq!(counted.count_total, 0);
}
