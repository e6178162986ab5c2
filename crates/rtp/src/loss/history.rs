//! Which packets were sent and are still kept, so that they can be sent again.
//!
//! The sender notes each packet here as it leaves; [`nack`](super::nack) looks up what a receiver
//! asks for. What a packet's place is, is the caller's: an index, an offset, whatever finds the
//! bytes. The history holds no bytes.
//!
//! Between calls the kept numbers follow each other without a hole, the oldest first. A place that
//! falls out is handed back in the same call, so that whoever counts references to its slot misses
//! none. Never allocates after [`History::new`].

use std::collections::VecDeque;

/// Most packets a history holds: half of all sequence numbers, so that older and newer are never
/// mixed up.
pub const PACKETS_MAX: usize = 1 << 15;

/// A packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept<P> {
    /// Of its RTP header.
    pub sequence: u16,
    /// Header and payload.
    pub bytes: u16,
    /// When it left, in nanoseconds of the caller's clock.
    pub sent_ns: u64,
    /// Where it lies.
    pub place: P,
}

/// Why a number is not in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It is ahead of all that were sent.
    NeverSent,
    /// It may have been sent, and is not kept any more.
    Gone,
}

/// The packets of one stream that are kept, bounded by count and by age.
#[derive(Debug)]
pub struct History<P> {
    kept: VecDeque<Kept<P>>,
    packets_max: usize,
    keep_ns: u64,
}

impl<P> History<P> {
    /// An empty history of at most `packets_max` packets (1 to [`PACKETS_MAX`]; what is outside is
    /// moved there), each kept for `keep_ns` at most.
    #[must_use]
    pub fn new(packets_max: usize, keep_ns: u64) -> Self {
        let packets_max = packets_max.clamp(1, PACKETS_MAX);
        Self {
            kept: VecDeque::with_capacity(packets_max),
            packets_max,
            keep_ns,
        }
    }

    /// Keeps a packet; what falls out for it goes to `release`. A number that does not follow the
    /// last one begins anew: everything kept so far falls out.
    pub fn keep(&mut self, packet: Kept<P>, release: &mut dyn FnMut(Kept<P>)) {
        let follows = |last: &Kept<P>| packet.sequence == last.sequence.wrapping_add(1);
        if !self.kept.back().is_none_or(follows) {
            self.clear(release);
        }
        self.expire(packet.sent_ns, release);
        if self.kept.len() == self.packets_max
            && let Some(oldest) = self.kept.pop_front()
        {
            release(oldest);
        }
        self.kept.push_back(packet);
    }

    /// Gives back what is too old at `now_ns`.
    pub fn expire(&mut self, now_ns: u64, release: &mut dyn FnMut(Kept<P>)) {
        let keep_ns = self.keep_ns;
        self.release_while(
            |oldest| now_ns.saturating_sub(oldest.sent_ns) > keep_ns,
            release,
        );
    }

    /// Gives back the oldest ones as long as `is_gone` says so: their places were needed for
    /// something else.
    pub fn release_while(
        &mut self,
        is_gone: impl Fn(&Kept<P>) -> bool,
        release: &mut dyn FnMut(Kept<P>),
    ) {
        while let Some(old) = self.kept.pop_front_if(|oldest| is_gone(oldest)) {
            release(old);
        }
    }

    /// Gives everything back.
    pub fn clear(&mut self, release: &mut dyn FnMut(Kept<P>)) {
        self.kept.drain(..).for_each(release);
    }

    /// The packet of that number.
    ///
    /// # Errors
    ///
    /// [`Absent`] says why there is none.
    pub fn find(&self, sequence: u16) -> Result<&Kept<P>, Absent> {
        let (Some(oldest), Some(newest)) = (self.kept.front(), self.kept.back()) else {
            return Err(Absent::Gone);
        };
        let index = usize::from(sequence.wrapping_sub(oldest.sequence));
        match self.kept.get(index) {
            Some(packet) => Ok(packet),
            None if super::ahead(sequence, newest.sequence) > 0 => Err(Absent::NeverSent),
            None => Err(Absent::Gone),
        }
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Is none kept?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Most that will be kept.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.packets_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u16, sent_ns: u64) -> Kept<u32> {
        Kept {
            sequence,
            bytes: 100,
            sent_ns,
            place: u32::from(sequence) + 7,
        }
    }

    fn filled(count: u16, first: u16) -> (History<u32>, Vec<u16>) {
        let mut history = History::new(8, 1000);
        let mut released = Vec::new();
        for index in 0..count {
            let next = packet(first.wrapping_add(index), u64::from(index));
            history.keep(next, &mut |old| released.push(old.sequence));
        }
        (history, released)
    }

    #[test]
    fn history_keeps_newest_across_wrap_and_returns_others() {
        let (history, released) = filled(12, 0xfffa);
        assert_eq!(released, [0xfffa, 0xfffb, 0xfffc, 0xfffd]);
        assert_eq!((history.len(), history.capacity()), (8, 8));
        for sequence in [0xfffe, 0xffff, 0, 5] {
            assert_eq!(
                history.find(sequence).unwrap().place,
                u32::from(sequence) + 7
            );
        }
        assert_eq!(history.find(0xfffd), Err(Absent::Gone));
        assert_eq!(history.find(6), Err(Absent::NeverSent));
        assert_eq!(history.find(0x8000), Err(Absent::NeverSent));
        assert_eq!(history.find(0x8010), Err(Absent::Gone));
    }

    #[test]
    fn age_gives_back_too() {
        let (mut history, _) = filled(4, 10);
        let mut released = Vec::new();
        history.expire(1001, &mut |old| released.push(old.sequence));
        assert_eq!(released, [10]);
        // A clock that steps back makes nothing old.
        history.expire(0, &mut |old| released.push(old.sequence));
        history.keep(packet(14, 1003), &mut |old| released.push(old.sequence));
        assert_eq!(released, [10, 11, 12]);
        assert_eq!(history.find(11), Err(Absent::Gone));
        assert_eq!(history.find(14).unwrap().sent_ns, 1003);
    }

    #[test]
    fn number_out_of_order_begins_anew() {
        let (mut history, mut released) = filled(3, 10);
        history.keep(packet(500, 9), &mut |old| released.push(old.sequence));
        assert_eq!(released, [10, 11, 12]);
        assert_eq!(history.len(), 1);
        history.clear(&mut |old| released.push(old.sequence));
        assert_eq!(released.last(), Some(&500));
        assert!(history.is_empty());
        assert_eq!(history.find(500), Err(Absent::Gone));
    }

    #[test]
    fn at_least_one_and_at_most_half_of_the_numbers() {
        assert_eq!(History::<()>::new(0, 1).capacity(), 1);
        assert_eq!(History::<()>::new(1 << 20, 1).capacity(), PACKETS_MAX);
    }
}
