//! The record of QEMU (`-icount shift=N,rr=record`), as of version 7.2: a list of events, numbers
//! big endian.
//!
//! Read from a record that QEMU wrote and QEMU's own names of the events; the format is not
//! documented, and carries a version of its own, which is checked. All that is taken from it is how
//! many instructions had run when bytes left a serial port, and whether the CPU slept meanwhile.

use crate::LatencyError;

/// What QEMU 7.2 writes in front.
const VERSION: u32 = 0x00e0_200c;
/// Version, and eight bytes for snapshots.
const HEADER_BYTES: usize = 12;

/// Bytes that left the port in one call of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// Instructions that had run since the machine started.
    pub(super) instruction: u64,
    pub(super) bytes: u32,
    /// Since the write before, no CPU had anything to do, and the emulator moved its clock on to
    /// the next timer.
    pub(super) has_slept: bool,
}

/// The numbers of events.
mod event {
    pub(super) const INSTRUCTION: u8 = 0;
    pub(super) const INTERRUPT: u8 = 1;
    pub(super) const EXCEPTION: u8 = 2;
    pub(super) const BOTTOM_HALF: u8 = 3;
    pub(super) const BOTTOM_HALF_ONCE: u8 = 4;
    pub(super) const INPUT_SYNC: u8 = 6;
    pub(super) const CHAR_READ: u8 = 7;
    pub(super) const BLOCK: u8 = 8;
    pub(super) const SHUTDOWN_FIRST: u8 = 10;
    pub(super) const SHUTDOWN_LAST: u8 = 21;
    pub(super) const CHAR_WRITE: u8 = 22;
    pub(super) const CHAR_READ_ALL: u8 = 23;
    pub(super) const CHAR_READ_ALL_ERROR: u8 = 24;
    pub(super) const RANDOM: u8 = 27;
    pub(super) const CLOCK_HOST: u8 = 28;
    pub(super) const CLOCK_REAL: u8 = 29;
    /// The first of the checkpoints (`CHECKPOINT_CLOCK_WARP_START`): all CPUs wait.
    pub(super) const SLEEP: u8 = 30;
    pub(super) const CHECKPOINT_FIRST: u8 = 30;
    pub(super) const CHECKPOINT_LAST: u8 = 38;
    pub(super) const END: u8 = 39;
}

/// Every write, in order.
pub(super) fn writes(log: &[u8]) -> Result<Vec<Write>, LatencyError> {
    let mut reader = Reader { log, at: 0 };
    let version = reader.word()?;
    if version != VERSION {
        let what = format!(
            "version {version:#010x}, this program reads {VERSION:#010x}, that of QEMU 7.2"
        );
        return Err(LatencyError::RecordLog { what });
    }
    reader.skip(HEADER_BYTES - 4)?;
    let mut instruction = 0_u64;
    let mut has_slept = false;
    let mut writes = Vec::new();
    loop {
        match reader.byte()? {
            event::INSTRUCTION => instruction += u64::from(reader.word()?),
            event::SLEEP => has_slept = true,
            event::CHAR_WRITE => {
                let taken = reader.word()?;
                let bytes = reader.word()?;
                // A negative result: the port had no free capacity, and what it says again comes
                // again.
                if i32::try_from(taken).is_ok() {
                    writes.push(Write {
                        instruction,
                        bytes,
                        has_slept: std::mem::take(&mut has_slept),
                    });
                }
            }
            event::END => return Ok(writes),
            other => reader.pass_over(other)?,
        }
    }
}

struct Reader<'l> {
    log: &'l [u8],
    at: usize,
}

impl Reader<'_> {
    fn pass_over(&mut self, event: u8) -> Result<(), LatencyError> {
        match event {
            event::INTERRUPT | event::EXCEPTION | event::INPUT_SYNC => Ok(()),
            event::SHUTDOWN_FIRST..=event::SHUTDOWN_LAST => Ok(()),
            event::CHECKPOINT_FIRST..=event::CHECKPOINT_LAST => Ok(()),
            event::CHAR_READ_ALL_ERROR => self.skip(4),
            event::CLOCK_HOST | event::CLOCK_REAL => self.skip(8),
            event::BOTTOM_HALF | event::BOTTOM_HALF_ONCE | event::BLOCK => self.skip(8),
            event::CHAR_READ => {
                self.skip(1)?;
                self.pass_over_array()
            }
            event::CHAR_READ_ALL => self.pass_over_array(),
            event::RANDOM => {
                self.skip(4)?;
                self.pass_over_array()
            }
            other => {
                let what = format!(
                    "event {other} at byte {}, which this program does not know",
                    self.at - 1
                );
                Err(LatencyError::RecordLog { what })
            }
        }
    }

    fn pass_over_array(&mut self) -> Result<(), LatencyError> {
        let bytes = self.word()?;
        self.skip(bytes as usize)
    }

    fn skip(&mut self, bytes: usize) -> Result<(), LatencyError> {
        self.take(bytes).map(drop)
    }

    fn byte(&mut self) -> Result<u8, LatencyError> {
        Ok(self.take(1)?[0])
    }

    fn word(&mut self) -> Result<u32, LatencyError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn take(&mut self, bytes: usize) -> Result<&[u8], LatencyError> {
        let end = self
            .at
            .checked_add(bytes)
            .filter(|end| *end <= self.log.len());
        let Some(end) = end else {
            let what = format!("it is cut off at byte {}", self.log.len());
            return Err(LatencyError::RecordLog { what });
        };
        let taken = &self.log[self.at..end];
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning and the end of a record that QEMU 7.2.22 wrote: a program that sent `AB` over
    /// and over, 605 instructions between the two at first.
    const RECORDED: &[u8] = &[
        0x00, 0xe0, 0x20, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0, // header
        0x1c, 0x18, 0xea, 0x62, 0x32, 0x7e, 0x49, 0x12, 0xe8, // the host's clock
        0x25, 0x26, 0x1f, // checkpoints
        0x1d, 0, 0, 0, 0, 0, 0x03, 0x5e, 0x2d, 0x1f, // another clock
        0, 0, 0, 0, 0x0d, 0x16, 0, 0, 0, 1, 0, 0, 0, 1, // A at 13
        0, 0, 0, 0x02, 0x5d, 0x16, 0, 0, 0, 1, 0, 0, 0, 1, // B, 605 later
        0, 0, 0, 0x17, 0x78, 0x16, 0, 0, 0, 1, 0, 0, 0, 1, // A
        0, 0, 0, 0x04, 0xb5, 0x16, 0, 0, 0, 1, 0, 0, 0, 1, // B
        0, 0, 0, 0x17, 0x78, 0x0e, 0x27, // the end
    ];

    /// A part of the record of a board that waits for its tick: it sleeps twice, and takes its
    /// interrupt in between.
    const SLEEPING: &[u8] = &[
        0x1e, 0x1d, 0, 0, 0, 1, 0xc4, 0xab, 0x5a, 0x22, 0x22, // the host's clock, a timer
        0x1e, 0x1d, 0, 0, 0, 1, 0xc4, 0xab, 0x74, 0xbc, 0x22, // once more
        1, 0, 0, 0, 0, 0x74, 2, 0, 0, 0, 0, 0x50, 2, // the interrupt, exceptions
    ];

    fn refused(log: &[u8]) -> String {
        writes(log).expect_err("refused").to_string()
    }

    #[test]
    fn what_qemu_wrote_is_read() {
        let found: Vec<u64> = writes(RECORDED)
            .expect("good")
            .iter()
            .map(|write| write.instruction)
            .collect();
        assert_eq!(found, [13, 618, 6626, 7831]);
        let slept = writes(RECORDED).expect("good");
        assert!(slept.iter().all(|write| !write.has_slept));
    }

    #[test]
    fn what_slept_is_told_from_what_ran() {
        // Before the third byte.
        let mut log = RECORDED[..RECORDED.len() - 35].to_vec();
        log.extend(SLEEPING);
        log.extend(&RECORDED[RECORDED.len() - 35..]);
        let found = writes(&log).expect("good");
        let slept: Vec<bool> = found.iter().map(|write| write.has_slept).collect();
        assert_eq!(slept, [false, false, true, false]);
        assert_eq!(found[2].instruction, 6626 + 0x74 + 0x50);
    }

    #[test]
    fn what_is_cut_or_foreign_is_named() {
        for end in 0..RECORDED.len() {
            let said = refused(&RECORDED[..end]);
            assert!(said.contains("cut off"), "{end}: {said}");
        }
        let mut other = RECORDED.to_vec();
        other[3] = 0x0d;
        assert!(refused(&other).contains("QEMU 7.2"));
        let mut unknown = RECORDED.to_vec();
        unknown[21] = 200;
        assert!(refused(&unknown).contains("event 200 at byte 21"));
    }
}
