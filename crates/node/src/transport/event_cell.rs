//! The cell of a listener in a process: raising an event is one swap, and a ring.

use std::sync::Arc;

use hythe_pool::{EventCell, NotRaised, PortInfo, PortKind};

use super::{EventTarget, Raised, Seeking};
use crate::participant::Participant;
use crate::wait::ring_port;

/// The cell of one listener.
#[derive(Debug)]
struct CellTarget {
    shared: Arc<Participant>,
    listener: PortInfo,
    cell: EventCell,
}

/// The listeners of a channel that are open.
pub(super) fn find(seeking: &Seeking<'_>, found: &mut Vec<Box<dyn EventTarget>>) {
    let tables = seeking.shared.pool().control().tables();
    let channel = seeking.channel.index;
    let listeners = tables
        .ports_of_channel(channel)
        .filter(|port| port.kind == PortKind::Listener)
        .filter(|port| seeking.may_meet(port));
    for listener in listeners {
        let cell = tables.events(listener.index);
        // The second look: the cell is that of the port seen before, or of the same listener's
        // next.
        if tables.is_still_open(&listener) {
            found.push(Box::new(CellTarget {
                shared: Arc::clone(seeking.shared),
                listener,
                cell,
            }));
        }
    }
}

impl EventTarget for CellTarget {
    fn raise(&mut self, events: u64) -> Raised {
        let control = self.shared.pool().control();
        match self.cell.raise(control.memory(), events) {
            Ok(()) => {
                ring_port(control, self.listener.member, self.listener.index);
                Raised::Accepted
            }
            Err(NotRaised::Closed) => Raised::Closed,
            Err(NotRaised::Contended) => Raised::Contended,
        }
    }
}
