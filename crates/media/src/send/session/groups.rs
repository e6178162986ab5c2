//! Groups of packets on their way out: how many leave or are handed over, when, and who is told of
//! them.

use hythe_rtp::HEADER_BYTES;

use super::{SendSession, Step};
use crate::MediaError;
use crate::pace::Group;
use crate::send::session::ending::PARITY_GAP_NS;
use crate::send::spacer::Way;
use crate::send::store::Store;
use crate::send::zero_copy_queue::GroupVectors;
use crate::wire::health::Event;

/// From this number of destinations on, sending by reference is worth the fresh pages that it takes
/// (ADR 0017).
const LENDING_PAYS_FROM: usize = 16;

impl SendSession {
    /// When the packets that wait are handed over next.
    pub(super) fn ready_ns(&mut self, now: u64) -> u64 {
        let waiting = self.store.waiting();
        match self.spacer.way() {
            Way::AtOnce | Way::Stamped { .. } => self.pacer.instant(waiting, now),
            Way::Ahead { lead_ns } => {
                let planned_ns = self.pacer.instant(waiting, now + lead_ns);
                self.spacer.lead.ready_ns(planned_ns)
            }
        }
    }

    /// Sends the group that is next, or hands over those that the kernel is to send next.
    pub(super) fn send_groups(
        &mut self,
        now: u64,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Step, MediaError> {
        let count = self.plan(now);
        if count == 0 {
            // A large group waits until there is free capacity for all of it.
            return Ok(Step::Wait(self.spacer.lead.capacity_ns(now)));
        }
        let left_ns = self.spacer.departures_ns.first().copied();
        // Whoever gets this group as the first one has a report in front of it.
        self.greet_newcomers(now, left_ns.unwrap_or(now))?;
        let departures_ns = &self.spacer.departures_ns[..];
        let lend = left_ns.is_none() && self.lends();
        let mut storage = GroupVectors::new();
        let mut packets = self.store.packets(count, lend, &mut storage)?;
        if left_ns.is_some() {
            packets = packets.with_departures(departures_ns)?;
        }
        let bytes = packets.bytes(count);
        let outcome = self.destinations.send(&packets, self.options.send_timeout);
        outcome.events.iter().for_each(tell);
        self.statistics.delivered += outcome.packets;
        self.statistics.lost += outcome.lost;
        self.statistics.handovers += 1;
        self.statistics.packets += count as u64;
        self.statistics.bytes += bytes;
        self.statistics.lent_groups += u64::from(lend);
        self.account(count, bytes, now, left_ns.unwrap_or(now));
        self.last_ns = now;
        self.store.left(count, lend, now);
        self.let_go(now)?;
        Ok(Step::Again)
    }

    /// Are packets without departure times, which are never lent, sent by reference?
    fn lends(&self) -> bool {
        // What lies in messages is copied by the kernel: their publisher writes those slots again.
        let may_lend =
            matches!(&self.store, Store::Prebuilt(prebuilt) if prebuilt.copies_because().is_none());
        let wants_to = self.options.lend;
        may_lend && wants_to.unwrap_or(self.destinations.len() >= LENDING_PAYS_FROM)
    }

    /// How many of the waiting packets are handed over now, with their departures in the spacer, if
    /// they have any.
    fn plan(&mut self, now: u64) -> usize {
        let Self {
            store,
            spacer,
            pacer,
            ahead,
            options,
            ..
        } = self;
        spacer.departures_ns.clear();
        let waiting = store.waiting();
        let fitting = store.fitting();
        let way = spacer.way();
        let mut count = 0;
        loop {
            let rest = &waiting[count..];
            let departure_ns = match way {
                Way::AtOnce => now,
                Way::Stamped { margin_ns } => now + margin_ns,
                Way::Ahead { lead_ns } => {
                    let planned_ns = pacer.instant(rest, now + lead_ns);
                    spacer.lead.departure_ns(planned_ns, now)
                }
            };
            let leaves_ns = match way {
                Way::Ahead { .. } => departure_ns,
                Way::AtOnce | Way::Stamped { .. } => now,
            };
            let packets = pacer.group(rest, leaves_ns);
            let is_whole = rest.len() > options.limit.burst || ahead.has_ended();
            // Only a group that fits into no call as a whole is divided.
            let has_capacity = count + packets <= fitting;
            if packets == 0 || count > 0 && !(is_whole && has_capacity) {
                return count;
            }
            let group = &rest[..packets.min(fitting)];
            if let Way::Ahead { .. } = way {
                let sizes = group.iter().map(|place| u64::from(place.bytes));
                let taken = Group {
                    departure_ns,
                    packets: group.len(),
                    bytes: sizes.sum(),
                };
                if !spacer.lead.take(taken, now) {
                    return count;
                }
            }
            pacer.sent(group, leaves_ns);
            count += group.len();
            match way {
                Way::AtOnce => return count,
                Way::Stamped { .. } => {
                    spacer.departures_ns.resize(count, departure_ns);
                    return count;
                }
                Way::Ahead { .. } => spacer.departures_ns.resize(count, departure_ns),
            }
        }
    }

    /// Tells reports, resending and parity of the first `count` packets that wait: they were sent
    /// `now`, the first to leave at `left_ns`.
    fn account(&mut self, count: usize, bytes: u64, now: u64, left_ns: u64) {
        let (store, places) = (&self.store, &self.store.waiting()[..count]);
        let payload_bytes = bytes - (count * HEADER_BYTES) as u64;
        if let Some(first) = places.first() {
            let (reporting, number) = (&mut self.reporting, store.number(0));
            store.show(number, first, |header, _| {
                reporting.sent(header, left_ns, count, payload_bytes);
            });
        }
        self.feedback.sent(store, places, now);
        self.make_parity(count, now);
    }

    /// Makes the parity of the first `count` packets that wait. If those were handed over ahead of
    /// time it is, too, to leave behind the group that completed it and in front of the next one;
    /// else it waits for its turn between the groups that follow.
    fn make_parity(&mut self, count: usize, now: u64) {
        let last_gap_ns = self.last_gap_ns(count, now);
        let Self {
            store,
            spacer,
            destinations,
            parity: Some(parity),
            ..
        } = self
        else {
            return;
        };
        let is_ahead = matches!(spacer.way(), Way::Ahead { .. });
        let departures_ns = spacer.departures_ns.get(..count).filter(|_| is_ahead);
        for (index, place) in store.waiting()[..count].iter().enumerate() {
            store.show(store.number(index), place, |header, body| {
                parity.push(header, body, destinations);
            });
            let Some((behind_ns, next)) = departures_ns.map(|all| (all[index], all.get(index + 1)))
            else {
                continue;
            };
            if next == Some(&behind_ns) {
                continue;
            }
            let next_ns = next.map_or(behind_ns.saturating_add(last_gap_ns), |next| *next);
            if let Some(last_ns) = parity.send_between(behind_ns, next_ns, destinations) {
                spacer.lead.is_followed(last_ns);
            }
        }
    }

    /// How long after the first `count` packets, which were handed over ahead of time, the next
    /// will leave: as is planned if they are known, else as those before.
    fn last_gap_ns(&mut self, count: usize, now: u64) -> u64 {
        let Way::Ahead { lead_ns } = self.spacer.way() else {
            return 0;
        };
        let last_ns = self.spacer.lead.last_ns();
        let next = self.store.waiting().get(count..).unwrap_or_default();
        if !next.is_empty() {
            let planned_ns = self.pacer.instant(next, now + lead_ns);
            // Before a long silence parity does not wait for half of it.
            return planned_ns.saturating_sub(last_ns).min(lead_ns);
        }
        let mut before = self.spacer.departures_ns.iter().rev();
        let before_ns = before.find(|departure_ns| **departure_ns < last_ns);
        before_ns.map_or(PARITY_GAP_NS, |before_ns| {
            (last_ns - before_ns).min(lead_ns)
        })
    }

    /// Lets go of packets that are not kept any longer.
    pub(super) fn let_go(&mut self, now: u64) -> Result<(), MediaError> {
        let kept = self.options.repair.resend.as_ref();
        let keep_ns = kept.map_or(0, |resend| resend.keep.as_nanos());
        let keep_ns = u64::try_from(keep_ns).unwrap_or(u64::MAX);
        let early = self.store.recycle(now.saturating_sub(keep_ns))?;
        if kept.is_some() {
            self.statistics.kept_short += early;
        }
        self.feedback.forget(self.store.oldest(), now);
        Ok(())
    }
}
