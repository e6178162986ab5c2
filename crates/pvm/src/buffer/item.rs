//! What is packed: kinds of items, and how each lies in a message.
//!
//! In XDR (`PvmDataDefault`) integers and floating point numbers have at least 4 bytes, in the
//! order of the message; raw, all is as in memory. What is given and taken here are bytes as in
//! memory, items `stride` apart.

use super::order::Order;

/// Kinds of items that `pvm_pk*` packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `char`, never converted.
    Byte,
    /// `short`.
    Short,
    /// `unsigned short`.
    UnsignedShort,
    /// `int`.
    Int,
    /// `unsigned int`.
    UnsignedInt,
    /// `long`.
    Long,
    /// `unsigned long`.
    UnsignedLong,
    /// `float`.
    Float,
    /// Two of `float`.
    Complex,
    /// `double`.
    Double,
    /// Two of `double`.
    DoubleComplex,
}

const LONG_BYTES: usize = size_of::<std::ffi::c_long>();
/// XDR pads to this.
pub(super) const XDR_UNIT: usize = 4;
/// So many bytes are copied before their order changes: whole numbers of every kind.
const BLOCK_BYTES: usize = 4096;

impl Kind {
    /// Bytes of one item in memory.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.part_bytes() * self.parts()
    }

    /// The kind that `PVM_BYTE` to `PVM_ULONG` name; strings are none.
    #[must_use]
    pub const fn from_data_type(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::Byte,
            2 => Self::Short,
            3 => Self::Int,
            4 => Self::Float,
            5 => Self::Complex,
            6 => Self::Double,
            7 => Self::DoubleComplex,
            8 => Self::Long,
            9 => Self::UnsignedShort,
            10 => Self::UnsignedInt,
            11 => Self::UnsignedLong,
            _ => return None,
        })
    }

    /// Numbers of which an item consists.
    pub(super) const fn parts(self) -> usize {
        match self {
            Self::Complex | Self::DoubleComplex => 2,
            _ => 1,
        }
    }

    pub(super) const fn part_bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Short | Self::UnsignedShort => 2,
            Self::Int | Self::UnsignedInt | Self::Float | Self::Complex => 4,
            Self::Double | Self::DoubleComplex => 8,
            Self::Long | Self::UnsignedLong => LONG_BYTES,
        }
    }

    /// Bytes of one number in XDR.
    const fn part_bytes_in_xdr(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Short | Self::UnsignedShort => 4,
            // Always: PVM does so also where a `long` has 8 in memory.
            Self::Long | Self::UnsignedLong => 4,
            _ => self.part_bytes(),
        }
    }

    /// Bytes that `count` items have in XDR.
    pub(super) const fn xdr_bytes(self, count: usize) -> usize {
        let bytes = count
            .saturating_mul(self.parts())
            .saturating_mul(self.part_bytes_in_xdr());
        bytes.next_multiple_of(XDR_UNIT)
    }

    /// Do all items fit into what they have in XDR?
    pub(super) fn fits_xdr(self, memory: &[u8], stride: usize) -> bool {
        match self {
            Self::Long => {
                let mut items = self.items(memory, stride);
                items.all(|item| i32::try_from(long(item)).is_ok())
            }
            Self::UnsignedLong => {
                let mut items = self.items(memory, stride);
                items.all(|item| u32::try_from(unsigned_long(item)).is_ok())
            }
            _ => true,
        }
    }

    /// Bytes of memory from the first to the end of the last of `count` items.
    #[must_use]
    pub const fn span(self, count: usize, stride: usize) -> Option<usize> {
        let Some(steps) = count.checked_sub(1) else {
            return Some(0);
        };
        let Some(distance) = steps.checked_mul(stride) else {
            return None;
        };
        let Some(items) = distance.checked_add(1) else {
            return None;
        };
        items.checked_mul(self.bytes())
    }

    /// Appends items as they are in memory.
    pub(super) fn append_raw(self, to: &mut Vec<u8>, memory: &[u8], stride: usize) {
        match stride {
            1 => to.extend_from_slice(memory),
            _ => self
                .items(memory, stride)
                .for_each(|item| to.extend_from_slice(item)),
        }
    }

    /// Appends items in XDR.
    pub(super) fn append_xdr(self, to: &mut Vec<u8>, memory: &[u8], stride: usize, order: Order) {
        let begin = to.len();
        if stride == 1 && self.has_own_length_in_xdr() {
            // Turned around while it is in the cache.
            for block in memory.chunks(BLOCK_BYTES) {
                let at = to.len();
                to.extend_from_slice(block);
                self.turn_around(&mut to[at..], order);
            }
        } else {
            let items = self.items(memory, stride);
            items.for_each(|item| self.append_one_in_xdr(to, item, order));
        }
        let padded = begin + (to.len() - begin).next_multiple_of(XDR_UNIT);
        to.resize(padded, 0);
    }

    fn append_one_in_xdr(self, to: &mut Vec<u8>, item: &[u8], order: Order) {
        let number = match self {
            Self::Short => i32::from(i16::from_ne_bytes(array(item))).to_ne_bytes(),
            Self::UnsignedShort => u32::from(u16::from_ne_bytes(array(item))).to_ne_bytes(),
            // What does not fit was refused before.
            Self::Long => (long(item) as i32).to_ne_bytes(),
            Self::UnsignedLong => (unsigned_long(item) as u32).to_ne_bytes(),
            _ => {
                let at = to.len();
                to.extend_from_slice(item);
                self.turn_around(&mut to[at..], order);
                return;
            }
        };
        to.extend_from_slice(&order.turn_4(number));
    }

    /// Writes items as they were packed raw.
    pub(super) fn take_raw(self, from: &[u8], memory: &mut [u8], stride: usize) {
        match stride {
            1 => memory.copy_from_slice(from),
            _ => {
                let places = memory.chunks_mut(self.bytes() * stride.max(1));
                for (item, place) in from.chunks_exact(self.bytes()).zip(places) {
                    place[..item.len()].copy_from_slice(item);
                }
            }
        }
    }

    /// Writes items that were packed in XDR.
    pub(super) fn take_xdr(self, from: &[u8], memory: &mut [u8], stride: usize, order: Order) {
        if stride == 1 && self.has_own_length_in_xdr() {
            // Behind what there is a place for is what it was padded with.
            for (block, from) in memory.chunks_mut(BLOCK_BYTES).zip(from.chunks(BLOCK_BYTES)) {
                block.copy_from_slice(&from[..block.len()]);
                self.turn_around(block, order);
            }
            return;
        }
        let places = memory.chunks_mut(self.bytes() * stride.max(1));
        let item_bytes = self.part_bytes_in_xdr() * self.parts();
        for (item, place) in from.chunks_exact(item_bytes).zip(places) {
            self.take_one_in_xdr(item, &mut place[..self.bytes()], order);
        }
    }

    fn take_one_in_xdr(self, item: &[u8], place: &mut [u8], order: Order) {
        let number = || order.turn_4(array(item));
        match self {
            Self::Short | Self::UnsignedShort => {
                // What does not fit loses its upper half, as in PVM.
                let value = u32::from_ne_bytes(number()) as u16;
                place.copy_from_slice(&value.to_ne_bytes());
            }
            Self::Long => {
                let value = i32::from_ne_bytes(number());
                place.copy_from_slice(&std::ffi::c_long::from(value).to_ne_bytes());
            }
            Self::UnsignedLong => {
                let value = u32::from_ne_bytes(number());
                place.copy_from_slice(&std::ffi::c_ulong::from(value).to_ne_bytes());
            }
            _ => {
                place.copy_from_slice(item);
                self.turn_around(place, order);
            }
        }
    }

    /// Has it as many bytes in XDR as in memory, so that many side by side differ in their order
    /// only?
    const fn has_own_length_in_xdr(self) -> bool {
        self.part_bytes_in_xdr() == self.part_bytes()
    }

    /// Gives numbers side by side, as long in XDR as in memory, the order of a message, or that of
    /// this machine back.
    fn turn_around(self, bytes: &mut [u8], order: Order) {
        if order.is_native() {
            return;
        }
        match self.part_bytes() {
            4 => {
                let words = bytes.as_chunks_mut().0.iter_mut();
                words.for_each(|word| *word = order.turn_4(*word));
            }
            8 => {
                let words = bytes.as_chunks_mut().0.iter_mut();
                words.for_each(|word| *word = order.turn_8(*word));
            }
            _ => {}
        }
    }

    fn items(self, memory: &[u8], stride: usize) -> impl Iterator<Item = &[u8]> {
        let bytes = self.bytes();
        let chunks = memory.chunks(bytes * stride.max(1));
        chunks.filter_map(move |chunk| chunk.get(..bytes))
    }
}

/// The bytes of one number. Shorter ones, which no caller has, are filled with zeros.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    array
}

fn long(item: &[u8]) -> i64 {
    match LONG_BYTES {
        4 => i64::from(i32::from_ne_bytes(array(item))),
        _ => i64::from_ne_bytes(array(item)),
    }
}

fn unsigned_long(item: &[u8]) -> u64 {
    match LONG_BYTES {
        4 => u64::from(u32::from_ne_bytes(array(item))),
        _ => u64::from_ne_bytes(array(item)),
    }
}
