//! A message buffer: what is packed into it, and unpacked from it.
//!
//! Packing appends, unpacking advances a cursor; there are no marks of types in between, so both
//! sides name the same kinds in the same order, as PVM demands.

mod foreign;
mod frame;
mod item;
mod nested;
mod order;
mod table;

pub use frame::{HEADER_BYTES, claimed_sender, set_sender};
pub use item::Kind;
pub use table::Buffers;

use hythe_cluster::tasks::spare;

use crate::code::Code;
use item::XDR_UNIT;
use order::Order;

/// What a message with XDR says about its encoding; one without has its sender's data format.
pub const XDR: i32 = 0x1000_0000;
/// The data format of this machine, as PVM signs it.
pub const NATIVE_FORMAT: i32 = format_of(size_of::<usize>(), cfg!(target_endian = "big"));
/// The most bytes of a message: PVM counts them with an `int`.
pub const BYTES_MAX: usize = i32::MAX as usize;

/// The data format of a machine with addresses of so many bytes.
pub(crate) const fn format_of(pointer_bytes: usize, is_big_endian: bool) -> i32 {
    match (is_big_endian, pointer_bytes) {
        (false, 8) => 0x0040_8c41,
        (false, _) => 0x0040_8841,
        (true, 8) => 0x0065_8e5a,
        (true, _) => 0x0065_8a59,
    }
}

/// How a buffer is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `PvmDataDefault`: laid out as XDR, with the sender's order of bytes.
    Xdr,
    /// `PvmDataRaw`: as in memory.
    Raw,
    /// `PvmDataInPlace`: as in memory, read when the message is sent.
    InPlace,
}

impl Encoding {
    /// The one that `PvmDataDefault`, `PvmDataRaw` or `PvmDataInPlace` names.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`].
    pub const fn from_number(number: i32) -> Result<Self, Code> {
        match number {
            0 => Ok(Self::Xdr),
            1 => Ok(Self::Raw),
            2 => Ok(Self::InPlace),
            _ => Err(Code::BAD_PARAMETER),
        }
    }

    /// What messages say about it.
    #[must_use]
    pub const fn signature(self) -> i32 {
        match self {
            Self::Xdr => XDR,
            Self::Raw | Self::InPlace => NATIVE_FORMAT,
        }
    }
}

/// What a message says about itself, as `pvm_getminfo` returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Its context.
    pub context: i32,
    /// Its tag.
    pub tag: i32,
    /// What a reply repeats.
    pub wait_id: i32,
    /// [`XDR`], or the data format of its sender.
    pub encoding: i32,
    /// Not used: 0.
    pub checksum: i32,
    /// Number of the task that sent it.
    pub source: i32,
    /// Number of the task that it was sent to.
    pub destination: i32,
}

/// Memory that an in-place message is read from when it is sent. What it is, only who packed it
/// knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it begins.
    pub address: usize,
    /// Kind of its items.
    pub kind: Kind,
    /// How many.
    pub count: usize,
    /// Items from one to the next.
    pub stride: usize,
}

/// A message that is packed or unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// What it says about itself.
    pub info: Info,
    /// Its header, which is written when it is sent, and its body: so it is sent as it lies.
    bytes: Vec<u8>,
    /// Of an in-place buffer: what it consists of.
    places: Vec<Place>,
    is_in_place: bool,
    /// Of numbers in XDR.
    order: Order,
    cursor: usize,
    /// Of a copy of a message in the inbox: its place there, else 0.
    pub(crate) place: u64,
}

impl Buffer {
    /// An empty one.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self {
            info: Info {
                encoding: encoding.signature(),
                ..Info::default()
            },
            bytes: vec![0; HEADER_BYTES],
            places: Vec::new(),
            is_in_place: encoding == Encoding::InPlace,
            order: Order::NATIVE,
            cursor: 0,
            place: 0,
        }
    }

    /// One that says this about itself, its encoding as in a message.
    fn with_body(info: Info, body: &[u8]) -> Self {
        let mut buffer = Self::new(Encoding::Raw);
        buffer.say(info);
        buffer.bytes.extend_from_slice(body);
        buffer
    }

    /// Makes what a message says about itself this one's.
    const fn say(&mut self, said: Info) {
        self.info = said;
        (self.info.encoding, self.order) = Order::read(said.encoding);
    }

    /// What it says about itself in a message.
    const fn said(&self) -> Info {
        Info {
            encoding: self.order.word(self.info.encoding),
            ..self.info
        }
    }

    /// Bytes of its body; as in PVM, what is packed in place does not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.body().len()
    }

    /// Bytes that are packed in place.
    #[must_use]
    pub fn in_place_bytes(&self) -> usize {
        let places = self.places.iter();
        places.map(|place| place.count * place.kind.bytes()).sum()
    }

    /// Has it none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes; those of an in-place buffer lie elsewhere ([`Buffer::places`]).
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// What an in-place buffer consists of.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Is it packed in place?
    #[must_use]
    pub const fn is_in_place(&self) -> bool {
        self.is_in_place
    }

    /// Begins to unpack at its begin again.
    pub const fn rewind(&mut self) {
        self.cursor = 0;
    }

    /// Packs items that lie in `memory`, `stride` items from one to the next.
    ///
    /// # Errors
    /// [`Code::BAD_PARAMETER`]: a stride of 0, or `memory` has not the length that the numbers
    /// say; [`Code::OVERFLOW`]: a `long` that does not fit into 4 bytes, in XDR;
    /// [`Code::NO_MEMORY`]: the message gets too long.
    pub fn pack(
        &mut self,
        kind: Kind,
        memory: &[u8],
        count: usize,
        stride: usize,
    ) -> Result<(), Code> {
        self.check(kind, memory.len(), count, stride)?;
        if count == 0 {
            return Ok(());
        }
        match self.info.encoding == XDR {
            true => {
                if !kind.fits_xdr(memory, stride) {
                    return Err(Code::OVERFLOW);
                }
                self.reserve(kind.xdr_bytes(count))?;
                kind.append_xdr(&mut self.bytes, memory, stride, self.order);
            }
            false => {
                self.reserve(count.saturating_mul(kind.bytes()))?;
                kind.append_raw(&mut self.bytes, memory, stride);
            }
        }
        Ok(())
    }

    /// Packs items in place: they are read when the message is sent.
    ///
    /// # Errors
    /// [`Code::NOT_IMPLEMENTED`]: items that do not lie side by side, as in PVM;
    /// [`Code::NO_MEMORY`].
    pub fn pack_in_place(&mut self, place: Place) -> Result<(), Code> {
        if place.stride != 1 {
            return Err(Code::NOT_IMPLEMENTED);
        }
        let bytes = place.count.checked_mul(place.kind.bytes());
        let total = bytes.and_then(|bytes| bytes.checked_add(self.in_place_bytes()));
        match total.is_some_and(|total| total <= BYTES_MAX) {
            true => {
                self.places.push(place);
                Ok(())
            }
            false => Err(Code::NO_MEMORY),
        }
    }

    /// Packs text, whose end is marked by a zero that is packed, too.
    ///
    /// # Errors
    /// [`Code::NOT_IMPLEMENTED`]: in place; [`Code::NO_MEMORY`].
    pub fn pack_text(&mut self, text: &[u8]) -> Result<(), Code> {
        if self.is_in_place {
            return Err(Code::NOT_IMPLEMENTED);
        }
        let with_end = text.len() + 1;
        self.reserve(with_end.saturating_add(2 * XDR_UNIT))?;
        // Fits: it was just reserved.
        self.append_int(with_end as i32);
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        if self.info.encoding == XDR {
            let padded = self.bytes.len().next_multiple_of(XDR_UNIT);
            self.bytes.resize(padded, 0);
        }
        Ok(())
    }

    /// Packs one integer.
    ///
    /// # Errors
    /// As [`Buffer::pack`].
    pub fn pack_int(&mut self, value: i32) -> Result<(), Code> {
        self.pack(Kind::Int, &value.to_ne_bytes(), 1, 1)
    }

    /// Unpacks items into `memory`.
    ///
    /// # Errors
    /// [`Code::NO_DATA`]: there are not so many left, `memory` is as it was then;
    /// [`Code::BAD_PARAMETER`] as [`Buffer::pack`]; [`Code::BAD_MESSAGE`]: raw, of another data
    /// format.
    pub fn unpack(
        &mut self,
        kind: Kind,
        memory: &mut [u8],
        count: usize,
        stride: usize,
    ) -> Result<(), Code> {
        self.check(kind, memory.len(), count, stride)?;
        if count == 0 {
            return Ok(());
        }
        match self.info.encoding == XDR {
            true => {
                let order = self.order;
                kind.take_xdr(self.advance(kind.xdr_bytes(count))?, memory, stride, order);
            }
            false => {
                let bytes = count.saturating_mul(kind.bytes());
                kind.take_raw(self.advance(bytes)?, memory, stride);
            }
        }
        Ok(())
    }

    /// Unpacks text, without its end.
    ///
    /// # Errors
    /// [`Code::NO_DATA`]; [`Code::BAD_MESSAGE`].
    pub fn unpack_text(&mut self) -> Result<&[u8], Code> {
        let begin = self.cursor;
        let length = usize::try_from(self.unpack_int()?);
        let is_xdr = self.info.encoding == XDR;
        let taken = length.map_err(|_| Code::NO_DATA).and_then(|length| {
            let padded = match is_xdr {
                true => length.next_multiple_of(XDR_UNIT),
                false => length,
            };
            self.advance(padded).map(|_| length)
        });
        match taken {
            Ok(length) => {
                let text = &self.body()[begin + XDR_UNIT..][..length];
                let end = text.iter().position(|byte| *byte == 0);
                Ok(&text[..end.unwrap_or(length)])
            }
            Err(code) => {
                self.cursor = begin;
                Err(code)
            }
        }
    }

    /// Unpacks one integer.
    ///
    /// # Errors
    /// As [`Buffer::unpack`].
    pub fn unpack_int(&mut self) -> Result<i32, Code> {
        let mut bytes = [0; 4];
        self.unpack(Kind::Int, &mut bytes, 1, 1)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    fn append_int(&mut self, value: i32) {
        let bytes = value.to_ne_bytes();
        let bytes = match self.info.encoding == XDR {
            true => self.order.turn_4(bytes),
            false => bytes,
        };
        self.bytes.extend_from_slice(&bytes);
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Code> {
        if self.body().len().saturating_add(bytes) > BYTES_MAX {
            return Err(Code::NO_MEMORY);
        }
        let room = self.bytes.len() + bytes;
        if room > self.bytes.capacity()
            && let Some(mut larger) = spare::with_room(room)
        {
            larger.clear();
            larger.extend_from_slice(&self.bytes);
            spare::keep(std::mem::replace(&mut self.bytes, larger));
        }
        let reserved = self.bytes.try_reserve(bytes);
        reserved.map_err(|_| Code::NO_MEMORY)
    }

    /// The next bytes to unpack.
    fn advance(&mut self, bytes: usize) -> Result<&[u8], Code> {
        // Raw bytes mean something else where numbers have other lengths or another order.
        if ![XDR, NATIVE_FORMAT].contains(&self.info.encoding) {
            return Err(Code::BAD_MESSAGE);
        }
        let end = self.cursor.checked_add(bytes).ok_or(Code::NO_DATA)?;
        if end > self.body().len() {
            return Err(Code::NO_DATA);
        }
        let begin = HEADER_BYTES + self.cursor;
        let found = self.bytes.get(begin..begin + bytes).ok_or(Code::NO_DATA)?;
        self.cursor = end;
        Ok(found)
    }

    fn check(&self, kind: Kind, memory: usize, count: usize, stride: usize) -> Result<(), Code> {
        match stride > 0 && kind.span(count, stride) == Some(memory) {
            true => Ok(()),
            false => Err(Code::BAD_PARAMETER),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        spare::keep(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 11] = [
        Kind::Byte,
        Kind::Short,
        Kind::UnsignedShort,
        Kind::Int,
        Kind::UnsignedInt,
        Kind::Long,
        Kind::UnsignedLong,
        Kind::Float,
        Kind::Complex,
        Kind::Double,
        Kind::DoubleComplex,
    ];

    #[test]
    fn what_is_packed_is_unpacked_in_both_encodings() {
        for encoding in [Encoding::Xdr, Encoding::Raw] {
            for kind in KINDS {
                for (count, stride) in [(0, 1), (1, 1), (5, 1), (3, 2), (4, 7), (2_049, 1)] {
                    let span = kind.span(count, stride).expect("short");
                    let mut memory: Vec<u8> =
                        (0..span).map(|byte| (byte * 37 + 11) as u8).collect();
                    if [Kind::Long, Kind::UnsignedLong].contains(&kind) {
                        // What fits into XDR.
                        let words = memory.chunks_exact_mut(8);
                        words.for_each(|word| word.copy_from_slice(&7_i64.to_ne_bytes()));
                    }
                    let mut buffer = Buffer::new(encoding);
                    buffer
                        .pack(kind, &memory, count, stride)
                        .expect("it is packed");
                    buffer.pack_text(b"end").expect("text is packed");
                    let mut unpacked = memory.clone();
                    for step in 0..count {
                        let at = step * stride * kind.bytes();
                        unpacked[at..at + kind.bytes()].fill(0);
                    }
                    buffer
                        .unpack(kind, &mut unpacked, count, stride)
                        .expect("it is unpacked");
                    assert_eq!(unpacked, memory, "{encoding:?} {kind:?} {count} {stride}");
                    assert_eq!(buffer.unpack_text(), Ok(&b"end"[..]));
                    assert_eq!(buffer.unpack_int(), Err(Code::NO_DATA));
                }
            }
        }
    }

    #[test]
    fn what_a_machine_of_the_other_order_packs_is_converted() {
        let other = match Order::NATIVE {
            Order::Big => Order::Little,
            Order::Little => Order::Big,
        };
        for kind in KINDS {
            for (count, stride) in [(1, 1), (5, 1), (3, 2), (2_049, 1)] {
                let span = kind.span(count, stride).expect("short");
                let mut memory = vec![0; span];
                for step in 0..count {
                    let at = step * stride * kind.bytes();
                    // Fits into XDR, and no byte is like another.
                    memory[at..at + kind.bytes().min(4)]
                        .copy_from_slice(&[0x11, 0x22, 0x33, 0x44][..kind.bytes().min(4)]);
                }
                let mut sent = Buffer::new(Encoding::Xdr);
                sent.order = other;
                sent.pack(kind, &memory, count, stride).expect("packed");
                sent.pack_text(b"end").expect("packed");
                let mut inner = sent.clone();
                inner.info.tag = 4;
                sent.pack_message(&inner).expect("packed");
                let mut received = Buffer::from_frame(sent.frame().to_vec()).expect("sound");
                assert_eq!(received.info.encoding, XDR, "as PVM calls it");
                let mut unpacked = vec![0; span];
                let outcome = received.unpack(kind, &mut unpacked, count, stride);
                assert_eq!((outcome, &unpacked), (Ok(()), &memory), "{kind:?} {count}");
                assert_eq!(received.unpack_text(), Ok(&b"end"[..]));
                let mut inner = received.unpack_message().expect("one");
                unpacked.fill(0);
                let outcome = inner.unpack(kind, &mut unpacked, count, stride);
                assert_eq!((outcome, &unpacked), (Ok(()), &memory), "{kind:?} {count}");
            }
        }
    }

    #[test]
    fn what_is_sent_between_machines_of_one_order_has_it() {
        let mut buffer = Buffer::new(Encoding::Xdr);
        buffer.pack_int(0x1122_3344).expect("packed");
        assert_eq!(buffer.body(), 0x1122_3344_i32.to_ne_bytes());
    }

    #[test]
    fn big_endian_is_what_the_standard_says() {
        let mut buffer = Buffer::new(Encoding::Xdr);
        buffer.order = Order::Big;
        let short = (-2_i16).to_ne_bytes();
        buffer.pack(Kind::Short, &short, 1, 1).expect("packed");
        buffer
            .pack(Kind::Float, &1.0_f32.to_ne_bytes(), 1, 1)
            .expect("packed");
        buffer.pack(Kind::Byte, b"abcde", 5, 1).expect("packed");
        buffer.pack_text(b"hi").expect("packed");
        let wanted = [
            &[0xff, 0xff, 0xff, 0xfe][..],
            &[0x3f, 0x80, 0, 0],
            b"abcde\0\0\0",
            &[0, 0, 0, 3],
            b"hi\0\0",
        ];
        assert_eq!(buffer.body(), wanted.concat());
    }

    #[test]
    fn long_that_does_not_fit_into_xdr_is_refused() {
        let mut buffer = Buffer::new(Encoding::Xdr);
        for (value, outcome) in [
            (i64::from(i32::MIN), Ok(())),
            (i64::from(i32::MAX) + 1, Err(Code::OVERFLOW)),
        ] {
            let packed = buffer.pack(Kind::Long, &value.to_ne_bytes(), 1, 1);
            assert_eq!(packed, outcome);
        }
        assert_eq!(buffer.len(), 4);
        let mut bytes = [0; 8];
        buffer.unpack(Kind::Long, &mut bytes, 1, 1).expect("one");
        assert_eq!(i64::from_ne_bytes(bytes), i64::from(i32::MIN));
    }

    #[test]
    fn failed_unpack_takes_nothing() {
        let mut buffer = Buffer::new(Encoding::Xdr);
        buffer.pack_int(7).expect("packed");
        let mut two = [1; 8];
        assert_eq!(buffer.unpack(Kind::Int, &mut two, 2, 1), Err(Code::NO_DATA));
        assert_eq!(two, [1; 8]);
        // It is no length of a text, either.
        assert_eq!(buffer.unpack_text(), Err(Code::NO_DATA));
        assert_eq!(buffer.unpack_int(), Ok(7));
        buffer.rewind();
        assert_eq!(buffer.unpack_int(), Ok(7));
    }

    #[test]
    fn raw_bytes_of_another_format_are_refused() {
        let info = Info {
            encoding: 0x0065_8e5a ^ NATIVE_FORMAT,
            ..Info::default()
        };
        let mut buffer = Buffer::with_body(info, &[0; 4]);
        assert_eq!(buffer.unpack_int(), Err(Code::BAD_MESSAGE));
    }

    #[test]
    fn in_place_takes_dense_items_and_no_text() {
        let mut buffer = Buffer::new(Encoding::InPlace);
        let place = Place {
            address: 0x1000,
            kind: Kind::Double,
            count: 3,
            stride: 1,
        };
        buffer.pack_in_place(place).expect("dense");
        assert_eq!((buffer.len(), buffer.in_place_bytes()), (0, 24));
        let sparse = Place { stride: 2, ..place };
        assert_eq!(buffer.pack_in_place(sparse), Err(Code::NOT_IMPLEMENTED));
        assert_eq!(buffer.pack_text(b"no"), Err(Code::NOT_IMPLEMENTED));
        let huge = Place {
            count: usize::MAX / 8,
            ..place
        };
        assert_eq!(buffer.pack_in_place(huge), Err(Code::NO_MEMORY));
    }
}
