//! A look at a pool from outside: members, channels, ports, who holds what.

use hythe_memory::Mapped;
use hythe_pool::{
    Audit, ChannelInfo, ConnectionInfo, Control, HighWater, HolderKind, MemberInfo, PortInfo,
    RegionGeometry, Regions, audit,
};

use crate::clock;

/// A buffer and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBuffer {
    /// Region and slot within it.
    pub place: hythe_abi::Place,
    /// Size of the slot.
    pub slot_bytes: u32,
    /// Who.
    pub holder: HolderKind,
    /// References.
    pub count: u32,
    /// For how long, in milliseconds, to 128 ms; 0 for queues.
    pub held_ms: u64,
}

/// Everything about a pool at about one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Number chosen when the pool was made.
    pub pool_id: u64,
    /// Its regions.
    pub regions: Vec<RegionGeometry>,
    /// Its participants.
    pub members: Vec<MemberInfo>,
    /// Its channels.
    pub channels: Vec<ChannelInfo>,
    /// Their ports. What a subscriber missed counts though it has not looked since.
    pub ports: Vec<PortInfo>,
    /// Their connections.
    pub connections: Vec<ConnectionInfo>,
    /// The ledger, summed up.
    pub audit: Audit,
    /// The control file's parts, with their sizes.
    pub control_terms: Vec<(&'static str, usize)>,
    /// The most of everything that was in use at once.
    pub high_water: HighWater,
    /// Limits of the tables.
    pub limits: hythe_abi::pool::Limits,
}

impl Snapshot {
    pub(super) fn take(control: &Control<Mapped>, regions: &Regions) -> Self {
        // A region that cannot be read is not there for us; opening the pool has said why.
        let _ = regions.refresh(control);
        let mut ports: Vec<PortInfo> = control.tables().ports().collect();
        control.tables().add_uncounted(&mut ports);
        Self {
            pool_id: control.pool_id(),
            regions: regions.iter().cloned().collect(),
            members: control.tables().members().collect(),
            channels: control.tables().channels().collect(),
            ports,
            connections: control.tables().connections().collect(),
            audit: audit(control, regions, clock::coarse_ms()),
            control_terms: control.layout().terms().to_vec(),
            high_water: control.high_water(regions),
            limits: control.layout().limits(),
        }
    }

    /// Every buffer that somebody holds, in the order of their slots.
    #[must_use]
    pub fn held_buffers(&self) -> Vec<HeldBuffer> {
        let region_of = |slot: u32| {
            self.regions.iter().find(|region| {
                slot >= region.ledger_base && slot - region.ledger_base < region.slots
            })
        };
        let holders = self.audit.holders.iter();
        holders
            .filter_map(|holder| {
                let region = region_of(holder.slot.0)?;
                let slot = holder.slot.0 - region.ledger_base;
                Some(HeldBuffer {
                    place: hythe_abi::Place {
                        region: region.index,
                        slot,
                    },
                    slot_bytes: region.class_of(slot)?.slot_bytes,
                    holder: holder.kind,
                    count: holder.count,
                    held_ms: holder.held_ms,
                })
            })
            .collect()
    }

    /// What to call a holder. A side of a queue that has left it is not named: its number may be
    /// another participant's by now.
    #[must_use]
    pub fn holder_name(&self, holder: HolderKind) -> String {
        let member = |index| {
            let found = self.members.iter().find(|member| member.index == index);
            found.map_or_else(
                || format!("participant {}", index.0),
                |member| format!("{} (pid {})", member.name, member.identity.pid),
            )
        };
        match holder {
            HolderKind::Member(index) => member(index),
            HolderKind::Queue(index) => {
                let connection = self.connections.iter().find(|found| found.index == index);
                connection.map_or_else(
                    || format!("queue {}", index.0),
                    |found| {
                        let side = |index, has_left| match has_left {
                            true => "a participant that has left".to_owned(),
                            false => member(index),
                        };
                        format!(
                            "queue from {} to {}",
                            side(found.producer, found.producer_left),
                            side(found.consumer, found.consumer_left)
                        )
                    },
                )
            }
        }
    }
}
