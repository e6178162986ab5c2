//! `peek` of the shell: one byte of a segment under its two addresses, this process's and the
//! core's.

use hythe::Pool;
use hythe::core::segment::{Access, Segments};
use hythe::core::tasks::Tasks;
use hythe_command::error::CliError;
use serde::Serialize;

/// Which byte, and what Linux writes there before both look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: i32,
    pub(super) offset: usize,
    pub(super) written: Option<u8>,
}

/// The byte.
#[derive(Debug, Serialize)]
pub(super) struct Peeked {
    id: i32,
    offset: usize,
    value: u8,
    linux_address: String,
    core_address: String,
}

/// Looks at it from both sides, which have to see the same.
pub(super) fn peek(
    pool: &Pool,
    board: &str,
    core: &mut Tasks,
    place: Place,
) -> Result<Peeked, CliError> {
    let Place {
        id,
        offset,
        written,
    } = place;
    let segments = Segments::open(pool, Some(board))?;
    let access = match written {
        Some(_) => Access::Write,
        None => Access::Read,
    };
    let attached = segments.attach(id, access, None)?;
    if offset >= attached.len() {
        let bytes = attached.len();
        return Err(CliError::WrongUse(format!(
            "segment {id} has {bytes} bytes, so no byte {offset}"
        )));
    }
    // It stays where it is as long as it is attached.
    let listed = segments
        .list()?
        .into_iter()
        .flat_map(|board| board.segments);
    let page = listed.into_iter().find(|info| info.id == id);
    let page = page
        .map(|info| info.page)
        .ok_or_else(|| CliError::Failed(format!("segment {id} was removed meanwhile")))?;
    if let Some(byte) = written {
        attached.write(offset, &[byte]);
    }
    let there = core.peek(page, offset as u64)?;
    let mut here = [0];
    attached.read(offset, &mut here);
    if here[0] != there.value {
        return Err(CliError::Failed(format!(
            "byte {offset} of segment {id} is 0x{:02x} here and 0x{:02x} for the core; is somebody \
             writing it?",
            here[0], there.value
        )));
    }
    Ok(Peeked {
        id,
        offset,
        value: there.value,
        linux_address: format!("{:#x}", attached.address() + offset),
        core_address: format!("{:#x}", there.address),
    })
}

impl Peeked {
    /// For people.
    pub(super) fn text(&self) -> String {
        format!(
            "byte {} of segment {} is 0x{:02x}: at {} here, at {} for the core",
            self.offset, self.id, self.value, self.linux_address, self.core_address
        )
    }
}
