//! The clock of a movie: it follows the sound.
//!
//! It goes as the monotonic clock does, but never past the sound that there is: where a block is
//! late the clock stands, and goes on when it comes, so that pictures wait with the sound. Where no
//! sound comes for longer than the stall limit it is let go, and is free until sound is in step
//! again. It is handed the time; it never waits.

/// How far it may go beyond the end of the last block before it stands: what taking the next one
/// may be late without being heard, as in the buffer of a sound card.
const GRACE_NS: i64 = 20_000_000;

/// How far from what is heard it may be before it is set: half a second picture of film, and what
/// a viewer does not see.
const TOLERANCE_NS: i64 = 40_000_000;

/// Where a movie is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    state: State,
    is_paused: bool,
    /// How often it stood.
    pub(crate) stalls: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    NotStarted,
    /// At `now_ns` of the monotonic clock the movie was at `at_ns`, and may go on to `limit_ns`.
    Going {
        now_ns: u64,
        at_ns: i64,
        limit_ns: i64,
    },
}

impl Clock {
    /// Begins at the movie's start, free.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.state = State::Going {
            now_ns,
            at_ns: 0,
            limit_ns: i64::MAX,
        };
    }

    /// Where the movie is; `None`: it has not begun.
    pub(crate) fn at(&self, now_ns: u64) -> Option<i64> {
        let State::Going {
            now_ns: since_ns,
            at_ns,
            limit_ns,
        } = self.state
        else {
            return None;
        };
        if self.is_paused {
            return Some(at_ns.min(limit_ns));
        }
        let gone = i64::try_from(now_ns.saturating_sub(since_ns)).unwrap_or(i64::MAX);
        Some(at_ns.saturating_add(gone).min(limit_ns))
    }

    /// Does it go now? It does not before it starts, nor where it waits for sound.
    pub(crate) fn is_going(&self, now_ns: u64) -> bool {
        self.at(now_ns.saturating_add(1)) > self.at(now_ns)
    }

    /// There is sound up to `end_ns`.
    pub(crate) fn extend(&mut self, now_ns: u64, end_ns: i64) {
        let Some(here_ns) = self.at(now_ns) else {
            return;
        };
        if let State::Going {
            now_ns: since_ns,
            at_ns,
            limit_ns,
        } = &mut self.state
        {
            if here_ns >= *limit_ns {
                // It stood: it goes on from there.
                self.stalls += 1;
                (*since_ns, *at_ns) = (now_ns, here_ns);
            }
            *limit_ns = end_ns.saturating_add(GRACE_NS);
        }
    }

    /// The sound card is at `heard_ns`: sets the clock where it is further off than can be seen.
    pub(crate) fn follow(&mut self, now_ns: u64, heard_ns: i64) {
        let is_off = |at: i64| at.saturating_sub(heard_ns).abs() > TOLERANCE_NS;
        if self.is_paused || self.is_free() || !self.at(now_ns).is_some_and(is_off) {
            return;
        }
        self.set(now_ns, heard_ns);
    }

    /// Stands, or goes on from there.
    pub(crate) fn pause(&mut self, now_ns: u64, is_paused: bool) {
        if let Some(at_ns) = self.at(now_ns) {
            self.set(now_ns, at_ns);
        }
        self.is_paused = is_paused;
    }

    fn set(&mut self, now: u64, at: i64) {
        if let State::Going { now_ns, at_ns, .. } = &mut self.state {
            (*now_ns, *at_ns) = (now, at);
        }
    }

    /// Does it go on without sound?
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.state, State::Going { limit_ns, .. } if limit_ns == i64::MAX)
    }

    /// Sound stays away: goes on without, from where it stands.
    pub(crate) fn let_go(&mut self, now_ns: u64) {
        if let Some(at_ns) = self.at(now_ns) {
            self.state = State::Going {
                now_ns,
                at_ns,
                limit_ns: i64::MAX,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn it_stands_where_the_sound_ends_and_goes_on_with_it() {
        let mut clock = Clock::default();
        assert_eq!(clock.at(5), None);
        clock.extend(5, 100 * MS);
        assert_eq!(clock.at(5), None, "not before it starts");
        assert!(!clock.is_going(5));
        clock.start(1000);
        clock.extend(1000, 100 * MS);
        let at = |ms: u64| 1000 + ms * 1_000_000;
        assert_eq!(clock.at(at(50)), Some(50 * MS));
        assert!(clock.is_going(at(50)));
        assert_eq!(clock.at(at(500)), Some(100 * MS + GRACE_NS));
        assert!(!clock.is_going(at(500)));
        clock.extend(at(500), 200 * MS);
        assert_eq!(clock.stalls, 1);
        assert_eq!(clock.at(at(510)), Some(110 * MS + GRACE_NS));
        clock.extend(at(510), 300 * MS);
        assert_eq!(clock.stalls, 1, "it was in time");
        assert_eq!(clock.at(at(590)), Some(190 * MS + GRACE_NS));
    }

    #[test]
    fn it_follows_a_sound_card_that_is_off() {
        let mut clock = Clock::default();
        clock.start(0);
        clock.extend(0, 10_000 * MS);
        let ms = |ms: u64| ms * 1_000_000;
        clock.follow(ms(1000), 961 * MS);
        assert_eq!(clock.at(ms(1000)), Some(1000 * MS), "nobody sees it");
        clock.follow(ms(1000), 900 * MS);
        assert_eq!(clock.at(ms(1100)), Some(1000 * MS), "it is slower");
        clock.follow(ms(1100), 1100 * MS);
        assert_eq!(clock.at(ms(1100)), Some(1100 * MS), "it is faster");
        clock.let_go(ms(1100));
        clock.follow(ms(1200), 0);
        assert_eq!(clock.at(ms(1200)), Some(1200 * MS), "it plays silence");
    }

    #[test]
    fn while_it_is_paused_it_stands_whatever_the_sound_does() {
        let mut clock = Clock::default();
        let ms = |ms: u64| ms * 1_000_000;
        clock.start(0);
        clock.extend(0, 200 * MS);
        clock.pause(ms(100), true);
        clock.extend(ms(150), 400 * MS);
        clock.follow(ms(200), 0);
        assert_eq!(clock.at(ms(5000)), Some(100 * MS));
        clock.let_go(ms(6000));
        assert_eq!(clock.at(ms(7000)), Some(100 * MS));
        clock.pause(ms(8000), false);
        assert_eq!(clock.at(ms(8100)), Some(200 * MS));
        assert_eq!(clock.stalls, 0);
    }

    #[test]
    fn without_sound_it_is_free_until_there_is_some_again() {
        let mut clock = Clock::default();
        clock.start(0);
        clock.extend(0, 100 * MS);
        let ms = |ms: u64| ms * 1_000_000;
        clock.let_go(ms(1000));
        assert_eq!(clock.at(ms(1100)), Some(200 * MS + GRACE_NS));
        assert!(clock.is_free());
        clock.extend(ms(1100), 250 * MS);
        assert!(!clock.is_free());
        assert_eq!(clock.at(ms(9000)), Some(250 * MS + GRACE_NS));
    }
}
