//! What RFC 6184 and RFC 7798 share: NAL units alone in a packet, several in one (aggregation), and
//! one over several (fragments).

use std::marker::PhantomData;

use super::{Depacketize, EmitPayload, EmitUnit, Malformed, Packetize, Payload, Received};
use crate::format::StreamFormat;
use crate::unit::{Unit, UnitMemory};
use crate::video::units::{NalUnits, with_pieces};
use crate::video::{Codec, Role, parameters};

/// Most NAL units of one aggregation packet that we send: parameter sets, messages and a small
/// slice are fewer.
const AGGREGATED_MAX: usize = 16;
/// Bytes of the length in front of each aggregated NAL unit.
const LENGTH_BYTES: usize = 2;

/// Where the two formats differ. Who has rules is a packetizer.
pub trait Rules {
    /// What is in the NAL units.
    const CODEC: Codec;
    /// Of a NAL unit, and of an aggregation packet.
    const HEADER_BYTES: usize = Self::CODEC.header_bytes();
    /// Of a fragment: the payload's and the fragment's.
    const FRAGMENT_HEADER_BYTES: usize = Self::HEADER_BYTES + 1;

    /// The payload header of an aggregation packet.
    fn aggregation_header(nals: &[&[u8]]) -> [u8; 2];

    /// The headers of a fragment of `nal`; [`START`] and [`END`] may be added to the last of them.
    fn fragment_header(nal: &[u8]) -> [u8; 3];

    /// The header of the NAL unit that a fragment belongs to.
    fn fragmented_header(payload: &[u8]) -> [u8; 2];

    /// What a payload of this type is.
    ///
    /// # Errors
    ///
    /// Types that are not understood, by name.
    fn structure(nal_type: u8) -> Result<Structure, Malformed>;
}

/// First fragment, last fragment: bits of the fragment header.
pub(super) const START: u8 = 0x80;
pub(super) const END: u8 = 0x40;

/// The structures of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A NAL unit.
    Single,
    /// Several.
    Aggregation,
    /// A part of one.
    Fragment,
}

impl<R: Rules> Packetize for R {
    fn packetize(&mut self, unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>) {
        packetize::<R>(unit, limit, emit);
    }
}

/// Emits the payloads of a unit. NAL units that would be taken for something else in RTP are left
/// out.
fn packetize<R: Rules>(unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>) {
    debug_assert!(limit >= 64, "a payload is allowed {limit} bytes only");
    let is_sent = |nal: &[u8]| R::CODEC.role(nal) != Role::Unspecified;
    let Some(last) = unit.pieces.iter().rposition(|nal| is_sent(nal)) else {
        return;
    };
    let mut rest = &unit.pieces[..=last];
    while let Some(first) = rest.first() {
        let count = aggregated::<R>(rest, limit);
        let (nals, behind) = rest.split_at(count.max(1));
        let marker = behind.is_empty();
        rest = behind;
        match count {
            0 if !is_sent(first) => {}
            0 if first.len() > limit => emit_fragments::<R>(unit, first, limit, marker, emit),
            0 | 1 => emit(&payload(unit, &[], nals, marker)),
            _ => emit_aggregation::<R>(unit, nals, marker, emit),
        }
    }
}

/// How many of the first NAL units fit into one packet together.
fn aggregated<R: Rules>(nals: &[&[u8]], limit: usize) -> usize {
    let mut bytes = R::HEADER_BYTES;
    let fits = |nal: &&&[u8]| {
        bytes += LENGTH_BYTES + nal.len();
        R::CODEC.role(nal) != Role::Unspecified && bytes <= limit.min(usize::from(u16::MAX))
    };
    nals.iter().take(AGGREGATED_MAX).take_while(fits).count()
}

fn payload<'p>(
    unit: &Unit<'_>,
    prefix: &'p [u8],
    body: &'p [&'p [u8]],
    marker: bool,
) -> Payload<'p> {
    Payload {
        prefix,
        body,
        marker,
        time: unit.time,
        due: unit.due,
    }
}

fn emit_aggregation<R: Rules>(
    unit: &Unit<'_>,
    nals: &[&[u8]],
    marker: bool,
    emit: &mut EmitPayload<'_>,
) {
    let mut lengths = [[0; LENGTH_BYTES]; AGGREGATED_MAX];
    for (length, nal) in lengths.iter_mut().zip(nals) {
        *length = (nal.len() as u16).to_be_bytes(); // fits: `aggregated` saw to it
    }
    let mut body: [&[u8]; 2 * AGGREGATED_MAX] = [&[]; 2 * AGGREGATED_MAX];
    for (pair, (length, nal)) in body.chunks_exact_mut(2).zip(lengths.iter().zip(nals)) {
        pair.copy_from_slice(&[length, nal]);
    }
    let header = R::aggregation_header(nals);
    let body = &body[..2 * nals.len()];
    emit(&payload(unit, &header[..R::HEADER_BYTES], body, marker));
}

/// All fragments are as long as they may be, but for the last: segmentation offload wants equal
/// packets.
fn emit_fragments<R: Rules>(
    unit: &Unit<'_>,
    nal: &[u8],
    limit: usize,
    marker: bool,
    emit: &mut EmitPayload<'_>,
) {
    let fragment_bytes = limit.saturating_sub(R::FRAGMENT_HEADER_BYTES).max(1);
    let mut fragments = nal[R::HEADER_BYTES..].chunks(fragment_bytes).peekable();
    let mut header = R::fragment_header(nal);
    let bits = R::FRAGMENT_HEADER_BYTES - 1;
    header[bits] |= START;
    while let Some(fragment) = fragments.next() {
        let is_last = fragments.peek().is_none();
        if is_last {
            header[bits] |= END;
        }
        let prefix = &header[..R::FRAGMENT_HEADER_BYTES];
        emit(&payload(unit, prefix, &[fragment], marker && is_last));
        header[bits] &= !START;
    }
}

/// Joins payloads to access units. At most 4 MiB per NAL unit, 256 NAL units and 16 MiB per access
/// unit.
pub struct Joiner<R, M = Vec<u8>> {
    /// Of `time`, as far as they came.
    units: NalUnits<M>,
    time: Option<u64>,
    /// Something in front of or in the next unit did not come.
    missing: bool,
    /// From the session description, until a unit was emitted.
    sets: Vec<Vec<u8>>,
    due: u64,
    rules: PhantomData<R>,
}

impl<R: Rules> Joiner<R> {
    /// One for a stream that is described so. Parameter sets of the description come in front of
    /// the first unit if it has none.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for the interleaved mode of H.264, and streams of H.265 with decoding order
    /// numbers.
    pub fn new(format: &StreamFormat) -> Result<Self, Malformed> {
        Self::within(Vec::new(), &[], format)
    }
}

impl<R: Rules, M: UnitMemory> Joiner<R, M> {
    /// The same, which puts units together in `memory`, each NAL unit behind the bytes of `front`.
    ///
    /// # Errors
    ///
    /// As [`Joiner::new`].
    pub fn within(
        memory: M,
        front: &'static [u8],
        format: &StreamFormat,
    ) -> Result<Self, Malformed> {
        Ok(Self {
            units: NalUnits::new(memory, front),
            time: None,
            missing: false,
            sets: parameters::sets(R::CODEC, &format.parameters).map_err(Malformed)?,
            due: 0,
            rules: PhantomData,
        })
    }

    fn lose_fragments(&mut self) {
        self.missing |= !self.units.growing().is_empty();
        self.units.abandon();
    }

    fn join(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some(nal_type) = R::CODEC.nal_type(payload) else {
            return Err(Malformed(
                "it is shorter than its header, or the forbidden bit is set",
            ));
        };
        let structure = R::structure(nal_type)?;
        if structure == Structure::Fragment {
            return self.join_fragment(payload);
        }
        self.lose_fragments();
        if structure == Structure::Single {
            return self.units.push(payload).map_err(Malformed);
        }
        // Nothing of a packet that is damaged further on is kept.
        let aggregated = Aggregated(&payload[R::HEADER_BYTES..]);
        for nal in aggregated {
            if R::CODEC.role(nal?) == Role::Unspecified {
                return Err(Malformed(
                    "an aggregation packet holds something else than NAL units",
                ));
            }
        }
        for nal in aggregated {
            self.units.push(nal?).map_err(Malformed)?;
        }
        Ok(())
    }

    fn join_fragment(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let Some((headers, fragment)) = payload.split_at_checked(R::FRAGMENT_HEADER_BYTES) else {
            return Err(Malformed("a fragment is shorter than its headers"));
        };
        let bits = headers[R::HEADER_BYTES];
        let (is_first, is_last) = (bits & START != 0, bits & END != 0);
        let header = R::fragmented_header(headers);
        let header = &header[..R::HEADER_BYTES];
        if fragment.is_empty() || is_first && is_last {
            return Err(Malformed("a fragment is empty, or first and last at once"));
        }
        if R::CODEC.role(header) == Role::Unspecified {
            return Err(Malformed("a fragment is of something else than a NAL unit"));
        }
        if is_first {
            self.lose_fragments();
            self.units.grow(header).map_err(Malformed)?;
        } else if self.units.growing().is_empty() {
            // Its first fragment was lost, or dropped: so is the rest.
            self.missing = true;
            return Ok(());
        } else if !self.units.growing().starts_with(header) {
            return Err(Malformed(
                "a fragment is of another NAL unit than the one before it",
            ));
        }
        self.units.grow(fragment).map_err(Malformed)?;
        if is_last {
            self.units.complete();
        }
        Ok(())
    }
}

impl<R: Rules, M: UnitMemory> Depacketize for Joiner<R, M> {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        if received.after_gap {
            self.lose_fragments();
            self.missing = true;
        }
        if self.time.is_some_and(|time| time != received.time) {
            // The last packet of that unit, with the marker, was lost, or its sender sets none.
            self.finish(emit);
            self.missing |= received.after_gap;
        }
        self.time = Some(received.time);
        let joined = self.join(received.bytes);
        if joined.is_err() {
            self.units.abandon();
            self.missing = true;
        }
        if received.marker {
            self.finish(emit);
        }
        joined
    }

    /// Emits what there is of the unit.
    fn finish(&mut self, emit: &mut EmitUnit<'_>) {
        self.lose_fragments();
        let Some(time) = self.time.take() else { return };
        if self.units.is_empty() {
            return;
        }
        self.due = self.due.max(time);
        let is_start = self.units.iter().any(|nal| R::CODEC.is_start(nal));
        let (due, missing) = (self.due, self.missing);
        with_pieces(R::CODEC, &self.sets, self.units.iter(), |pieces| {
            let unit = Unit {
                pieces,
                time,
                due,
                duration: 0,
                is_start,
            };
            emit(&unit, missing);
        });
        self.sets.clear();
        self.missing = false;
        self.units.clear();
    }
}

/// The NAL units of an aggregation packet, behind its header.
#[derive(Clone, Copy)]
struct Aggregated<'p>(&'p [u8]);

impl<'p> Iterator for Aggregated<'p> {
    type Item = Result<&'p [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let split = self.0.split_first_chunk().and_then(|(length, behind)| {
            behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))
        });
        let Some((nal, behind)) = split else {
            self.0 = &[];
            return Some(Err(Malformed(
                "an aggregation packet ends inside a NAL unit",
            )));
        };
        self.0 = behind;
        Some(Ok(nal))
    }
}
