//! Making the control file of a new pool.

use hythe_abi::pool::{MAGIC, VERSION, header};
use hythe_abi::{LINE_BYTES, RegionIndex};
use hythe_memory::{Memory, Ordering};

use crate::PoolError;
use crate::control::Control;
use crate::geometry::Geometry;
use crate::regions::records::write_region;
use crate::regions::{RegionGeometry, RegionKind};

impl<M: Memory> Control<M> {
    /// Makes a new pool in zeroed memory.
    ///
    /// # Errors
    /// [`PoolError::BadGeometry`] if the geometry does not fit the memory.
    pub fn create(memory: M, geometry: &Geometry, pool_id: u64) -> Result<Self, PoolError> {
        let layout = geometry.layout()?;
        if memory.bytes() < layout.bytes() {
            return Err(PoolError::BadGeometry(format!(
                "the control file has {} bytes and needs {}",
                memory.bytes(),
                layout.bytes()
            )));
        }
        let control = Self::over(memory, layout);
        write_header(&control, geometry, pool_id);
        Ok(control)
    }
}

fn write_header<M: Memory>(control: &Control<M>, geometry: &Geometry, pool_id: u64) {
    let memory = control.memory();
    let limits = control.layout().limits();
    let word = |at, value| memory.store(at, value, Ordering::Relaxed);
    memory.store_cell(header::MAGIC, MAGIC, Ordering::Relaxed);
    word(header::VERSION, VERSION);
    memory.store_cell(header::POOL_ID, pool_id, Ordering::Relaxed);
    memory.store_cell(
        header::CONTROL_BYTES,
        control.layout().bytes() as u64,
        Ordering::Relaxed,
    );
    word(header::PARTICIPANTS, limits.participants);
    word(header::CHANNELS, limits.channels);
    word(header::PORTS, limits.ports);
    word(header::CONNECTIONS, limits.connections);
    word(header::QUEUE_SEGMENTS, limits.queue_segments);
    word(header::SLOTS, limits.slots);
    word(header::LINE_BYTES, LINE_BYTES as u32);
    write_region(
        control,
        &RegionGeometry {
            index: RegionIndex(0),
            kind: RegionKind::Linux,
            name: "memory".to_owned(),
            bytes: geometry.region_bytes() as u64,
            ledger_base: 0,
            slots: geometry.classes.iter().map(|class| class.count).sum(),
            classes: geometry.classes.clone(),
            link: None,
            segments: None,
        },
    );
    // Pairs with the acquire load in `open`: whoever sees it sees the whole header.
    memory.store(header::READY, 1, Ordering::Release);
}
