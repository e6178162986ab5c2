//! Media that says which packet it is: a source of it, and a sink that knows what should come.

use std::sync::LazyLock;

use hythe_media::MediaError;
use hythe_media::sink::Sink;
use hythe_media::source::Source;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{
    Depacketize, EmitPayload, EmitUnit, Malformed, Packetize, Payload, Received,
};
use hythe_rtp::unit::Unit;

use super::super::packets::HEADER_BYTES;
use super::{CLOCK_HZ, PACKET_BYTES, PACKET_TICKS, Taken};

/// MPEG-TS (RFC 3551, table 5), for which parity by SMPTE ST 2022-1 is made.
const PAYLOAD_TYPE: u8 = 33;
/// In front of each payload.
const NUMBER_BYTES: usize = 8;
const BODY_BYTES: usize = PACKET_BYTES as usize - HEADER_BYTES - NUMBER_BYTES;
/// Bodies begin at different places in it.
const NOISE_BYTES: usize = 1 << 16;

static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut chance = hythe_rtp::loss::fec::predict::Chance::new(7);
    let words = (0..NOISE_BYTES / 8).flat_map(|_| chance.number().to_le_bytes());
    words.collect()
});

/// What packet `number` carries behind its number.
fn body(number: u64) -> &'static [u8] {
    let places = (NOISE_BYTES - BODY_BYTES) as u64;
    // Coprime to the number of places: neighbours differ.
    let place = (number * 997 % places) as usize;
    &NOISE[place..place + BODY_BYTES]
}

pub(super) fn format() -> StreamFormat {
    StreamFormat {
        encoding: Encoding::MpegTs,
        payload_type: PAYLOAD_TYPE,
        clock_hz: CLOCK_HZ,
        channels: 1,
        parameters: String::new(),
    }
}

/// So many packets, each a unit of its own.
#[derive(Debug)]
pub(super) struct Numbered {
    format: StreamFormat,
    packets: u64,
    next: u64,
    piece: [&'static [u8]; 1],
}

impl Numbered {
    pub(super) fn new(packets: u64) -> Self {
        Self {
            format: format(),
            packets,
            next: 0,
            piece: [&[]],
        }
    }
}

impl Source for Numbered {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        if self.next == self.packets {
            return Ok(None);
        }
        let due = self.next * u64::from(PACKET_TICKS);
        self.piece = [body(self.next)];
        self.next += 1;
        Ok(Some(Unit {
            pieces: &self.piece,
            time: due,
            due,
            duration: PACKET_TICKS,
            is_start: true,
        }))
    }
}

/// A unit is a packet, and its number goes in front.
#[derive(Debug)]
pub(super) struct Whole;

impl Packetize for Whole {
    fn packetize(&mut self, unit: &Unit<'_>, _limit: usize, emit: &mut EmitPayload<'_>) {
        let number = unit.time / u64::from(PACKET_TICKS);
        emit(&Payload {
            prefix: &number.to_be_bytes(),
            body: unit.pieces,
            marker: false,
            time: unit.time,
            due: unit.due,
        });
    }
}

impl Depacketize for Whole {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        let unit = Unit {
            pieces: &[received.bytes],
            time: received.time,
            due: received.time,
            duration: 0,
            is_start: true,
        };
        emit(&unit, received.after_gap);
        Ok(())
    }

    fn finish(&mut self, _emit: &mut EmitUnit<'_>) {}
}

/// Counts what comes out.
#[derive(Debug)]
pub(super) struct Tally {
    /// Packets that count; what comes behind them is only looked at.
    packets: u64,
    next: u64,
    right: u64,
    wrong: u64,
}

impl Tally {
    pub(super) const fn new(packets: u64) -> Self {
        Self {
            packets,
            next: 0,
            right: 0,
            wrong: 0,
        }
    }

    /// Of the packets that count.
    pub(super) fn taken(&self) -> Taken {
        Taken {
            right: self.right,
            wrong: self.wrong,
            missing: self.packets - self.right,
            ..Taken::default()
        }
    }

    fn check(&self, payload: &[u8]) -> Option<u64> {
        let (number, rest) = payload.split_first_chunk::<NUMBER_BYTES>()?;
        let number = u64::from_be_bytes(*number);
        (number >= self.next && rest == body(number)).then_some(number)
    }
}

impl Sink for Tally {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        let payload = unit.pieces.first().copied().unwrap_or_default();
        match self.check(payload) {
            Some(number) => {
                self.next = number + 1;
                self.right += u64::from(number < self.packets);
            }
            None => self.wrong += 1,
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(packets: u64) -> Vec<Vec<u8>> {
        let mut source = Numbered::new(packets);
        let mut made = Vec::new();
        while let Some(unit) = source.next().expect("it never fails") {
            Whole.packetize(&unit, usize::MAX, &mut |payload| {
                made.push([payload.prefix, payload.body[0]].concat());
            });
        }
        made
    }

    fn take(tally: &mut Tally, payload: &[u8]) {
        let unit = Unit {
            pieces: &[payload],
            time: 0,
            due: 0,
            duration: 0,
            is_start: true,
        };
        tally.take(&unit, false).expect("it never fails");
    }

    #[test]
    fn packets_have_the_size_that_makes_the_rate() {
        let made = payloads(3);
        assert_eq!(made.len(), 3);
        assert!(
            made.iter()
                .all(|payload| payload.len() + HEADER_BYTES == 1400)
        );
        let each = u64::from(PACKET_BYTES) * 8 * u64::from(CLOCK_HZ) / u64::from(PACKET_TICKS);
        assert_eq!(each, 8_000_000);
    }

    #[test]
    fn checker_counts_missing_double_damaged_but_no_tail() {
        let made = payloads(6);
        let mut tally = Tally::new(4);
        let mut damaged = made[3].clone();
        damaged[500] ^= 1;
        for payload in [&made[0], &made[2], &made[1], &made[2], &damaged, &made[5]] {
            take(&mut tally, payload);
        }
        let taken = tally.taken();
        assert_eq!((taken.right, taken.wrong, taken.missing), (2, 3, 2));
    }
}
