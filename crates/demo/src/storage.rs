//! The storage stage: reads the file straight into pool buffers and publishes them.
//!
//! Buffers overlap so that each frame lies whole in one of them: the stage runs a splitter of its
//! own over what it read, and starts the next buffer where that says (`hythe::media::mp3`). The
//! headroom carries where in the file a buffer starts.

use std::time::Duration;

use hythe::media::mp3::{FrameSplitter, Step, Window};
use hythe::{Node, PublisherOptions, TrustPeers, monotonic_ns};
use hythe_sys::regular_file::open_regular;
use serde::{Deserialize, Serialize};

use crate::channels::{CHANNEL_FILE, NEIGHBOUR_TIMEOUT};
use crate::error::DemoError;
use crate::task::StorageTask;

/// Bytes read at a time.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// What travels beside a buffer, at the start of its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// Offset of the buffer in the file.
    pub(super) offset: u64,
    /// The file's audio ends with it.
    pub(super) is_last: bool,
}

impl Placement {
    pub(super) const BYTES: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8] = self.is_last.into();
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let mut offset = [0; 8];
        offset.copy_from_slice(&bytes[..8]);
        Self {
            offset: u64::from_le_bytes(offset),
            is_last: bytes[8] != 0,
        }
    }
}

/// What the stage reports when it is done.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct StorageReport {
    /// Bytes read from the file, buffer by buffer.
    pub(super) bytes: Vec<u64>,
    /// How long each read took.
    pub(super) read_ns: Vec<u64>,
    /// When each buffer was published.
    pub(super) published_ns: Vec<u64>,
}

pub(super) fn run(node: &Node, task: &StorageTask) -> Result<StorageReport, DemoError> {
    let unreadable = |source| DemoError::File {
        path: task.file.clone(),
        source,
    };
    let file = open_regular(&task.file).map_err(unreadable)?;
    let mut publisher = node.publisher(
        CHANNEL_FILE,
        &PublisherOptions::default().send_timeout(NEIGHBOUR_TIMEOUT),
    )?;
    if !publisher.wait_for_subscribers(1, NEIGHBOUR_TIMEOUT)? {
        return Err(DemoError::Stalled(
            "no demultiplexer subscribed to the file".to_owned(),
        ));
    }
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let mut report = StorageReport {
        bytes: Vec::new(),
        read_ns: Vec::new(),
        published_ns: Vec::new(),
    };
    let mut splitter = FrameSplitter::new().without_info();
    let mut position = 0;
    loop {
        let left = usize::try_from(task.audio_bytes - position).unwrap_or(usize::MAX);
        let wanted = left.min(BUFFER_BYTES);
        let mut lease = lease_when_free(node, task.region, wanted)?;
        let start = monotonic_ns();
        let mut read = 0;
        while read < wanted {
            let got = lease.read_file(&file, position + read as u64, read, wanted - read);
            match got.map_err(unreadable)? {
                0 => {
                    return Err(DemoError::FileShrank {
                        path: task.file.clone(),
                    });
                }
                got => read += got,
            }
        }
        report.read_ns.push(monotonic_ns() - start);
        report.bytes.push(read as u64);
        let is_last = wanted == left;
        let payload = &lease.as_mut_slice(trust)[..wanted];
        let window = Window {
            offset: position,
            bytes: payload,
            is_last,
        };
        let next = next_read(&mut splitter, &window)?;
        lease.write_headroom(
            0,
            &Placement {
                offset: position,
                is_last,
            }
            .to_bytes(),
        );
        report.published_ns.push(monotonic_ns());
        publisher.publish(lease, wanted)?;
        match next {
            Some(next) => position = next,
            None => return Ok(report),
        }
    }
}

/// Where the next buffer starts; `None` behind the last.
fn next_read(splitter: &mut FrameSplitter, window: &Window<'_>) -> Result<Option<u64>, DemoError> {
    loop {
        match splitter.next(window)? {
            Step::Frame(_) | Step::Gap(_) => {}
            Step::ReadFrom(next) => return Ok(Some(next)),
            Step::End => return Ok(None),
        }
    }
}

/// Leases a buffer, waiting for the later stages to give one back if all are in use.
fn lease_when_free(node: &Node, region: u8, bytes: usize) -> Result<hythe::Lease, DemoError> {
    let start = monotonic_ns();
    loop {
        match node.lease_in(hythe::RegionIndex(region), bytes) {
            Err(full)
                if matches!(full.refusal(), Some(hythe::PoolError::PoolFull { .. }))
                    && monotonic_ns() - start < NEIGHBOUR_TIMEOUT.as_nanos() as u64 =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            leased => return Ok(leased?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_round_trips() {
        let placement = Placement {
            offset: 0x0102_0304_0506_0708,
            is_last: true,
        };
        let back = Placement::from_bytes(placement.to_bytes());
        assert_eq!((back.offset, back.is_last), (placement.offset, true));
    }
}
