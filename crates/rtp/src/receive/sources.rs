//! Which of the sources that send to us is the stream, and what becomes of the others.
//!
//! A receiver asks for every packet. A source is an SSRC at an address: one who sends under the
//! SSRC of the stream from elsewhere is another source. The first real one is followed. Another one
//! takes its place only if it is real itself and the one before said goodbye or was silent for some
//! time: this is how a sender that starts again, or moves, is found, and all the evidence that RTP
//! has. At the same address a shorter silence is enough, because one sender seldom has two streams
//! of one payload type. Until then its packets wait, so that its beginning is not lost.
//!
//! An announced SSRC is a hint: servers announce one and send another, and encoders restart. The
//! announced source passes without probation, and is followed at once if it never was before.
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
    /// Its SSRC, if it was announced: it passes without probation.
    pub ssrc: Option<u32>,
    /// From which host it comes, if that is known: nobody else is followed then.
    pub host: Option<IpAddr>,
    /// How long it must be silent before a source at another address takes its place, in
    /// nanoseconds; at most that long before one at its own address does.
    pub takeover_ns: u64,
}

/// How long a stream must be silent, at least, before a source at its own address takes its place:
/// longer than the pause between two pictures, and than most queues of a network.
const SAME_ADDRESS_NS: u64 = 200_000_000;

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
    /// Of a source that may take the stream's place. Keep it beside those kept before of the same
    /// source: they belong to the stream if the next [`Decision::Begin`] is of this source. The
    /// next [`Decision::Take`] says that they are foreign.
    Wait,
    /// Not ours.
    Ignore,
}

/// What was not followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of hosts other than the expected one.
    pub foreign: u64,
    /// How often another source took the place of the stream.
    pub changes: u64,
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
    /// The longest pause between two valid packets of late: it fades.
    pause_ns: u64,
    has_left: bool,
}

impl Entry {
    fn valid(&mut self, now_ns: u64) {
        let pause_ns = now_ns.saturating_sub(self.valid_ns);
        self.pause_ns = pause_ns.max(self.pause_ns - self.pause_ns / 128);
        self.valid_ns = now_ns;
    }
}

/// The sources that are remembered.
#[derive(Debug)]
pub struct Sources {
    expected: Expected,
    entries: Vec<Entry>,
    /// Index of the stream.
    followed: Option<usize>,
    /// The announced source was followed, or nothing was announced.
    is_hint_used: bool,
    counts: Counts,
}

impl Sources {
    /// None yet.
    #[must_use]
    pub fn new(expected: Expected) -> Self {
        Self {
            is_hint_used: expected.ssrc.is_none(),
            expected,
            entries: Vec::with_capacity(MAX_SOURCES),
            followed: None,
            counts: Counts::default(),
        }
    }

    /// Takes the header of a packet, of the expected payload type. `now_ns`: when it came, by a
    /// clock that never goes back.
    pub fn packet(&mut self, sender: &Sender, now_ns: u64) -> Decision {
        if !self.is_expected_host(sender.address.ip()) {
            self.counts.foreign += 1;
            return Decision::Ignore;
        }
        let index = self.find(sender, now_ns);
        let entry = &mut self.entries[index];
        let verdict = entry.source.packet(sender.sequence);
        entry.heard_ns = now_ns;
        if self.followed == Some(index) {
            if verdict != Verdict::Suspect {
                entry.valid(now_ns);
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
        let is_vacant = self.may_take_over(sender, now_ns);
        match verdict {
            Verdict::Valid(number) | Verdict::Begins(number) if is_vacant => {
                self.follow(index, now_ns);
                Decision::Begin(number)
            }
            _ if self.followed.is_some() => Decision::Wait,
            _ => Decision::Keep,
        }
    }

    /// Is the place of the stream free for a source that is real?
    fn may_take_over(&self, sender: &Sender, now_ns: u64) -> bool {
        let Some(stream) = self.followed.map(|index| &self.entries[index]) else {
            return true;
        };
        let enough_ns = if stream.address == sender.address {
            let usual_ns = stream.pause_ns.saturating_mul(2);
            usual_ns.max(SAME_ADDRESS_NS).min(self.expected.takeover_ns)
        } else {
            self.expected.takeover_ns
        };
        let is_announced = !self.is_hint_used && self.expected.ssrc == Some(sender.ssrc);
        let silent_ns = now_ns.saturating_sub(stream.valid_ns);
        stream.has_left || silent_ns >= enough_ns || is_announced
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
            entry.heard_ns = now_ns;
            entry.valid(now_ns);
        }
        is_stream
    }

    /// A packet of another payload type came with a number that the stream waits for, or that is
    /// next. Is it the stream's, so that it takes this number?
    pub fn beside(&mut self, sender: &Sender, now_ns: u64) -> bool {
        let Some(entry) = self.followed.and_then(|index| self.entries.get_mut(index)) else {
            return false;
        };
        let is_stream = entry.source.ssrc() == sender.ssrc && entry.address == sender.address;
        if is_stream {
            // Near what was received, so it is valid.
            entry.source.packet(sender.sequence);
            (entry.heard_ns, entry.valid_ns) = (now_ns, now_ns);
        }
        is_stream
    }

    fn follow(&mut self, index: usize, now_ns: u64) {
        if self.followed.replace(index).is_some() {
            self.counts.restarts += 1;
            self.counts.changes += 1;
        }
        let entry = &mut self.entries[index];
        self.is_hint_used |= self.expected.ssrc == Some(entry.source.ssrc());
        (entry.valid_ns, entry.pause_ns) = (now_ns, 0);
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
        let is_known = self.expected.ssrc == Some(sender.ssrc);
        let clock_hz = self.expected.clock_hz;
        let entry = Entry {
            source: Source::new(sender.ssrc, sender.sequence, clock_hz, is_known),
            address: sender.address,
            heard_ns: now_ns,
            valid_ns: now_ns,
            pause_ns: 0,
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
        for (ssrc, host) in [(2, 8), (2, 9), (1, 9)] {
            for sequence in 500..510 {
                let decision = sources.packet(&sender(ssrc, host, sequence), SECOND - 1);
                assert_eq!(decision, Decision::Wait);
            }
        }
        assert_eq!(
            sources.packet(&sender(1, 1, 12), SECOND),
            Decision::Take(65_548)
        );
        let decision = sources.packet(&sender(2, 8, 510), 2 * SECOND - 1);
        assert_eq!(decision, Decision::Wait);
        assert_eq!(sources.counts(), Counts::default());
    }

    #[test]
    fn silence_or_a_goodbye_makes_capacity_for_a_real_one() {
        let mut sources = following();
        // A stranger's first packet proves nothing, however long the silence.
        assert_eq!(sources.packet(&sender(2, 2, 5), 9 * SECOND), Decision::Wait);
        assert_eq!(sources.stream().unwrap().ssrc(), 1);
        assert_eq!(
            sources.packet(&sender(2, 2, 6), 9 * SECOND),
            Decision::Begin(65_542)
        );
        assert_eq!(sources.stream().unwrap().ssrc(), 2);
        assert_eq!(
            (sources.counts().restarts, sources.counts().changes),
            (1, 1)
        );

        let mut sources = following();
        assert!(!sources.goodbye(1, [127, 0, 0, 9].into()), "not its host");
        assert!(!sources.goodbye(2, [127, 0, 0, 1].into()), "not its SSRC");
        sources.packet(&sender(3, 1, 5), 0);
        assert_eq!(sources.packet(&sender(3, 1, 6), 0), Decision::Wait);
        assert!(sources.goodbye(1, [127, 0, 0, 1].into()));
        assert_eq!(
            sources.packet(&sender(1, 1, 12), 0),
            Decision::Take(65_548),
            "still on its way"
        );
        assert_eq!(sources.packet(&sender(3, 1, 7), 0), Decision::Begin(65_543));
    }

    #[test]
    fn stream_that_begins_anew_is_found() {
        let mut sources = following();
        assert_eq!(sources.packet(&sender(1, 1, 40_000), 5), Decision::Keep);
        assert_eq!(
            sources.packet(&sender(1, 1, 40_001), 5),
            Decision::Begin(105_537)
        );
        assert_eq!(
            (sources.counts().restarts, sources.counts().changes),
            (1, 0)
        );
    }

    #[test]
    fn new_ssrc_at_the_same_address_needs_a_short_silence() {
        let mut sources = following();
        for (sequence, now_ns) in [(5, 0), (6, 1), (7, SAME_ADDRESS_NS - 1)] {
            let decision = sources.packet(&sender(2, 1, sequence), now_ns);
            assert_eq!(decision, Decision::Wait);
        }
        let begun = sources.packet(&sender(2, 1, 8), SAME_ADDRESS_NS);
        assert_eq!(begun, Decision::Begin(65_544));
        // A stream of one packet in 300 ms is not silent after 400.
        let mut sources = following();
        assert_eq!(
            sources.packet(&sender(1, 1, 12), 3 * SECOND / 10),
            Decision::Take(65_548)
        );
        for (sequence, tenths) in [(5, 4), (6, 5), (7, 7), (8, 8)] {
            let decision = sources.packet(&sender(2, 1, sequence), tenths * SECOND / 10);
            assert_eq!(decision, Decision::Wait, "{tenths}");
        }
        let begun = sources.packet(&sender(2, 1, 9), 9 * SECOND / 10);
        assert_eq!(begun, Decision::Begin(65_545));
    }

    #[test]
    fn announced_ssrc_is_a_hint_and_the_host_is_not() {
        let mut sources = Sources::new(Expected {
            ssrc: Some(7),
            host: Some([127, 0, 0, 1].into()),
            ..sources().expected
        });
        for sequence in [1, 2] {
            let decision = sources.packet(&sender(7, 2, sequence), 0);
            assert_eq!(decision, Decision::Ignore);
        }
        assert_eq!(sources.counts().foreign, 2);
        // Another one passes by probation, and makes way for the announced one, once.
        assert_eq!(sources.packet(&sender(8, 1, 1), 0), Decision::Keep);
        assert_eq!(sources.packet(&sender(8, 1, 2), 0), Decision::Begin(65_538));
        assert_eq!(sources.packet(&sender(7, 1, 3), 0), Decision::Begin(65_539));
        assert_eq!(sources.packet(&sender(8, 1, 3), 0), Decision::Wait);
        let begun = sources.packet(&sender(8, 1, 4), SAME_ADDRESS_NS);
        assert_eq!(begun, Decision::Begin(65_540));
        let again = sources.packet(&sender(7, 1, 4), SAME_ADDRESS_NS);
        assert_eq!(again, Decision::Wait);
    }

    #[test]
    fn flood_of_sources_takes_no_memory_and_not_the_stream() {
        let mut sources = following();
        for ssrc in 100..10_000 {
            assert_eq!(sources.packet(&sender(ssrc, 3, 1), 5), Decision::Wait);
        }
        assert_eq!(sources.entries.len(), MAX_SOURCES);
        assert_eq!(sources.entries.capacity(), MAX_SOURCES);
        assert_eq!(sources.packet(&sender(1, 1, 12), 6), Decision::Take(65_548));
        assert!(sources.counts().forgotten > 9_000);
    }
}
