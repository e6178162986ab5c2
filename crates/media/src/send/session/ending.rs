//! The end of a stream: what still leaves behind its last packet, and the goodbye.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{SendSession, Step};
use crate::MediaError;
use crate::instant::now_ns;
use crate::send::repair::Resend;
use crate::wire::health::Event;

/// How far parity packets are apart where no packets follow that would say it.
pub(super) const PARITY_GAP_NS: u64 = 1_000_000;
/// How long packets that this host has not let go yet are waited for before a goodbye, at least; if
/// a destination without free capacity is waited for longer, as long as that.
const HELD_MIN: Duration = Duration::from_millis(500);
/// How often it is looked whether they have left: at first, and later.
const LOOKS_APART: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(10)];
/// A packet that has just left its socket's account may be on its way through a device on another
/// processor.
const ON_ITS_WAY: Duration = Duration::from_millis(5);
/// The last packet is sent again so long after the end, where receivers may ask for what they miss,
/// then after twice that, and so on.
const FIRST_REPEAT: Duration = Duration::from_millis(10);
/// A goodbye is lost as easily as any packet, and nobody asks for it again.
const GOODBYES: u32 = 3;
const GOODBYES_APART: Duration = Duration::from_millis(20);

impl SendSession {
    /// Goes on sending again what receivers ask for until `until_ns`, or `stop` is readable or hung
    /// up: `true` means that it is. For the end of a stream: what of its last packets got lost can
    /// be repaired for as long as receivers wait for it.
    ///
    /// # Errors
    ///
    /// As [`Self::step`] and [`Self::wait`].
    pub fn linger(
        &mut self,
        until_ns: u64,
        stop: Option<BorrowedFd<'_>>,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<bool, MediaError> {
        while now_ns() < until_ns {
            let step = self.step(tell)?;
            let next_ns = match step {
                Step::Again => continue,
                Step::Wait(next_ns) => next_ns.min(until_ns),
                Step::Ended => until_ns,
            };
            if self.wait(next_ns, stop)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends a stream, wherever its source is: waits until this host has let the last packet go,
    /// lingers, then says goodbye; without lingering if `stop` is readable or hung up. Packets are
    /// waited for as long as a destination without free capacity is
    /// ([`SendOptions::send_timeout`](super::SendOptions::send_timeout)), but half a second at
    /// least: those of a slow class of the interface may be longer in coming, and then the goodbye
    /// is there before them. Where receivers may ask for packets again, they have their time for it
    /// besides, and the goodbye is said thrice. Where those are a stream of its own (RFC 4588), the
    /// last packet is sent so now and then: who misses what came in front of it, or it, notices by
    /// that.
    ///
    /// # Errors
    ///
    /// As [`Self::linger`] and [`Self::say_goodbye`].
    pub fn finish(
        &mut self,
        linger: Duration,
        stop: Option<BorrowedFd<'_>>,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(), MediaError> {
        self.is_ending = true;
        let after = |time: Duration| {
            now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        self.wait_for_departures(tell)?;
        let Some(wait) = self.options.repair.resend.as_ref().map(Resend::wait) else {
            self.linger(after(linger), stop, tell)?;
            self.settle(tell);
            return self.say_goodbye();
        };
        let end_ns = after(linger.saturating_add(wait));
        let mut nap = FIRST_REPEAT;
        while now_ns() < end_ns && !self.linger(after(nap).min(end_ns), stop, tell)? {
            let (feedback, destinations) = (&mut self.feedback, &mut self.destinations);
            self.store
                .show_last_left(|header, body| feedback.repeat(header, body, destinations));
            nap *= 2;
        }
        self.wait_for_departures(tell)?;
        self.settle(tell);
        self.say_goodbye()?;
        for _ in 1..GOODBYES {
            self.linger(after(GOODBYES_APART), stop, tell)?;
            self.say_goodbye()?;
        }
        Ok(())
    }

    /// Says goodbye to all destinations. For the end of a stream, when its last packet has been
    /// played.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`] if the packet cannot be written.
    pub fn say_goodbye(&mut self) -> Result<(), MediaError> {
        self.reporting.goodbye(
            now_ns(),
            self.ahead.format().clock_hz,
            &mut self.destinations,
        )
    }

    /// Nothing is left to build or to hand over; parity and what the kernel has still have to
    /// leave.
    pub(super) fn drain(&mut self) -> Step {
        let last_ns = self.spacer.lead.last_ns();
        match self.drain_parity() {
            Step::Ended if now_ns() < last_ns => Step::Wait(last_ns),
            step => step,
        }
    }

    /// The source has ended, and all of it was handed over: what it ended with is due once that has
    /// left.
    pub(super) fn end(&mut self) -> Result<Step, MediaError> {
        match self.drain() {
            Step::Ended => self.ahead.take_failure().map_or(Ok(Step::Ended), Err),
            step => Ok(step),
        }
    }

    /// The parity of the last matrix, spread as the packets were.
    fn drain_parity(&mut self) -> Step {
        let Some(parity) = &mut self.parity else {
            return Step::Ended;
        };
        if parity.waiting() == 0 && !parity.flush() {
            return Step::Ended;
        }
        let now = now_ns();
        // Behind what was handed over, and behind what leaves later than that.
        let last_ns = self.last_ns.max(self.spacer.lead.last_ns());
        let instant_ns = last_ns.saturating_add(PARITY_GAP_NS);
        if now < instant_ns {
            return Step::Wait(instant_ns);
        }
        parity.send_one(&mut self.destinations, None);
        self.last_ns = now;
        Step::Again
    }

    /// Waits until the last packet has left this host, within bounds: the goodbye goes another way
    /// there, which may be faster.
    fn wait_for_departures(&mut self, tell: &mut dyn FnMut(&Event)) -> Result<(), MediaError> {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bound_ns = nanoseconds(self.options.send_timeout.max(HELD_MIN));
        let end_ns = now_ns().saturating_add(bound_ns);
        let [mut apart, most] = LOOKS_APART;
        let mut until_ns = None;
        while self.destinations.are_holding() && now_ns() < end_ns {
            let look_ns = now_ns().saturating_add(nanoseconds(apart));
            // Whoever was told to stop waits, too: that is why it has a bound.
            self.linger(look_ns.min(end_ns), None, tell)?;
            apart = most.min(apart * 2);
            until_ns = Some(now_ns().saturating_add(nanoseconds(ON_ITS_WAY)));
        }
        until_ns.map_or(Ok(()), |until_ns| {
            self.linger(until_ns, None, tell).map(drop)
        })
    }

    /// Reads what became of packets that the kernel kept for their departure times; they are
    /// counted from then on.
    fn settle(&mut self, tell: &mut dyn FnMut(&Event)) {
        self.destinations.settle().iter().for_each(tell);
    }
}
