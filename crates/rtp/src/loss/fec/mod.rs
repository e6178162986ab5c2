//! Forward error correction: parity packets from which a receiver computes what it lost, without
//! asking.
//!
//! Packets are put into a matrix of [`Shape`] in the order of their numbers, row by row. The XOR of
//! a row, and of a column, is a packet of its own: a row repairs one loss in it, a column one, so
//! that a burst as long as a row is repaired by columns, and both together repair most patterns.
//! Two formats say the same in different headers:
//!
//! - [`smpte2022`]: SMPTE ST 2022-1 (Pro-MPEG CoP3), for MPEG-TS over RTP; columns on the port two
//!   above, rows four above.
//! - [`ulpfec`]: RFC 5109, level 0, for payloads whose packets differ in size.
//!
//! [`encoder`] makes both, [`decoder`] repairs from both, [`parity`] is the arithmetic they share,
//! [`predict`] computes which losses are left over.

pub mod decoder;
pub mod encoder;
pub mod parity;
pub mod predict;
pub mod smpte2022;
pub mod ulpfec;

pub use decoder::Decoder;
pub use encoder::Encoder;

/// Most columns, and most rows (SMPTE ST 2022-1).
pub const SIDE_MAX: u8 = 20;
/// Fewest rows, and fewest columns where rows are protected (SMPTE ST 2022-1).
pub const SIDE_MIN: u8 = 4;
/// Most packets of a matrix (SMPTE ST 2022-1).
pub const PACKETS_MAX: u16 = 100;

/// A matrix of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    columns: u8,
    rows: u8,
}

/// A matrix that the format does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a matrix of {columns} columns and {rows} rows cannot be used for parity: {reason}")]
pub struct BadShape {
    /// As asked for.
    pub columns: u8,
    /// As asked for.
    pub rows: u8,
    /// Which limit it breaks.
    pub reason: &'static str,
}

impl Shape {
    /// `columns` (L) of 1 to 20, `rows` (D) of 1 to 20, 100 packets at most. Formats and
    /// protections want more of it.
    ///
    /// # Errors
    ///
    /// [`BadShape`].
    pub const fn new(columns: u8, rows: u8) -> Result<Self, BadShape> {
        let shape = Self { columns, rows };
        if columns == 0 || columns > SIDE_MAX {
            return Err(shape.refuse("1 to 20 columns are possible"));
        }
        if rows == 0 || rows > SIDE_MAX {
            return Err(shape.refuse("1 to 20 rows are possible"));
        }
        if columns as u16 * rows as u16 > PACKETS_MAX {
            return Err(shape.refuse("100 packets are the most"));
        }
        Ok(shape)
    }

    /// Packets of a row (L).
    #[must_use]
    pub const fn columns(self) -> usize {
        self.columns as usize
    }

    /// Packets of a column (D).
    #[must_use]
    pub const fn rows(self) -> usize {
        self.rows as usize
    }

    /// Packets of a matrix.
    #[must_use]
    pub const fn packets(self) -> usize {
        self.columns() * self.rows()
    }

    pub(crate) const fn refuse(self, reason: &'static str) -> BadShape {
        BadShape {
            columns: self.columns,
            rows: self.rows,
            reason,
        }
    }
}

/// What of a matrix gets parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Columns: repairs a burst of up to a row's length. Costs 1/D.
    Columns,
    /// Rows: repairs single losses, soon. Costs 1/L.
    Rows,
    /// Both, which help each other.
    Both,
}

impl Protection {
    /// Are columns protected?
    #[must_use]
    pub const fn has_columns(self) -> bool {
        matches!(self, Self::Columns | Self::Both)
    }

    /// Are rows protected?
    #[must_use]
    pub const fn has_rows(self) -> bool {
        matches!(self, Self::Rows | Self::Both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_limits() {
        for (columns, rows) in [(1, 4), (5, 5), (20, 5), (5, 20), (10, 10), (1, 1)] {
            let shape = Shape::new(columns, rows).unwrap();
            assert_eq!(shape.packets(), usize::from(columns) * usize::from(rows));
        }
        for (columns, rows) in [(0, 4), (4, 0), (21, 4), (4, 21), (20, 6), (255, 255)] {
            let refused = Shape::new(columns, rows).unwrap_err();
            assert_eq!((refused.columns, refused.rows), (columns, rows));
        }
    }
}
