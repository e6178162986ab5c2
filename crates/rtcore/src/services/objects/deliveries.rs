//! Messages that were sent to a core, which has not said yet that it has them.

use super::handles::Handles;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) handle: u32,
    pub(super) task: u32,
    pub(super) ticket: u32,
}

/// All of them: no more than the core's queues have messages.
#[derive(Debug, Default)]
pub(super) struct Deliveries(Vec<Delivery>);

impl Deliveries {
    pub(super) fn add(&mut self, delivery: Delivery) {
        self.0.push(delivery);
    }

    /// The core has a message: it leaves its queue. One that nobody knows is ignored: it has gone
    /// back meanwhile.
    pub(super) fn confirm(&mut self, handles: &Handles, handle: u32, ticket: u32) {
        let is_it = |delivery: &Delivery| (delivery.handle, delivery.ticket) == (handle, ticket);
        let Some(place) = self.0.iter().position(is_it) else {
            return;
        };
        self.0.swap_remove(place);
        let confirmed = handles
            .queue(handle)
            .map(|(queue, _)| queue.confirm(ticket));
        if let Ok(Err(error)) = confirmed {
            tracing::error!(%error, "a message that the core has stays in its queue");
        }
    }

    /// Those messages go back to their places. Returns how many.
    pub(super) fn give_up(
        &mut self,
        handles: &Handles,
        is_asked: impl Fn(&Delivery) -> bool,
    ) -> u32 {
        let mut count = 0;
        for delivery in self.0.extract_if(.., |delivery| is_asked(delivery)) {
            let Ok((queue, _)) = handles.queue(delivery.handle) else {
                continue;
            };
            match queue.give_up(delivery.ticket) {
                Ok(_) => count += 1,
                Err(error) => tracing::error!(%error, "a message stays claimed"),
            }
        }
        count
    }
}
