//! How large everything is, and why: chosen once, when a pool is made.

use hythe_abi::pool::{CLASSES_MAX, ControlLayout, Limits};
use hythe_abi::{HEADROOM_BYTES, PAGE_BYTES, Place, round_up};

use crate::PoolError;
use crate::limits::limit_out_of_range;
use crate::regions::SlotClass;

/// How many slots of which payload size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassPlan {
    /// Largest payload of a slot, in bytes, without the headroom.
    pub payload_bytes: usize,
    /// Slots of this class.
    pub count: u32,
}

/// One part of the size of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// What it is for.
    pub reason: String,
    /// Its size.
    pub bytes: usize,
}

/// The sizes of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The limits of the control tables.
    pub limits: Limits,
    /// The classes of region 0, smallest first.
    pub classes: Vec<SlotClass>,
}

/// Payload sizes of the default classes with their share of the pool in percent; what a class
/// cannot use goes to the smaller ones, and what they leave goes to the largest. The largest that
/// a pool has follows its size: of each there are two slots or none.
const SHARES: [(usize, usize); CLASSES_MAX] = [
    (64 << 20, 10),
    (16 << 20, 10),
    (4 << 20, 10),
    (1 << 20, 20),
    (64 << 10, 22),
    (16 << 10, 16),
    (3840, 8),
    (768, 4),
];
/// By its share no class gets more slots, so that small slots do not make the control tables large.
const CLASS_SLOTS_MAX: u32 = 2048;
/// Slots of a core's region, the most that a board of `rtos/boards/` has: 704 of 4 KiB, 128 of
/// 20 KiB, 64 of 68 KiB and 6 of more than 1 MiB.
const CORE_SLOTS: u32 = 704 + 128 + 64 + 6;
/// The size of such a region: 16 MiB of slots.
const CORE_REGION_BYTES: usize = 16 << 20;
/// Slots of the wire region, unless its maker wants others.
const WIRE_SLOTS: u32 = 64;
/// Slots of the region for network cards.
const CARD_SLOTS: u32 = 256;
/// Cores that a pool keeps ledger entries for: as many as have regions that together are as large
/// as the pool, and at least two. Each entry takes 832 bytes of a default pool's tables, so those
/// of one core take 750,464.
const CORES: core::ops::RangeInclusive<usize> = 2..=4;
/// Queue segments for queues deeper than the usual 32 messages, which need none of these: 65,536
/// messages, 1.25 MiB.
const DEEP_QUEUE_SEGMENTS: u32 = 2048;
/// The same in a pool of less than [`SMALLEST_USUAL_BYTES`], of which they would take a large part:
/// 16,384 messages, 320 KiB. With it a pool of 8 MiB has room for slots.
const FEW_DEEP_QUEUE_SEGMENTS: u32 = 512;
const SMALLEST_USUAL_BYTES: usize = 16 << 20;
/// The tables of a default pool.
const DEFAULT_LIMITS: Limits = Limits {
    participants: 96,
    channels: 1024,
    ports: 4096,
    connections: 4096,
    // Each connection has one of its own.
    queue_segments: 4096 + DEEP_QUEUE_SEGMENTS,
    // As many as suit the size of the pool: `spare_slots`.
    slots: 0,
};
/// The tables of a small device, together with those for the slots at most 512 KiB up to a pool of
/// 1 GiB.
const SMALL_LIMITS: Limits = Limits {
    participants: 8,
    channels: 64,
    ports: 192,
    connections: 128,
    // Each connection has one of its own; the others are for deep queues: 2,048 messages.
    queue_segments: 128 + 64,
    slots: 256,
};

/// A pool has at least this much beside its control tables.
const SHARED_BYTES_MIN: usize = 64 * PAGE_BYTES;

impl Geometry {
    /// The default geometry for a pool of about `bytes` in all.
    ///
    /// # Errors
    /// [`PoolError::TooSmall`] if the control tables alone need more; [`PoolError::BadGeometry`] if
    /// a pool cannot have as many slots.
    pub fn for_bytes(bytes: usize) -> Result<Self, PoolError> {
        Self::for_bytes_with(Self::default_limits_for(bytes), bytes)
    }

    /// The same with other limits. `limits.slots` counts the entries kept for later regions; 0 is
    /// as many as suit the size. No class gets more slots than that by its share, but 256 it may
    /// get.
    ///
    /// # Errors
    /// As [`Geometry::for_bytes`]; limits out of range.
    pub fn for_bytes_with(limits: Limits, bytes: usize) -> Result<Self, PoolError> {
        Self::for_bytes_and(limits, bytes, &[])
    }

    /// The same with classes of one's own beside the default ones, which share what is left. Of
    /// the default ones there are as many, the smallest first, as a region can have in all.
    ///
    /// # Errors
    /// As [`Geometry::for_bytes_with`], and as [`Geometry::with_classes`].
    pub fn for_bytes_and(
        limits: Limits,
        bytes: usize,
        own: &[ClassPlan],
    ) -> Result<Self, PoolError> {
        let own_bytes = Self::classes_bytes(own);
        // Two rounds: the number of slots decides the size of the ledger, which decides what is
        // left for slots.
        let shared = bytes.saturating_sub(own_bytes).max(SHARED_BYTES_MIN);
        let mut plan = Self::share_beside(limits, shared, own);
        let sized = with_spare_slots(limits, bytes);
        for _ in 0..2 {
            let control = Self::with_classes(sized, &plan)?.layout()?.bytes();
            let left = bytes
                .checked_sub(control.saturating_add(own_bytes))
                .filter(|left| *left >= SHARED_BYTES_MIN);
            let Some(left) = left else {
                return Err(Self::too_small(limits, bytes, control, own)?);
            };
            plan = Self::share_beside(limits, left, own);
        }
        Self::with_classes(sized, &plan)
    }

    /// The error of a pool of `bytes` whose control tables take `control_bytes`. More bytes bring
    /// more slots and so larger tables: the size that suffices is searched upwards.
    fn too_small(
        limits: Limits,
        bytes: usize,
        control_bytes: usize,
        own: &[ClassPlan],
    ) -> Result<PoolError, PoolError> {
        let taken_bytes = Self::classes_bytes(own).saturating_add(SHARED_BYTES_MIN);
        let (mut control_bytes, mut bytes_min) = (control_bytes, 0);
        while control_bytes.saturating_add(taken_bytes) > bytes_min {
            bytes_min = control_bytes.saturating_add(taken_bytes);
            let shared = bytes_min - Self::classes_bytes(own);
            let plan = Self::share_beside(limits, shared, own);
            let sized = with_spare_slots(limits, bytes_min);
            control_bytes = Self::with_classes(sized, &plan)?.layout()?.bytes();
        }
        Ok(PoolError::TooSmall {
            bytes,
            control_bytes,
            bytes_min,
        })
    }

    /// The size of the smallest default pool, in whole MiB, that has at least `slots` slots for
    /// `payload_bytes`. `None`: there is none.
    #[must_use]
    pub fn smallest_with(limits: Limits, payload_bytes: usize, slots: u32) -> Option<usize> {
        const MIB: usize = 1 << 20;
        let limits = Limits {
            slots: DEFAULT_LIMITS.slots,
            ..limits
        };
        let suffices = |mib: usize| {
            let geometry = Self::for_bytes_with(limits, mib.checked_mul(MIB)?).ok()?;
            let fitting = geometry
                .classes
                .iter()
                .filter(|class| class.payload_bytes() >= payload_bytes);
            Some(fitting.map(|class| class.count).sum::<u32>() >= slots)
        };
        let doubled = |mib: &usize| mib.checked_mul(2);
        let enough = std::iter::successors(Some(1), doubled)
            .take_while(|mib| mib.checked_mul(MIB).is_some())
            .find(|mib| suffices(*mib) == Some(true))?;
        // Between the last power of two that has too few and the first that has enough.
        let mut range = enough / 2..enough;
        while range.end - range.start > 1 {
            let middle = range.start + (range.end - range.start) / 2;
            if suffices(middle) == Some(true) {
                range.end = middle;
            } else {
                range.start = middle;
            }
        }
        Some(range.end * MIB)
    }

    /// A geometry with the given classes. `limits.slots` counts the entries kept for later regions
    /// (0: as many as suit the size); those of the classes are added.
    ///
    /// # Errors
    /// [`PoolError::BadGeometry`] if there is no class, too many, an empty one, or the sum does not
    /// fit.
    pub fn with_classes(limits: Limits, plan: &[ClassPlan]) -> Result<Self, PoolError> {
        if plan.is_empty() || plan.len() > CLASSES_MAX {
            return Err(PoolError::BadGeometry(format!(
                "{} slot classes; 1 to {CLASSES_MAX} are possible",
                plan.len()
            )));
        }
        let mut plan = plan.to_vec();
        plan.sort_by_key(|class| class.payload_bytes);
        let mut classes: Vec<SlotClass> = Vec::new();
        let (mut first, mut offset) = (0_u32, 0_u64);
        for class in plan {
            let slot_bytes = slot_bytes(class.payload_bytes);
            let fits = u32::try_from(slot_bytes).ok().filter(|_| class.count > 0);
            let slot_bytes = fits.ok_or_else(|| {
                PoolError::BadGeometry(format!(
                    "class of {} slots with {} bytes",
                    class.count, class.payload_bytes
                ))
            })?;
            classes.push(SlotClass {
                slot_bytes,
                count: class.count,
                first,
                offset,
            });
            let after = first.checked_add(class.count);
            first = after
                .filter(|slots| *slots <= Place::SLOT_MAX)
                .ok_or_else(too_many_slots)?;
            let bytes = u64::from(slot_bytes) * u64::from(class.count);
            offset = (offset + bytes).next_multiple_of(PAGE_BYTES as u64);
        }
        // A 32-bit process could not map it, though it could make the file.
        if isize::try_from(offset).is_err() {
            return Err(PoolError::BadGeometry(format!(
                "{offset} bytes of slots are more than a {}-bit program can address",
                usize::BITS
            )));
        }
        // Fits, as was just looked at.
        let limits = with_spare_slots(limits, offset as usize);
        let slots = limits.slots.checked_add(first).ok_or_else(too_many_slots)?;
        let geometry = Self {
            limits: Limits { slots, ..limits },
            classes,
        };
        geometry.layout()?;
        Ok(geometry)
    }

    /// Bytes that the slots of these classes take.
    #[must_use]
    pub fn classes_bytes(classes: &[ClassPlan]) -> usize {
        let each = classes
            .iter()
            .map(|class| slot_bytes(class.payload_bytes).saturating_mul(class.count as usize));
        each.fold(0, usize::saturating_add)
    }

    /// The tables' default limits, for [`Geometry::with_classes`]. Their `slots` is 0: as many
    /// entries for later regions as suit the size.
    #[must_use]
    pub const fn default_limits() -> Limits {
        DEFAULT_LIMITS
    }

    /// The tables' limits where only the size of the pool was chosen: the default ones, with less
    /// memory for deep queues in a pool of less than 16 MiB.
    #[must_use]
    pub const fn default_limits_for(bytes: usize) -> Limits {
        let deep = match bytes {
            0..SMALLEST_USUAL_BYTES => FEW_DEEP_QUEUE_SEGMENTS,
            _ => DEEP_QUEUE_SEGMENTS,
        };
        Limits {
            queue_segments: DEFAULT_LIMITS.connections + deep,
            ..DEFAULT_LIMITS
        }
    }

    /// The tables of a small device: 8 participants, 64 channels, 192 ports, 128 connections. With
    /// them a pool of 2 MiB is useful: its control tables take less than 512 KiB.
    #[must_use]
    pub const fn small_limits() -> Limits {
        SMALL_LIMITS
    }

    /// Where everything stands in the control file.
    ///
    /// # Errors
    /// [`PoolError::BadGeometry`] if a limit is out of range.
    pub fn layout(&self) -> Result<ControlLayout, PoolError> {
        ControlLayout::new(self.limits).ok_or_else(|| {
            PoolError::BadGeometry(match limit_out_of_range(&self.limits) {
                Some((name, value, max)) => {
                    format!("the limit of {name} is {value}: give a number from 1 to {max}")
                }
                None => format!(
                    "the control tables are too large for a {}-bit program; lower the limits",
                    usize::BITS
                ),
            })
        })
    }

    /// Size of region 0.
    #[must_use]
    pub fn region_bytes(&self) -> usize {
        let end = self.classes.last().map_or(0, |class| {
            class.offset + u64::from(class.slot_bytes) * u64::from(class.count)
        });
        round_up(
            usize::try_from(end).unwrap_or(usize::MAX - PAGE_BYTES),
            PAGE_BYTES,
        )
    }

    /// The sum that led to the size of the pool.
    #[must_use]
    pub fn terms(&self) -> Vec<Term> {
        let control = self
            .layout()
            .map(|layout| layout.terms().to_vec())
            .unwrap_or_default();
        let control = control.into_iter().map(|(reason, bytes)| Term {
            reason: format!("control: {reason}"),
            bytes,
        });
        let slots = self.classes.iter().map(|class| Term {
            reason: format!(
                "region 0: {} slots of {} bytes (payload {})",
                class.count,
                class.slot_bytes,
                class.payload_bytes()
            ),
            bytes: class.slot_bytes as usize * class.count as usize,
        });
        control.chain(slots).collect()
    }

    /// Classes of one's own, and the default ones that there is a place for.
    fn share_beside(limits: Limits, bytes: usize, own: &[ClassPlan]) -> Vec<ClassPlan> {
        let places = CLASSES_MAX.saturating_sub(own.len());
        let mut plan = Self::share(limits, bytes, places);
        plan.extend_from_slice(own);
        plan
    }

    /// The smallest `places` of the default classes, as many as have slots.
    fn share(limits: Limits, bytes: usize, places: usize) -> Vec<ClassPlan> {
        let count_max = match limits.slots {
            0 => CLASS_SLOTS_MAX,
            spare => spare.clamp(SMALL_LIMITS.slots, CLASS_SLOTS_MAX),
        } as usize;
        let mut plan: Vec<ClassPlan> = Vec::new();
        let mut carried = 0;
        for (payload_bytes, percent) in SHARES.into_iter().rev().take(places).rev() {
            let budget = bytes / 100 * percent + carried;
            let count = (budget / slot_bytes(payload_bytes)).min(count_max);
            // Fewer than two slots of a size cannot go back and forth: leave the memory to the
            // smaller classes.
            let count = if count < 2 { 0 } else { count };
            carried = budget - count * slot_bytes(payload_bytes);
            if count > 0 {
                plan.push(ClassPlan {
                    payload_bytes,
                    // Fits: it is at most `count_max`.
                    count: count as u32,
                });
            }
        }
        let mut limit = u32::MAX;
        for class in &mut plan {
            let slot_bytes = slot_bytes(class.payload_bytes);
            // More than fit are refused as too many to be numbered.
            let more = u32::try_from(carried / slot_bytes).unwrap_or(u32::MAX);
            let count = class.count.saturating_add(more).min(limit.max(class.count));
            carried -= (count - class.count) as usize * slot_bytes;
            class.count = count;
            // Fits, as before. What the largest leaves is less than one of its slots.
            limit = count_max as u32;
        }
        plan
    }
}

/// The limits with entries for later regions, if none were chosen: those of cores, of the wire and
/// of network cards.
fn with_spare_slots(limits: Limits, pool_bytes: usize) -> Limits {
    if limits.slots > 0 {
        return limits;
    }
    let cores = pool_bytes.div_ceil(CORE_REGION_BYTES);
    // Fits: it is at most four.
    let cores = cores.clamp(*CORES.start(), *CORES.end()) as u32;
    let slots = cores * CORE_SLOTS + WIRE_SLOTS + CARD_SLOTS;
    Limits { slots, ..limits }
}

/// Size of a slot for a payload: with headroom, and a multiple of 4096 from 4096 up, else of 256.
fn slot_bytes(payload_bytes: usize) -> usize {
    let bytes = payload_bytes.saturating_add(HEADROOM_BYTES as usize);
    let unit = if bytes >= PAGE_BYTES { PAGE_BYTES } else { 256 };
    bytes.checked_next_multiple_of(unit).unwrap_or(usize::MAX)
}

fn too_many_slots() -> PoolError {
    PoolError::BadGeometry("more slots than a pool can number (2^24)".to_owned())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn default_fits_its_size_and_uses_most_of_it() {
        for megabytes in [16, 64, 256] {
            let bytes = megabytes << 20;
            let geometry = Geometry::for_bytes(bytes).expect("fits");
            let sum = geometry.layout().expect("laid out").bytes() + geometry.region_bytes();
            assert!(sum <= bytes + (1 << 16), "{sum} for {bytes}");
            assert!(sum * 10 >= bytes * 6, "{sum} for {bytes}");
        }
    }

    /// What is kept beside the slots of its own region.
    fn spare(geometry: &Geometry) -> u32 {
        let own: u32 = geometry.classes.iter().map(|class| class.count).sum();
        geometry.limits.slots - own
    }

    #[test]
    fn larger_pool_keeps_entries_for_more_cores() {
        for (megabytes, cores) in [(16, 2), (32, 2), (40, 3), (64, 4), (1 << 10, 4)] {
            let geometry = Geometry::for_bytes(megabytes << 20).expect("fits");
            assert_eq!(
                spare(&geometry),
                cores * CORE_SLOTS + WIRE_SLOTS + CARD_SLOTS
            );
            // As chosen, whatever the size.
            let limits = Limits {
                slots: 7000,
                ..DEFAULT_LIMITS
            };
            let geometry = Geometry::for_bytes_with(limits, megabytes << 20).expect("fits");
            assert_eq!(spare(&geometry), 7000);
            assert!(
                geometry.classes[1..]
                    .iter()
                    .all(|class| class.count <= CLASS_SLOTS_MAX)
            );
        }
        let plan = [ClassPlan {
            payload_bytes: 65536,
            count: 3,
        }];
        let geometry = Geometry::with_classes(DEFAULT_LIMITS, &plan).expect("fits");
        assert_eq!(spare(&geometry), 2 * CORE_SLOTS + WIRE_SLOTS + CARD_SLOTS);
    }

    #[test]
    fn largest_class_follows_the_size() {
        for (megabytes, largest) in [
            (16, 1 << 20),
            (64, 4 << 20),
            (256, 16 << 20),
            (2048, 64 << 20),
        ] {
            let Ok(geometry) = Geometry::for_bytes(megabytes << 20) else {
                assert_eq!(usize::BITS, 32, "{megabytes} MiB are refused");
                continue;
            };
            let last = geometry.classes.last().expect("classes");
            assert!(last.payload_bytes() >= largest, "{megabytes} MiB: {last:?}");
            assert!(
                last.slot_bytes as usize <= megabytes << 18,
                "a quarter at most"
            );
            assert!(last.count >= 2);
        }
        // A picture of 1080 lines with 4 bytes a pixel.
        let geometry = Geometry::for_bytes(1 << 30).expect("fits");
        let fit = geometry.classes.iter();
        let fit = fit.filter(|class| class.payload_bytes() >= 8_294_400);
        assert!(fit.map(|class| class.count).sum::<u32>() >= 8);
    }

    #[test]
    fn classes_of_ones_own_come_beside_the_default_ones() {
        let own = |payload_bytes, count| ClassPlan {
            payload_bytes,
            count,
        };
        let four = [own(8_294_400, 4)];
        let bytes = 128 << 20;
        let geometry = Geometry::for_bytes_and(DEFAULT_LIMITS, bytes, &four).expect("fits");
        let sum = geometry.layout().expect("laid out").bytes() + geometry.region_bytes();
        assert!(sum <= bytes + (1 << 16), "{sum} for {bytes}");
        let has = |geometry: &Geometry, payload_bytes: usize, count: u32| {
            let mut classes = geometry.classes.iter();
            classes.any(|class| {
                let spare = class.payload_bytes() - payload_bytes.min(class.payload_bytes());
                class.payload_bytes() >= payload_bytes && spare < 8192 && class.count >= count
            })
        };
        assert!(has(&geometry, 8_294_400, 4) && has(&geometry, 768, 100));
        // As many as a region can have: the smallest of the default ones.
        let seven: Vec<ClassPlan> = (1..8).map(|number| own(number * 100_000, 2)).collect();
        let geometry = Geometry::for_bytes_and(DEFAULT_LIMITS, bytes, &seven).expect("fits");
        assert_eq!(geometry.classes.len(), CLASSES_MAX);
        assert!(has(&geometry, 768, 100));
        let refused = Geometry::for_bytes_and(DEFAULT_LIMITS, 16 << 20, &four);
        let Err(PoolError::TooSmall { bytes_min, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(Geometry::for_bytes_and(DEFAULT_LIMITS, bytes_min, &four).is_ok());
    }

    #[test]
    fn slots_from_a_page_up_are_whole_pages() {
        let plan = [ClassPlan {
            payload_bytes: 65536,
            count: 3,
        }];
        let geometry = Geometry::with_classes(DEFAULT_LIMITS, &plan).expect("fits");
        assert_eq!(geometry.classes[0].slot_bytes, 69632);
        assert_eq!(geometry.region_bytes(), 3 * 69632);
    }

    #[test]
    fn more_than_can_be_numbered_is_refused() {
        let class = |count| ClassPlan {
            payload_bytes: u32::MAX as usize - 8192,
            count,
        };
        for count in [1 << 24, u32::MAX - 1] {
            let refused = Geometry::with_classes(DEFAULT_LIMITS, &[class(count), class(1)]);
            let refused = refused.expect_err("too many").to_string();
            assert!(refused.contains("more slots"), "{refused}");
        }
    }

    #[test]
    fn what_32_bits_cannot_address_is_refused_there() {
        let plan = [ClassPlan {
            payload_bytes: 1 << 20,
            count: 3000,
        }];
        match Geometry::with_classes(DEFAULT_LIMITS, &plan) {
            Ok(geometry) => assert!(usize::BITS >= 64 && geometry.region_bytes() > 3000 << 20),
            Err(refused) => assert!(refused.to_string().contains("32-bit"), "{refused}"),
        }
    }

    #[test]
    fn whatever_size_is_asked_for_is_used_or_refused() {
        for gigabytes in [1_usize, 16, 100, 999] {
            let Some(bytes) = gigabytes.checked_mul(1 << 30) else {
                continue;
            };
            let Ok(geometry) = Geometry::for_bytes(bytes) else {
                assert_eq!(usize::BITS, 32, "{gigabytes} GiB are refused");
                continue;
            };
            let sum = geometry.layout().expect("laid out").bytes() + geometry.region_bytes();
            assert!(sum <= bytes + (1 << 16), "{sum} for {bytes}");
            assert!(sum >= bytes / 100 * 99, "{sum} for {bytes}");
        }
        let refused = Geometry::for_bytes(usize::MAX)
            .expect_err("all addresses")
            .to_string();
        assert!(
            refused.contains("more slots") || refused.contains("32-bit"),
            "{refused}"
        );
    }

    #[test]
    fn tables_of_a_small_pool_take_at_most_512_kib() {
        for megabytes in [2, 4, 8, 64, 512, 1024] {
            let bytes = megabytes << 20;
            let small = Geometry::for_bytes_with(SMALL_LIMITS, bytes).expect("fits");
            let control = small.layout().expect("laid out").bytes();
            assert!(control <= 512 << 10, "{control} for {megabytes} MiB");
            assert!(small.limits.participants >= 8);
            assert!(control + small.region_bytes() <= bytes + (1 << 16));
        }
        let least = Geometry::for_bytes_with(SMALL_LIMITS, 2 << 20).expect("fits");
        let counts = |least: &Geometry| -> Vec<(usize, u32)> {
            let classes = least.classes.iter();
            classes
                .map(|class| (class.payload_bytes(), class.count))
                .collect()
        };
        // Something of each size up to 64 KiB, several times.
        for wanted in [768, 3840, 16 << 10, 64 << 10] {
            let found = counts(&least);
            assert!(
                found
                    .iter()
                    .any(|(bytes, count)| *bytes >= wanted && *count >= 8),
                "{wanted}: {found:?}"
            );
        }
    }

    #[test]
    fn limit_out_of_range_is_named_with_its_value_and_the_largest() {
        for (queue_segments, shown) in [(4_000_000_000, "4000000000"), (0, "is 0")] {
            let limits = Limits {
                queue_segments,
                ..DEFAULT_LIMITS
            };
            let refused = Geometry::for_bytes_with(limits, 1 << 30).expect_err("out of range");
            let message = refused.to_string();
            assert!(message.contains("queue-segments"), "{message}");
            assert!(message.contains(shown), "{message}");
            assert!(message.contains("from 1 to 1048576"), "{message}");
        }
    }

    #[test]
    fn pool_of_8_mib_has_default_tables_and_small_slots() {
        let geometry = Geometry::for_bytes(8 << 20).expect("fits");
        let sum = geometry.layout().expect("laid out").bytes() + geometry.region_bytes();
        assert!(sum <= (8 << 20) + (1 << 16), "{sum}");
        let Limits {
            participants,
            channels,
            ports,
            connections,
            ..
        } = geometry.limits;
        let tables = (participants, channels, ports, connections);
        assert_eq!(tables, (96, 1024, 4096, 4096));
        for payload_bytes in [768, 3840, 16 << 10, 64 << 10] {
            let fitting = geometry.classes.iter();
            let fitting = fitting.filter(|class| class.payload_bytes() >= payload_bytes);
            let slots: u32 = fitting.map(|class| class.count).sum();
            assert!(slots >= 2, "{payload_bytes}: {geometry:?}");
        }
        let deep = |bytes: usize| {
            let limits = Geometry::default_limits_for(bytes);
            limits.queue_segments - limits.connections
        };
        assert_eq!((deep((16 << 20) - 1), deep(16 << 20)), (512, 2048));
    }

    #[test]
    fn too_small_is_refused_with_the_sum() {
        for (bytes, named) in [
            (1 << 20, "1048576 bytes is too"),
            (1, "a pool of 1 byte is too"),
        ] {
            let refused = Geometry::for_bytes(bytes).expect_err("too small");
            let PoolError::TooSmall { bytes_min, .. } = refused else {
                panic!("{refused:?}");
            };
            let message = refused.to_string();
            for word in [
                named,
                "control tables alone",
                &format!("at least {bytes_min}"),
            ] {
                assert!(message.contains(word), "no {word} in {message}");
            }
            assert!(
                Geometry::for_bytes(bytes_min).is_ok(),
                "{bytes_min} bytes do not do"
            );
        }
    }
}
