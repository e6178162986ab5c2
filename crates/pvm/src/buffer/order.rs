//! The order of the bytes of numbers in the default encoding.
//!
//! `PvmDataDefault` has the layout of XDR, and the order of its sender: between machines of one
//! order nothing is turned around, else the receiver does it. What PVM tells of a message is the
//! same in both: its lengths, and that it is XDR.

use super::XDR;

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The one with the most weight, as RFC 4506 demands it of XDR.
    Big,
    /// The one with the least.
    Little,
}

impl Order {
    /// Of this machine.
    pub(super) const NATIVE: Self = match cfg!(target_endian = "big") {
        true => Self::Big,
        false => Self::Little,
    };

    /// Of what a message says about its encoding: the encoding that its receiver is told, and the
    /// order.
    pub(super) const fn read(word: i32) -> (i32, Self) {
        match word {
            XDR_LITTLE => (XDR, Self::Little),
            XDR => (XDR, Self::Big),
            other => (other, Self::NATIVE),
        }
    }

    /// What a message of this order says about its encoding.
    pub(super) const fn word(self, encoding: i32) -> i32 {
        match (encoding, self) {
            (XDR, Self::Little) => XDR_LITTLE,
            _ => encoding,
        }
    }

    pub(super) fn is_native(self) -> bool {
        self == Self::NATIVE
    }

    /// A number as it lies in a message; the same turns it back.
    pub(super) const fn turn_4(self, bytes: [u8; 4]) -> [u8; 4] {
        let value = u32::from_ne_bytes(bytes);
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    /// As [`turn_4`](Self::turn_4).
    pub(super) const fn turn_8(self, bytes: [u8; 8]) -> [u8; 8] {
        let value = u64::from_ne_bytes(bytes);
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }
}

/// XDR whose numbers are little-endian.
const XDR_LITTLE: i32 = XDR + 1;
