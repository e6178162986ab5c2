//! The taking end of a queue from a port of a process.

use std::sync::Arc;

use hythe_abi::{Descriptor, DescriptorMark, RegionIndex};
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
        }
    }

    /// As [`poll`](Source::poll), of a queue whose head either side moves.
    #[cold]
    fn poll_oldest(&mut self) -> Polled {
        let (pool, source) = (self.shared.pool(), &mut self.end);
        match source.is_something_waiting(pool.control()) {
            Ok(false) => return Polled::Nothing,
            Ok(true) => {}
            Err(_) => return Polled::Broken,
        }
        let taken = self
            .shared
            .act(|member| member.take(pool.control(), pool.regions(), source));
        match taken {
            Ok(None) => Polled::Nothing,
            Ok(Some(taken)) => Polled::Taken(taken),
            Err(PoolError::BadDescriptor { descriptor, .. }) => not_a_message(descriptor),
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
            Ok(None) => return Polled::Nothing,
            Ok(Some(descriptor)) => descriptor,
            Err(_) => return Polled::Broken,
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
            return not_a_message(descriptor);
        };
        if let Some((region, at)) = expect_take(&control, regions, source, TAKES_AHEAD) {
            expect_payload(pool, region, at);
        }
        if self.is_waited_for {
            ring(pool.control(), source.info.producer);
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
        if self.end.waiting(control).unwrap_or(0) == 0 {
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

/// What a descriptor says that names no payload.
#[cold]
fn not_a_message(descriptor: Descriptor) -> Polled {
    match descriptor.mark() {
        Some(DescriptorMark::Missed) => Polled::Missed(descriptor.offset),
        _ => Polled::Nonsense,
    }
}

/// Has the first line of a payload come.
#[inline(always)]
fn expect_payload(pool: &Pool, region: RegionIndex, at: usize) {
    if let Some(memory) = pool.mapped(region) {
        memory.expect_load(at & !3);
    }
}
