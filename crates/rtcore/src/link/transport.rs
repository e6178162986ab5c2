//! The core link as a transport: finds the core behind a channel, in both directions.

use std::any::Any;
use std::sync::Arc;

use hythe_abi::link::Direction;
use hythe_node::NodeError;
use hythe_node::hop::{
    EventSource, EventTarget, FindSources, FindTargets, HopPool as _, Participant, Seeking,
    Transport, Watch,
};
use hythe_pool::{ChannelIndex, CoreBinding, PortKind};

use super::call::{Calls, CoreReplies, CoreServer};
use super::client::CoreRequests;
use super::events::{CoreEventSource, CoreEventTarget};
use super::source::CoreSource;
use super::target::CoreTarget;
use super::watch::EndpointWatch;
use crate::LinkTimeouts;

/// Cores as targets and sources of channels.
///
/// A channel reaches one core at most. A port that has met it keeps its end while the core is away,
/// and attaches again by itself.
#[derive(Debug)]
pub(crate) struct CoreLinks {
    timeouts: LinkTimeouts,
    calls: Arc<Calls>,
}

impl CoreLinks {
    pub(crate) fn new(timeouts: LinkTimeouts) -> Self {
        let calls = Arc::default();
        Self { timeouts, calls }
    }

    /// Adds the core that serves a client's channel, once both agree on a session.
    fn find_server(&self, find: &mut FindTargets<'_>) -> Result<(), NodeError> {
        let seeking = find.seeking();
        let is_new = seeking.is_opening() && core_behind(seeking, Direction::ToCore).is_some();
        let call = if is_new {
            self.calls.open(seeking, self.timeouts)?
        } else {
            self.calls.of(seeking.port())
        };
        if let Some(call) = call {
            find.add(Box::new(CoreServer(call)));
        }
        Ok(())
    }

    /// Adds where the replies of the core come in, or will come in, that serves a client's channel.
    fn find_replies(&self, find: &mut FindSources<'_>) {
        let seeking = find.seeking();
        let replies = match self.calls.of(seeking.port()) {
            Some(call) => Some(CoreReplies::Open(call)),
            None => core_behind(seeking, Direction::ToCore)
                .map(|core| CoreReplies::pending(seeking, core, &self.calls)),
        };
        if let Some(replies) = replies {
            find.add(Box::new(replies));
        }
    }

    /// Adds the core that asks over a server's channel.
    fn find_requests(&self, find: &mut FindSources<'_>) -> Result<(), NodeError> {
        if let Some(core) = core_behind(find.seeking(), Direction::FromCore) {
            let requests = CoreRequests::new(find.seeking(), core, self.timeouts);
            if find.seeking().is_opening() {
                requests.attach_now()?;
            }
            find.add(Box::new(requests));
        }
        Ok(())
    }
}

impl Transport for CoreLinks {
    fn find_targets(&self, find: &mut FindTargets<'_>) -> Result<(), NodeError> {
        let is_core = |target: &dyn Any| target.is::<CoreTarget>() || target.is::<CoreServer>();
        if find.asks() && !find.known().any(|target| is_core(target)) {
            return self.find_server(find);
        }
        if !find.publishes() || find.known().any(|target| is_core(target)) {
            return Ok(());
        }
        if let Some(core) = core_behind(find.seeking(), Direction::ToCore) {
            let mut target = CoreTarget::new(find.seeking(), core.region, self.timeouts);
            if find.seeking().is_opening() {
                target.attach_now()?;
            }
            find.add(Box::new(target));
        }
        Ok(())
    }

    fn find_sources(&self, find: &mut FindSources<'_>) -> Result<(), NodeError> {
        let is_core = |source: &dyn Any| {
            source.is::<CoreSource>() || source.is::<CoreReplies>() || source.is::<CoreRequests>()
        };
        if find.asks() && !find.known().any(|source| is_core(source)) {
            self.find_replies(find);
            return Ok(());
        }
        let is_wanted = find.subscribes() || find.answers();
        if !is_wanted || find.known().any(|source| is_core(source)) {
            return Ok(());
        }
        if find.answers() {
            return self.find_requests(find);
        }
        if let Some(core) = core_behind(find.seeking(), Direction::FromCore) {
            let mut source = CoreSource::new(find.seeking(), core.row, self.timeouts);
            if find.seeking().is_opening() {
                source.attach_now()?;
            }
            find.add(Box::new(source));
        }
        Ok(())
    }

    fn find_listeners(&self, seeking: &Seeking<'_>, found: &mut Vec<Box<dyn EventTarget>>) {
        let is_core = |target: &dyn Any| target.is::<CoreEventTarget>();
        let is_known = found.iter().any(|target| is_core(&**target));
        if !is_known && core_behind(seeking, Direction::ToCore).is_some() {
            found.push(Box::new(CoreEventTarget::open(seeking, self.timeouts)));
        }
    }

    fn find_event_sources(&self, seeking: &Seeking<'_>, found: &mut Vec<Box<dyn EventSource>>) {
        let is_core = |source: &dyn Any| source.is::<CoreEventSource>();
        let is_known = found.iter().any(|source| is_core(&**source));
        if !is_known && core_behind(seeking, Direction::FromCore).is_some() {
            found.push(Box::new(CoreEventSource::open(seeking, self.timeouts)));
        }
    }

    fn watch(
        &self,
        participant: &Arc<Participant>,
        port: PortKind,
        channel: ChannelIndex,
    ) -> Option<Box<dyn Watch>> {
        let watch = EndpointWatch::at(participant, port, channel)?;
        Some(Box::new(watch))
    }
}

fn core_behind(seeking: &Seeking<'_>, direction: Direction) -> Option<CoreBinding> {
    let control = seeking.participant().pool().control();
    let core = control.tables().channel(seeking.channel().index)?.core?;
    (core.direction == direction).then_some(core)
}
