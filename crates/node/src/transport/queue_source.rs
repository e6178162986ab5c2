//! The taking end of a queue from a port of a process.

use std::sync::Arc;

use hythe_abi::RegionIndex;
use hythe_memory::Memory;
use hythe_pool::{
    ConnectionEnd, ConnectionInfo, PoolError, PortIndex, PortKind, Side, expect_take,
};
use hythe_queue::Consumer;

use super::connection::connect;
use super::{Origin, Polled, SenderHost, Source, SourceState, Target};
use crate::NodeError;
use crate::participant::Participant;
use crate::pool::Pool;
use crate::quota::{Outstanding, Quota};
use crate::wait::ring;

/// How far ahead of a take the lines of a message that waits are asked for: they take about as long
/// to come as so many takes.
const TAKES_AHEAD: u32 = 4;

/// A queue from a port of a process.
#[derive(Debug)]
pub(crate) struct QueueSource {
    shared: Arc<Participant>,
    end: ConnectionEnd<Consumer>,
    /// The sender may be waiting for the place that a take makes free.
    is_waited_for: bool,
    host: SenderHost,
    missed: Missed,
}

/// What did not reach this end, as far as it has looked.
#[derive(Clone, Copy, Debug, Default)]
struct Missed {
    /// Those that were counted: in front of a descriptor that was taken, or behind the last.
    counted: u64,
    /// Those that were in front of a descriptor that was taken.
    placed: u64,
    /// The gap word of the last such descriptor.
    gap: u32,
    /// In front of the one that was taken last.
    before: u32,
    /// Counted, and not told yet.
    newly: u64,
    /// Of a queue that evicts the oldest: the number of the descriptor behind the last one taken.
    next: u32,
}

impl QueueSource {
    pub(super) fn new(
        shared: &Arc<Participant>,
        end: ConnectionEnd<Consumer>,
        is_waited_for: bool,
    ) -> Self {
        // Now: what stands for the host may be gone when its messages are taken.
        let tables = shared.pool().control().tables();
        let host = match end.info.producer_host {
            None => SenderHost::Here,
            Some(session) => tables
                .name_of(end.info.producer, session)
                .map_or(SenderHost::Forgotten, |name| {
                    SenderHost::of_participant(&name)
                }),
        };
        Self {
            shared: Arc::clone(shared),
            end,
            is_waited_for,
            host,
            missed: Missed::default(),
        }
    }

    /// As many messages are missing in front of the one that was just taken: by the gap word beside
    /// it, and by the places of the queue that were passed over because they were evicted.
    #[cold]
    fn note_gap(&mut self, gap: u32, evicted: u32) {
        let missed = &mut self.missed;
        let before = gap.wrapping_sub(missed.gap).saturating_add(evicted);
        missed.gap = gap;
        missed.before = before;
        missed.placed = missed.placed.saturating_add(before.into());
        if missed.placed > missed.counted {
            self.count_up_to(self.missed.placed);
        }
    }

    /// Something was taken from a queue that evicts the oldest.
    fn note_evicted(&mut self) {
        let (number, gap) = (self.end.queue.head(), self.end.gap);
        let evicted = number.wrapping_sub(self.missed.next);
        self.missed.next = number.wrapping_add(1);
        if evicted > 0 || gap != self.missed.gap {
            self.note_gap(gap, evicted);
        }
    }

    /// Nothing waits: what is missing now is missing behind all that was taken. Says whether there
    /// is anything that was not counted.
    #[inline(always)]
    fn count_behind(&mut self) -> bool {
        let total = self.shared.pool().control().tables().missed(&self.end.info);
        if total > self.missed.counted {
            self.count_up_to(total);
        }
        self.missed.newly > 0
    }

    #[cold]
    fn count_up_to(&mut self, total: u64) {
        let tables = self.shared.pool().control().tables();
        let missed = &mut self.missed;
        missed.newly = missed.newly.saturating_add(total - missed.counted);
        missed.counted = total;
        tables.set_counted(&self.end.info, total);
    }

    /// Nothing can be taken; perhaps something is missing.
    fn nothing(&mut self) -> Polled {
        match self.count_behind() {
            true => Polled::Missed(self.take_newly_missed()),
            false => Polled::Nothing,
        }
    }

    /// In front of the message that was taken last.
    #[inline(always)]
    pub(super) const fn missed_before(&self) -> u32 {
        self.missed.before
    }

    /// Messages that are missing and were not told.
    #[inline(always)]
    pub(super) fn take_newly_missed(&mut self) -> u32 {
        if self.missed.newly == 0 {
            return 0;
        }
        let told = u32::try_from(self.missed.newly).unwrap_or(u32::MAX);
        self.missed.newly -= u64::from(told);
        told
    }

    /// As [`poll`](Source::poll), of a queue whose head either side moves.
    #[cold]
    fn poll_oldest(&mut self) -> Polled {
        let (pool, source) = (self.shared.pool(), &mut self.end);
        match source.is_something_waiting(pool.control()) {
            Ok(false) => return self.nothing(),
            Ok(true) => {}
            Err(_) => return Polled::Broken,
        }
        self.missed.before = 0;
        let taken = self
            .shared
            .act(|member| member.take(pool.control(), pool.regions(), source));
        match taken {
            Ok(None) => Polled::Nothing,
            Ok(Some(taken)) => {
                self.note_evicted();
                Polled::Taken(taken)
            }
            Err(PoolError::BadDescriptor { .. }) => {
                self.note_evicted();
                Polled::Nonsense
            }
            // Counters that fitted a moment ago, when we looked whether something waits.
            Err(_) => Polled::Broken,
        }
    }

    pub(super) fn is_of(&self, info: &ConnectionInfo) -> bool {
        (self.end.info.index, self.end.info.nonce) == (info.index, info.nonce)
    }
}

impl Source for QueueSource {
    #[inline(always)]
    fn poll(&mut self) -> Polled {
        if self.end.info.evicts_oldest {
            return self.poll_oldest();
        }
        let (pool, source) = (self.shared.pool(), &mut self.end);
        let control = pool.control().view();
        let descriptor = match source.queue.peek(control.memory()) {
            Ok(None) => return self.nothing(),
            Ok(Some(descriptor)) => descriptor,
            Err(_) => return Polled::Broken,
        };
        self.missed.before = 0;
        // Its place is the producer's again when it is taken.
        let gap = match control.tables().missed(&source.info) == self.missed.placed {
            true => self.missed.gap,
            false => control.tables().gap(&source.info, source.queue.head()),
        };
        let regions = pool.regions();
        regions.seek(pool.control(), descriptor.place.region);
        let taken = {
            let mut acting = self.shared.acting();
            let expect = |region, at| expect_payload(pool, region, at);
            let member = acting.parts().0;
            member.take_peeked(&control, regions, source, descriptor, expect)
        };
        let Ok(taken) = taken else {
            return Polled::Nonsense;
        };
        if let Some((region, at)) = expect_take(&control, regions, source, TAKES_AHEAD) {
            expect_payload(pool, region, at);
        }
        if self.is_waited_for {
            ring(pool.control(), source.info.producer);
        }
        if gap != self.missed.gap {
            self.note_gap(gap, 0);
        }
        Polled::Taken(taken)
    }

    fn is_something_waiting(&mut self) -> bool {
        let waits = self.end.is_something_waiting(self.shared.pool().control());
        // What is damaged is found out by taking from it.
        waits.unwrap_or(true)
    }

    fn capacity(&self) -> u32 {
        self.end.info.places.capacity
    }

    fn state(&mut self) -> SourceState {
        let control = self.shared.pool().control();
        let now = control
            .tables()
            .connection(self.end.info.index)
            .filter(|now| now.nonce == self.end.info.nonce);
        let Some(now) = now else {
            // What is gone has nothing of ours; its queue may be another's.
            return SourceState::Ended;
        };
        if !now.producer_left {
            return SourceState::Open;
        }
        // Looked at after the leaving: nothing comes behind it.
        let waiting = self.end.waiting(control).unwrap_or(0);
        if waiting == 0 && !self.count_behind() {
            SourceState::Ended
        } else {
            SourceState::Draining
        }
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        let (pool, info) = (self.shared.pool(), self.end.info);
        self.shared.act(|member| -> Result<(), PoolError> {
            let (control, regions) = (pool.control(), pool.regions());
            // What still waits here is released now: the sender may not look for long.
            member.drain_own(control, regions, info)?;
            let side = Side::Consumer;
            member.leave_connection(control, regions, info.index, info.nonce, side)
        })?;
        ring(pool.control(), info.producer);
        Ok(())
    }

    fn origin(&self) -> Origin {
        let info = &self.end.info;
        Origin {
            member: info.producer,
            port: Some(info.producer_port),
            number: u64::from(info.index.0) << 32 | u64::from(info.nonce),
        }
    }

    fn host(&self) -> SenderHost {
        self.host.clone()
    }

    fn connect_back(&self, from: PortIndex) -> Result<Option<Box<dyn Target>>, NodeError> {
        let (control, info) = (self.shared.pool().control(), &self.end.info);
        let channel = control.tables().port(from).map(|port| port.channel);
        let client = control.tables().port(info.producer_port).filter(|client| {
            client.kind == PortKind::Client
                && client.member == info.producer
                && Some(client.channel) == channel
        });
        // Looked at behind the port: a client leaves its connections before it gives the port's
        // number back, so the port is its own.
        let stays = control
            .tables()
            .connection(info.index)
            .is_some_and(|now| now.nonce == info.nonce && !now.producer_left);
        let Some(client) = client.filter(|_| stays) else {
            return Ok(None);
        };
        let outstanding = Outstanding::for_quota(&Quota::default());
        let target = connect(&self.shared, from, client, outstanding)?;
        Ok(target.map(|target| Box::new(target) as Box<dyn Target>))
    }
}

/// Has the first line of a payload come.
#[inline(always)]
fn expect_payload(pool: &Pool, region: RegionIndex, at: usize) {
    if let Some(memory) = pool.mapped(region) {
        memory.expect_load(at & !3);
    }
}
