//! Segments, as the core has them: one made by it, and one byte of them.

use hythe_abi::control::{method, result};
use rustix::io::Errno;

use super::{TaskError, Tasks};

/// Error numbers of Linux have 12 bits.
const LEAST_RESULT: i32 = -4095;

/// A byte of a segment, as its core sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreByte {
    /// Where the core has it.
    pub address: u64,
    /// What it is.
    pub value: u8,
}

impl Tasks {
    /// A byte of the area of segments: so many bytes behind the start of a page of the area.
    ///
    /// # Errors
    /// [`TaskError::OutsideArea`]; those of a request.
    pub fn peek(&mut self, page: u64, offset: u64) -> Result<CoreByte, TaskError> {
        let page_bytes = hythe_abi::segments::PAGE_BYTES as u64;
        let board = self.board.clone();
        let outside = TaskError::OutsideArea {
            board,
            page,
            offset,
        };
        let at = page.saturating_add(offset / page_bytes);
        let Ok(at) = u32::try_from(at) else {
            return Err(outside);
        };
        // Fits: less than a page.
        let words = [at, (offset % page_bytes) as u32, 0];
        let reply = self.call_with(method::PEEK, words, self.bound, &[])?;
        if reply.result == result::MALFORMED {
            return Err(outside);
        }
        self.expect_done(&reply)?;
        let [value, low, high, ..] = reply.values;
        let value = u8::try_from(value).map_err(|_| self.bad(format!("a byte of {value}")))?;
        Ok(CoreByte {
            address: u64::from(high) << 32 | u64::from(low),
            value,
        })
    }

    /// Has the core make a segment: its id, or why the core, or its agent, has made none.
    pub(crate) fn make_segment(
        &mut self,
        key: i32,
        bytes: u32,
        flags: i32,
    ) -> Result<Result<i32, Errno>, TaskError> {
        let words = [key.cast_unsigned(), bytes, flags.cast_unsigned()];
        // So the core has told us before we have stopped waiting.
        let core_bound = self.bound * 4 / 5;
        let reply = self.call_with(method::MAKE, words, core_bound, &[])?;
        let id = reply.values[0].cast_signed();
        match reply.result {
            0 if id >= 0 => Ok(Ok(id)),
            number @ LEAST_RESULT..0 => Ok(Err(Errno::from_raw_os_error(-number))),
            other => Err(self.bad(format!("result {other}, id {id}"))),
        }
    }
}
