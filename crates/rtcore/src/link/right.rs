//! Being the one participant at a port of a core's endpoint.

use std::sync::Arc;

use hythe_abi::link::Flow;
use hythe_node::hop::{self, HopPool as _, Participant};
use hythe_node::{Liveness, NodeError};
use hythe_pool::{ChannelInfo, CoreBinding, MemberIndex, PoolError, core_port_name};

/// A port, and the row of the ledger that answers for what was given to the core over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) port: usize,
    pub(super) row: MemberIndex,
}

/// The right to a port, until dropped.
#[derive(Debug)]
pub(super) struct Right {
    pub(super) shared: Arc<Participant>,
    pub(super) channel: ChannelInfo,
    pub(super) port: usize,
    pub(super) row: MemberIndex,
}

impl Right {
    /// The first port that nobody has. `None`: the core behind the channel has just changed, or
    /// somebody who had a port has died, or the core's agent is taking back what was left at one:
    /// in a moment one will be free.
    pub(super) fn take_any(
        shared: &Arc<Participant>,
        channel: &ChannelInfo,
        ports: usize,
    ) -> Result<Option<Self>, NodeError> {
        if is_one_dead(shared, channel, ports) {
            // What it had under way is to be ended before ours begins.
            return Ok(None);
        }
        let mut holders = Vec::new();
        let mut one_is_coming = false;
        for port in 0..ports {
            match Self::take_port(shared, channel, port) {
                Ok(Some(right)) => return Ok(Some(right)),
                Ok(None) => one_is_coming = true,
                Err(NodeError::EndpointTaken { holder, .. }) => holders.push(holder),
                Err(error) => return Err(error),
            }
        }
        if one_is_coming {
            return Ok(None);
        }
        let (channel, holder) = (channel.name.clone(), holders.join(", "));
        Err(NodeError::EndpointTaken { channel, holder })
    }

    /// This port. `None`: as for [`Right::take_any`].
    pub(super) fn take_port(
        shared: &Arc<Participant>,
        channel: &ChannelInfo,
        port: usize,
    ) -> Result<Option<Self>, NodeError> {
        let control = shared.pool().control();
        match shared.act(|member| member.attach_core(control, channel, port)) {
            Ok(row) => {
                let mut right = Self {
                    shared: Arc::clone(shared),
                    channel: channel.clone(),
                    port,
                    row: MemberIndex(0),
                };
                let named = match row {
                    Some(row) => Some(row),
                    None => right.make_row()?,
                };
                Ok(named.map(|row| {
                    right.row = row;
                    right
                }))
            }
            Err(PoolError::Busy(_)) => Ok(None),
            Err(PoolError::EndpointTaken { holder, .. }) => {
                let agent = channel.core.map(|core| core.agent.0);
                if agent == Some(holder) && shared.index().0 != holder {
                    return Ok(None);
                }
                let holder = control.tables().member(MemberIndex(holder)).map_or_else(
                    || "a participant that has just left".to_owned(),
                    |member| format!("{} (pid {})", member.name, member.identity.pid),
                );
                let channel = channel.name.clone();
                Err(NodeError::EndpointTaken { channel, holder })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the row of a port that has none yet. Whoever attaches there later finds it by its
    /// name; it goes when the core does.
    fn make_row(&self) -> Result<Option<MemberIndex>, NodeError> {
        let control = self.shared.pool().control();
        let first = self
            .channel
            .core
            .and_then(|core| control.tables().member(core.row));
        let Some(first) = first else { return Ok(None) };
        let name = core_port_name(&first.name, self.port);
        let row = hop::join_core(self.shared.pool(), first.identity, &name)?;
        let named = self
            .shared
            .act(|member| member.name_core_row(control, &self.channel, self.port, row));
        match named {
            Ok(()) => Ok(Some(row)),
            Err(PoolError::Busy(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) const fn place(&self) -> Place {
        Place {
            port: self.port,
            row: self.row,
        }
    }

    pub(super) const fn flow(&self, core: CoreBinding) -> Flow {
        Flow {
            endpoint: core.endpoint as usize,
            port: self.port,
        }
    }
}

/// Has somebody died at a port of the endpoint, whom nobody has recovered yet?
fn is_one_dead(shared: &Arc<Participant>, channel: &ChannelInfo, ports: usize) -> bool {
    let pool = shared.pool();
    let tables = pool.control().tables();
    (0..ports).any(|port| {
        let holder = tables.attached(channel.index, port);
        let holder = holder.and_then(|holder| tables.member(holder));
        holder.is_some_and(|holder| pool.liveness(&holder) == Liveness::Dead)
    })
}

impl Drop for Right {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        let control = self.shared.pool().control();
        self.shared
            .act(|member| member.detach_core(control, self.channel.index, self.port));
    }
}
