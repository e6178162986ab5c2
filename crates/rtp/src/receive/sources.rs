//! Which of the sources that send to us is the stream, and what becomes of the others.
//!
//! A receiver asks for every packet. A source is an SSRC at an address: one who sends under the
//! SSRC of the stream from elsewhere is another source. The first real one is followed. Another one
//! takes its place only if it is real itself and the one before said goodbye or was silent for some
//! time: this is how a sender that starts again, or moves, is found, and all the evidence that RTP
//! has. Packets of others are counted.
//!
//! Pure. At most [`MAX_SOURCES`] are remembered; the one longest not heard is forgotten, never the
//! one that is followed.

use std::net::{IpAddr, SocketAddr};

use super::source::{Source, Verdict};

/// Most sources that are remembered.
pub const MAX_SOURCES: usize = 16;

/// What is known of a stream before its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Ticks per second of its timestamps.
    pub clock_hz: u32,
    /// Its SSRC, if it was announced: nobody else is followed then, and it passes without
    /// probation.
    pub ssrc: Option<u32>,
    /// From which host it comes, if that is known: nobody else is followed then.
    pub host: Option<IpAddr>,
    /// How long it must be silent before another source takes its place, in nanoseconds.
    pub takeover_ns: u64,
}

/// What of an RTP header says whose packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The SSRC.
    pub ssrc: u32,
    /// Where it came from.
    pub address: SocketAddr,
    /// The sequence number.
    pub sequence: u16,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is the stream's; its extended sequence number.
    Take(u64),
    /// Keep it, and forget the one kept before: if the next one is [`Decision::Begin`], one behind
    /// it, it belongs to the stream.
    Keep,
    /// The stream begins (anew) with this packet, of that number, and the one kept if it is
    /// directly in front.
    Begin(u64),
    /// Not ours.
    Ignore,
}

/// What was not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of sources other than the stream.
    pub foreign: u64,
    /// How often the stream began anew.
    pub restarts: u64,
    /// Sources forgotten for want of free capacity.
    pub forgotten: u64,
}

#[derive(Debug)]
struct Entry {
    source: Source,
    address: SocketAddr,
    /// When it sent anything.
    heard_ns: u64,
    /// When it sent something valid.
    valid_ns: u64,
    has_left: bool,
}

/// The sources that are remembered.
#[derive(Debug)]
pub struct Sources {
    expected: Expected,
    entries: Vec<Entry>,
    /// Index of the stream.
    followed: Option<usize>,
    counts: Counts,
}

impl Sources {
    /// None yet.
    #[must_use]
    pub fn new(expected: Expected) -> Self {
        Self {
            expected,
            entries: Vec::with_capacity(MAX_SOURCES),
            followed: None,
            counts: Counts::default(),
        }
    }

    /// Takes the header of a packet, of the expected payload type. `now_ns`: when it came, by a
    /// clock that never goes back.
    pub fn packet(&mut self, sender: &Sender, now_ns: u64) -> Decision {
        let is_expected = self.expected.ssrc.is_none_or(|ssrc| ssrc == sender.ssrc)
            && self.is_expected_host(sender.address.ip());
        if !is_expected {
            self.counts.foreign += 1;
            return Decision::Ignore;
        }
        let index = self.find(sender, now_ns);
        let entry = &mut self.entries[index];
        let verdict = entry.source.packet(sender.sequence);
        entry.heard_ns = now_ns;
        if self.followed == Some(index) {
            if verdict != Verdict::Suspect {
                entry.valid_ns = now_ns;
            }
            if let Verdict::Begins(_) = verdict {
                self.counts.restarts += 1;
            }
            return match verdict {
                Verdict::Valid(number) => Decision::Take(number),
                Verdict::Begins(number) => Decision::Begin(number),
                Verdict::Suspect => Decision::Keep,
            };
        }
        if let Some(followed) = self.followed {
            let stream = &self.entries[followed];
            let silent_ns = now_ns.saturating_sub(stream.valid_ns);
            if !stream.has_left && silent_ns < self.expected.takeover_ns {
                self.counts.foreign += 1;
                return Decision::Ignore;
            }
        }
        match verdict {
            Verdict::Valid(number) | Verdict::Begins(number) => {
                self.follow(index, now_ns);
                Decision::Begin(number)
            }
            Verdict::Suspect => Decision::Keep,
        }
    }

    /// A packet came whose number the stream is known to miss: one that was sent again may come
    /// later than [`Self::packet`] takes for reordering. Is it the stream's?
    pub fn awaited(&mut self, sender: &Sender, now_ns: u64) -> bool {
        let Some(entry) = self.followed.and_then(|index| self.entries.get_mut(index)) else {
            return false;
        };
        let is_stream = entry.source.ssrc() == sender.ssrc && entry.address == sender.address;
        if is_stream {
            entry.source.awaited();
            (entry.heard_ns, entry.valid_ns) = (now_ns, now_ns);
        }
        is_stream
    }

    fn follow(&mut self, index: usize, now_ns: u64) {
        if self.followed.replace(index).is_some() {
            self.counts.restarts += 1;
        }
        let entry = &mut self.entries[index];
        entry.valid_ns = now_ns;
        entry.has_left = false;
    }

    fn is_expected_host(&self, host: IpAddr) -> bool {
        self.expected
            .host
            .is_none_or(|expected| expected.to_canonical() == host.to_canonical())
    }

    /// The entry of a sender, made if there is none.
    fn find(&mut self, sender: &Sender, now_ns: u64) -> usize {
        let is_same =
            |entry: &Entry| entry.source.ssrc() == sender.ssrc && entry.address == sender.address;
        if let Some(index) = self.entries.iter().position(is_same) {
            return index;
        }
        let is_known = self.expected.ssrc.is_some();
        let clock_hz = self.expected.clock_hz;
        let entry = Entry {
            source: Source::new(sender.ssrc, sender.sequence, clock_hz, is_known),
            address: sender.address,
            heard_ns: now_ns,
            valid_ns: now_ns,
            has_left: false,
        };
        if self.entries.len() < MAX_SOURCES {
            self.entries.push(entry);
            return self.entries.len() - 1;
        }
        self.counts.forgotten += 1;
        let others = (0..self.entries.len()).filter(|index| self.followed != Some(*index));
        let oldest = others
            .min_by_key(|index| self.entries[*index].heard_ns)
            .unwrap_or(0); // of more than one, one is not followed
        self.entries[oldest] = entry;
        oldest
    }

    /// A goodbye of `ssrc` came from `host`. Is it the stream's?
    pub fn goodbye(&mut self, ssrc: u32, host: IpAddr) -> bool {
        let is_stream = self.is_stream(ssrc, host);
        if let Some(followed) = self.followed.filter(|_| is_stream) {
            self.entries[followed].has_left = true;
        }
        is_stream
    }

    /// Is the stream that of `ssrc` at `host`? (RTCP comes from another port than RTP.)
    #[must_use]
    pub fn is_stream(&self, ssrc: u32, host: IpAddr) -> bool {
        let stream = self.followed.map(|index| &self.entries[index]);
        stream.is_some_and(|entry| entry.source.ssrc() == ssrc && entry.address.ip() == host)
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> Option<&Source> {
        self.followed.map(|index| &self.entries[index].source)
    }

    /// The stream, to be shown times and asked for its report.
    pub fn stream_mut(&mut self) -> Option<&mut Source> {
        self.followed.map(|index| &mut self.entries[index].source)
    }

    /// Where the stream comes from.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.followed.map(|index| self.entries[index].address)
    }

    /// What was not followed.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sources() -> Sources {
        Sources::new(Expected {
            clock_hz: 8000,
            ssrc: None,
            host: None,
            takeover_ns: SECOND,
        })
    }

    fn sender(ssrc: u32, host: u8, sequence: u16) -> Sender {
        Sender {
            ssrc,
            address: SocketAddr::from(([127, 0, 0, host], 5004)),
            sequence,
        }
    }

    /// Sources that follow 1 at host 1 from packet 10 on; the last one is 11, at instant 0.
    fn following() -> Sources {
        let mut sources = sources();
        assert_eq!(sources.packet(&sender(1, 1, 10), 0), Decision::Keep);
        assert_eq!(
            sources.packet(&sender(1, 1, 11), 0),
            Decision::Begin(65_547)
        );
        sources
    }

    #[test]
    fn another_source_is_not_followed_while_the_stream_lives() {
        let mut sources = following();
        for (ssrc, host) in [(2, 1), (2, 9), (1, 9)] {
            for sequence in 500..510 {
                let decision = sources.packet(&sender(ssrc, host, sequence), SECOND - 1);
                assert_eq!(decision, Decision::Ignore);
            }
        }
        assert_eq!(sources.counts().foreign, 30);
        assert_eq!(
            sources.packet(&sender(1, 1, 12), SECOND),
            Decision::Take(65_548)
        );
        let decision = sources.packet(&sender(2, 1, 510), 2 * SECOND - 1);
        assert_eq!(decision, Decision::Ignore);
    }

    #[test]
    fn silence_or_a_goodbye_makes_capacity_for_a_real_one() {
        let mut sources = following();
        // A stranger's first packet proves nothing, however long the silence.
        assert_eq!(sources.packet(&sender(2, 2, 5), 9 * SECOND), Decision::Keep);
        assert_eq!(sources.stream().unwrap().ssrc(), 1);
        assert_eq!(
            sources.packet(&sender(2, 2, 6), 9 * SECOND),
            Decision::Begin(65_542)
        );
        assert_eq!(sources.stream().unwrap().ssrc(), 2);
        assert_eq!(sources.counts().restarts, 1);

        let mut sources = following();
        assert!(!sources.goodbye(1, [127, 0, 0, 9].into()), "not its host");
        assert!(!sources.goodbye(2, [127, 0, 0, 1].into()), "not its SSRC");
        sources.packet(&sender(3, 1, 5), 0);
        assert_eq!(sources.packet(&sender(3, 1, 6), 0), Decision::Ignore);
        assert!(sources.goodbye(1, [127, 0, 0, 1].into()));
        assert_eq!(
            sources.packet(&sender(1, 1, 12), 0),
            Decision::Take(65_548),
            "still on its way"
        );
        assert_eq!(sources.packet(&sender(3, 1, 7), 0), Decision::Begin(65_543));
    }

    #[test]
    fn a_stream_that_begins_anew_is_found() {
        let mut sources = following();
        assert_eq!(sources.packet(&sender(1, 1, 40_000), 5), Decision::Keep);
        assert_eq!(
            sources.packet(&sender(1, 1, 40_001), 5),
            Decision::Begin(105_537)
        );
        assert_eq!(sources.counts().restarts, 1);
    }

    #[test]
    fn only_the_announced_is_followed_and_at_once() {
        let mut sources = Sources::new(Expected {
            ssrc: Some(7),
            host: Some([127, 0, 0, 1].into()),
            ..sources().expected
        });
        for (ssrc, host) in [(8, 1), (7, 2)] {
            assert_eq!(sources.packet(&sender(ssrc, host, 1), 0), Decision::Ignore);
            assert_eq!(sources.packet(&sender(ssrc, host, 2), 0), Decision::Ignore);
        }
        assert_eq!(sources.packet(&sender(7, 1, 3), 0), Decision::Begin(65_539));
        assert_eq!(sources.counts().foreign, 4);
    }

    #[test]
    fn a_flood_of_sources_takes_no_memory_and_not_the_stream() {
        let mut sources = following();
        for ssrc in 100..10_000 {
            assert_eq!(sources.packet(&sender(ssrc, 3, 1), 5), Decision::Ignore);
        }
        assert_eq!(sources.entries.len(), MAX_SOURCES);
        assert_eq!(sources.entries.capacity(), MAX_SOURCES);
        assert_eq!(sources.packet(&sender(1, 1, 12), 6), Decision::Take(65_548));
        assert!(sources.counts().forgotten > 9_000);
    }
}
