//! How far ahead of their departure groups are handed to the kernel.
//!
//! Far enough that a sender that wakes up late is still in time, and wakes up seldom; no farther
//! than schedulers and sockets have capacity for. Pure: the time is handed in.

use std::collections::VecDeque;

/// How long before its departure a group is handed over at the earliest: more than a busy machine
/// mostly keeps a thread waiting, and a delay that nobody sees.
const LEAD_NS: u64 = 20_000_000;
/// Packets of a flow that wait in the scheduler, at most. `fq` drops those beyond 100
/// (`flow_limit`), and a group may reach it in single packets.
const PACKETS_MAX: usize = 64;
/// With what is sent beside them, such as parity: some space is left for what is sent again.
pub(crate) const FLOW_PACKETS_MAX: usize = 96;
/// Their bytes: half of the send buffer of a socket.
const BYTES_MAX: u64 = 131_072;

/// Hands groups over ahead of time.
///
/// Ask [`ready_ns`](Self::ready_ns) when there is something to do, then [`take`](Self::take) one
/// group after the other for as long as it says yes.
#[derive(Clone, Debug)]
pub struct Lead {
    lead_ns: u64,
    /// A departure nearer than this would be missed.
    margin_ns: u64,
    packets_max: usize,
    /// Departure, packets and bytes of what was handed over and has not left.
    ahead: VecDeque<Group>,
    packets: usize,
    bytes: u64,
    last_ns: u64,
}

/// Packets that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// When, on the system's clock.
    pub departure_ns: u64,
    /// How many.
    pub packets: usize,
    /// How long together.
    pub bytes: u64,
}

impl Lead {
    /// For schedulers that have to be given packets `margin_ns` before they leave.
    #[must_use]
    pub fn new(margin_ns: u64) -> Self {
        Self {
            lead_ns: LEAD_NS.max(margin_ns.saturating_mul(4)),
            margin_ns,
            packets_max: PACKETS_MAX,
            ahead: VecDeque::with_capacity(PACKETS_MAX + 1),
            packets: 0,
            bytes: 0,
            last_ns: 0,
        }
    }

    /// With no more than so many packets ahead, because others are sent beside them; with none it
    /// makes no difference.
    #[must_use]
    pub fn with_packets(self, packets: usize) -> Self {
        Self {
            packets_max: packets.clamp(1, PACKETS_MAX),
            ..self
        }
    }

    /// How long before its departure a group is handed over at the earliest.
    #[must_use]
    pub fn lead_ns(&self) -> u64 {
        self.lead_ns
    }

    /// Something beside the groups was handed over, to leave then: what is handed over next leaves
    /// behind it.
    pub fn is_followed(&mut self, departure_ns: u64) {
        self.last_ns = self.last_ns.max(departure_ns);
    }

    /// When leaves what was handed over and leaves last.
    #[must_use]
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// When groups are handed over next, of which the first is planned to leave at `planned_ns`:
    /// once half of what may be ahead has left, so that many go at once.
    #[must_use]
    pub fn ready_ns(&self, planned_ns: u64) -> u64 {
        let near_ns = planned_ns.saturating_sub(self.lead_ns / 2);
        let (mut packets, mut bytes) = (self.packets, self.bytes);
        let mut capacity_ns = 0;
        for group in &self.ahead {
            if packets <= self.packets_max / 2 && bytes <= BYTES_MAX / 2 {
                break;
            }
            packets -= group.packets;
            bytes -= group.bytes;
            capacity_ns = group.departure_ns;
        }
        near_ns.max(capacity_ns)
    }

    /// When the next group leaves of those that are ahead.
    #[must_use]
    pub fn capacity_ns(&self, now_ns: u64) -> u64 {
        self.ahead
            .front()
            .map_or(now_ns, |oldest| oldest.departure_ns)
    }

    /// The departure of a group that is planned for `planned_ns`: then, or as soon as it can be
    /// kept. Always after the one before, so that no two groups become one burst.
    #[must_use]
    pub fn departure_ns(&self, planned_ns: u64, now_ns: u64) -> u64 {
        let soonest_ns = now_ns.saturating_add(self.margin_ns);
        planned_ns.max(soonest_ns).max(self.last_ns + 1)
    }

    /// Takes a group if there is free capacity ahead for it; one alone has free capacity in any
    /// case.
    pub fn take(&mut self, group: Group, now_ns: u64) -> bool {
        while let Some(left) = self
            .ahead
            .pop_front_if(|oldest| oldest.departure_ns <= now_ns)
        {
            self.packets -= left.packets;
            self.bytes -= left.bytes;
        }
        let is_near = group.departure_ns <= now_ns.saturating_add(self.lead_ns);
        let has_capacity = self.packets + group.packets <= self.packets_max
            && self.bytes + group.bytes <= BYTES_MAX;
        if !(self.ahead.is_empty() || is_near && has_capacity) {
            return false;
        }
        self.packets += group.packets;
        self.bytes += group.bytes;
        self.last_ns = group.departure_ns;
        self.ahead.push_back(group);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn group(departure_ns: u64, packets: usize) -> Group {
        Group {
            departure_ns,
            packets,
            bytes: 1400 * packets as u64,
        }
    }

    /// What is handed over in one go at `now_ns`, of groups of `packets` that are planned
    /// `apart_ns` from each other.
    fn batch(
        lead: &mut Lead,
        planned_ns: &mut u64,
        apart_ns: u64,
        packets: usize,
        now_ns: u64,
    ) -> usize {
        let mut taken = 0;
        while lead.take(
            group(lead.departure_ns(*planned_ns, now_ns), packets),
            now_ns,
        ) {
            *planned_ns += apart_ns;
            taken += 1;
        }
        taken
    }

    #[test]
    fn groups_go_in_batches_half_a_lead_apart() {
        let mut lead = Lead::new(0);
        let mut planned_ns = 20 * MS;
        for handed_over_ms in [10, 21, 32, 43] {
            let now_ns = lead.ready_ns(planned_ns);
            assert_eq!(now_ns, handed_over_ms * MS);
            // Those from half a lead to a whole one away.
            assert_eq!(batch(&mut lead, &mut planned_ns, MS, 1, now_ns), 11);
        }
    }

    #[test]
    fn no_more_packets_are_ahead_than_a_scheduler_takes_of_a_flow() {
        let mut lead = Lead::new(0);
        let mut planned_ns = MS;
        assert_eq!(batch(&mut lead, &mut planned_ns, 1000, 8, 0), 8);
        // Four of the eight have to leave before more are handed over.
        assert_eq!(lead.ready_ns(planned_ns), MS + 3 * 1000);
        assert!(!lead.take(group(planned_ns, 8), MS - 1));
        assert_eq!(batch(&mut lead, &mut planned_ns, 1000, 8, MS + 3000), 4);
        // One that is larger than that goes alone.
        let mut lead = Lead::new(0);
        assert!(lead.take(group(MS, 100), 0) && !lead.take(group(2 * MS, 1), 0));
        assert!(lead.take(group(2 * MS, 100), MS));
    }

    #[test]
    fn what_is_sent_beside_them_has_capacity_and_its_turn() {
        let mut lead = Lead::new(0).with_packets(32);
        let mut planned_ns = MS;
        assert_eq!(batch(&mut lead, &mut planned_ns, 1000, 8, 0), 4);
        assert_eq!(lead.ready_ns(planned_ns), MS + 1000);
        let last_ns = lead.last_ns();
        lead.is_followed(last_ns + 300);
        assert_eq!(lead.departure_ns(last_ns + 200, 0), last_ns + 301);
        lead.is_followed(last_ns);
        assert_eq!(lead.last_ns(), last_ns + 300);
        // With no other sender a batch has its usual size; without packets it still has one group.
        for (packets, groups) in [(1000, 8), (0, 1)] {
            let mut lead = Lead::new(0).with_packets(packets);
            assert_eq!(batch(&mut lead, &mut { MS }, 1000, 8, 0), groups);
        }
    }

    #[test]
    fn long_packets_are_bounded_by_their_bytes() {
        let mut lead = Lead::new(0);
        let long = |departure_ns| Group {
            bytes: 65_000,
            ..group(departure_ns, 1)
        };
        assert!(lead.take(long(1), 0) && lead.take(long(2), 0) && !lead.take(long(3), 0));
        assert_eq!(lead.ready_ns(4), 1);
    }

    #[test]
    fn late_sender_sends_soon_and_never_two_at_once() {
        let mut lead = Lead::new(3 * MS);
        assert_eq!(lead.departure_ns(10 * MS, 0), 10 * MS);
        assert_eq!(lead.departure_ns(10 * MS, 9 * MS), 12 * MS);
        assert!(lead.take(group(12 * MS, 1), 9 * MS));
        assert_eq!(lead.departure_ns(10 * MS, 9 * MS), 12 * MS + 1);
        assert_eq!(lead.last_ns(), 12 * MS);
        // What has to be handed over early is handed over earlier still.
        assert!(Lead::new(100 * MS).lead_ns() > 200 * MS);
    }
}
