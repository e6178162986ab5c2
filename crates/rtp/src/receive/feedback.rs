//! What a receiver says over RTCP: reports, its name, requests for missing packets, the goodbye.
//!
//! A receiver polls it while it follows a stream and sends what comes out to that stream's host,
//! and to nobody else. Reports go at the intervals of RFC 3550, 6.2 and 6.3 (A.7), for a session of
//! two. Requests go at once, as RFC 4585, 3.5, allows between two; what bounds them is a budget: a
//! twentieth of what was received (the share of RTCP in RFC 3550, 6.2), and a small allowance so
//! that thin streams can be repaired, too. So whoever makes us answer has sent more than it makes
//! us send.
//!
//! Pure: the time is handed in. A report allocates (inside `rtcp-types`), which is far from the way
//! of a packet.

use rtcp_types::prelude::*;
use rtcp_types::{Bye, ReceiverReport, ReportBlock, Sdes, SdesChunk, SdesItem, TransportFeedback};

use super::reorder::Missing;
use super::requests::{ENTRIES_MAX, ENTRY_BYTES, Limits, Requests, Wanted};
use super::source::Source;
use crate::{Identity, RtpError};

/// Reports lie at least this far apart on average (RFC 3550, 6.2).
pub const REPORT_INTERVAL_NS: u64 = 5_000_000_000;
/// Bytes per second that requests may use beside their share.
pub const ALLOWANCE_BYTES_PER_SECOND: u64 = 2_000;

const SECOND_NS: u64 = 1_000_000_000;
/// RTCP's share of what is received: one part of twenty.
const SHARE: u64 = 20;
/// We and the sender.
const MEMBERS: u64 = 2;
/// e - 3/2, which makes up for reconsideration (RFC 3550, 6.3.1), in millionths.
const COMPENSATION: u64 = 1_218_282;
/// How often a collision makes us change our SSRC: a liar could go on for ever.
const COLLISIONS_MAX: u8 = 4;
/// What IPv4 and UDP add to a packet, which counts as ours (RFC 3550, 6.2).
const LOWER_BYTES: u64 = 28;

const REPORT_BYTES: usize = 8 + ReportBlock::EXPECTED_SIZE;
/// Header, source, item header, 24 hexadecimal digits, zeros up to the next word.
const NAME_BYTES: usize = 4 + 4 + 2 + 24 + 2;
const REQUEST_BYTES: usize = 12 + ENTRIES_MAX * ENTRY_BYTES;
const MAX_BYTES: usize = REPORT_BYTES + NAME_BYTES + REQUEST_BYTES;
/// So much may be saved up: two of the largest packets.
const BUDGET_BYTES: u64 = 2 * (MAX_BYTES as u64 + LOWER_BYTES);

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets of RTCP.
    pub reports: u64,
    /// Packets asked for; one asked for twice counts twice.
    pub requested: u64,
    /// Others had our SSRC.
    pub collisions: u64,
}

/// The RTCP of one receiver.
#[derive(Debug)]
pub struct Feedback {
    ssrc: u32,
    name: String,
    requests: Option<Requests>,
    random: u64,
    began_ns: u64,
    received_bytes: u64,
    last_report_ns: u64,
    next_report_ns: u64,
    /// Of our packets, smoothed, times 16 (RFC 3550, 6.3.3).
    average_bytes: u64,
    budget_bytes: u64,
    /// Until when the budget's allowance was given.
    allowed_ns: u64,
    /// The middle of the NTP time of the last sender report, and when it came.
    last_sender_report: Option<(u32, u64)>,
    has_collided: bool,
    counts: Counts,
    packet: [u8; MAX_BYTES],
}

impl Feedback {
    /// Begins at `now_ns`. `limits`: of requests, for a reordering buffer of `capacity` packets;
    /// without it none are made.
    #[must_use]
    pub fn new(identity: &Identity, limits: Option<Limits>, capacity: usize, now_ns: u64) -> Self {
        let name = identity.name.iter().map(|byte| format!("{byte:02x}"));
        let mut feedback = Self {
            ssrc: identity.ssrc,
            name: name.collect(),
            requests: limits.map(|limits| Requests::new(limits, capacity)),
            random: u64::from(identity.ssrc) << 32 | u64::from(identity.timestamp) | 1,
            began_ns: now_ns,
            received_bytes: 0,
            last_report_ns: now_ns,
            next_report_ns: 0,
            average_bytes: 16 * (REPORT_BYTES + NAME_BYTES) as u64,
            budget_bytes: BUDGET_BYTES,
            allowed_ns: now_ns,
            last_sender_report: None,
            has_collided: false,
            counts: Counts::default(),
            packet: [0; MAX_BYTES],
        };
        feedback.next_report_ns = now_ns + feedback.interval_ns(now_ns);
        feedback
    }

    /// Our SSRC.
    #[must_use]
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// What was sent.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The round trip as the answers to requests measured it, in nanoseconds.
    #[must_use]
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.requests.as_ref()?.round_trip_ns()
    }

    /// Packets of the stream came, `bytes` in all.
    pub fn received(&mut self, bytes: u64) {
        self.received_bytes += bytes;
        self.budget_bytes += bytes / SHARE;
    }

    /// A packet came that was missing.
    pub fn came(&mut self, number: u64, now_ns: u64) {
        if let Some(requests) = &mut self.requests {
            requests.came(number, now_ns);
        }
    }

    /// Was a packet asked for?
    #[must_use]
    pub fn was_asked(&self, number: u64) -> bool {
        let requests = self.requests.as_ref();
        requests.is_some_and(|requests| requests.was_asked(number))
    }

    /// The stream began anew: its numbers and its clock are others.
    pub fn restart(&mut self) {
        self.last_sender_report = None;
        if let Some(requests) = &mut self.requests {
            requests.restart();
        }
    }

    /// The stream's sender reported, at `ntp` of its clock.
    pub fn sender_report(&mut self, ntp: u64, now_ns: u64) {
        self.last_sender_report = Some(((ntp >> 16) as u32, now_ns));
    }

    /// Somebody else sends with our SSRC (RFC 3550, 8.2): the next packet says goodbye, and we go
    /// on under another one.
    pub fn collision(&mut self) {
        self.counts.collisions += 1;
        self.has_collided = self.counts.collisions <= u64::from(COLLISIONS_MAX);
    }

    /// When [`Self::poll`] may have something.
    pub fn next_ns(&self, missing: impl Iterator<Item = Missing>) -> u64 {
        if self.has_collided {
            return 0;
        }
        let requests = self.requests.as_ref();
        let request_ns = requests.and_then(|requests| requests.next_ns(missing));
        let request_ns = request_ns.map(|when_ns| when_ns.max(self.affordable_ns()));
        self.next_report_ns.min(request_ns.unwrap_or(u64::MAX))
    }

    /// The packet to be sent now, if one is.
    ///
    /// # Errors
    ///
    /// [`RtpError::Packet`]: a packet did not come out as this module expects.
    pub fn poll(
        &mut self,
        source: &mut Source,
        missing: impl Iterator<Item = Missing>,
        now_ns: u64,
    ) -> Result<Option<&[u8]>, RtpError> {
        if self.has_collided {
            return self.change_ssrc(now_ns).map(Some);
        }
        self.allow(now_ns);
        let mut wanted = Wanted::default();
        if let Some(requests) = &mut self.requests
            && self.budget_bytes >= MAX_BYTES as u64 + LOWER_BYTES
        {
            wanted = requests.take_due(missing, now_ns);
        }
        if wanted.packets() == 0 && !self.is_report_due(now_ns) {
            return Ok(None);
        }
        let mut bytes = self.write_report(Some(source), now_ns)?;
        if wanted.packets() > 0 {
            let request = TransportFeedback::builder(&wanted)
                .sender_ssrc(self.ssrc)
                .media_ssrc(source.ssrc());
            bytes += append(&request, "request", &mut self.packet[bytes..])?;
            self.counts.requested += wanted.packets();
        }
        self.sent(bytes, now_ns);
        Ok(Some(&self.packet[..bytes]))
    }

    /// The last packet; `None` if nothing was ever sent (RFC 3550, 6.3.7).
    ///
    /// # Errors
    ///
    /// As [`Self::poll`].
    pub fn goodbye(
        &mut self,
        source: Option<&mut Source>,
        now_ns: u64,
    ) -> Result<Option<&[u8]>, RtpError> {
        if self.counts.reports == 0 {
            return Ok(None);
        }
        let mut bytes = self.write_report(source, now_ns)?;
        let bye = Bye::builder().add_source(self.ssrc);
        bytes += append(&bye, "goodbye", &mut self.packet[bytes..])?;
        self.sent(bytes, now_ns);
        Ok(Some(&self.packet[..bytes]))
    }

    fn change_ssrc(&mut self, now_ns: u64) -> Result<&[u8], RtpError> {
        self.has_collided = false;
        let mut bytes = self.write_report(None, now_ns)?;
        let bye = Bye::builder().add_source(self.ssrc);
        bytes += append(&bye, "goodbye", &mut self.packet[bytes..])?;
        self.ssrc = (self.draw() >> 32) as u32;
        self.sent(bytes, now_ns);
        Ok(&self.packet[..bytes])
    }

    /// A report, with what `source` says of the stream, and our name.
    fn write_report(
        &mut self,
        source: Option<&mut Source>,
        now_ns: u64,
    ) -> Result<usize, RtpError> {
        let mut report = ReceiverReport::builder(self.ssrc);
        if let Some(source) = source {
            let reception = source.report();
            let (last, delay) = self.last_sender_report.map_or((0, 0), |(ntp, came_ns)| {
                // In units of 1/65536 s (RFC 3550, 6.4.1).
                let delay = u128::from(now_ns.saturating_sub(came_ns)) << 16;
                (ntp, (delay / u128::from(SECOND_NS)) as u32)
            });
            let block = ReportBlock::builder(source.ssrc())
                .fraction_lost(reception.fraction_lost)
                .cumulative_lost(reception.cumulative_lost)
                .extended_sequence_number(reception.highest_sequence)
                .interarrival_jitter(reception.jitter)
                .last_sender_report_timestamp(last)
                .delay_since_last_sender_report_timestamp(delay);
            report = report.add_report_block(block);
        }
        let bytes = append(&report, "report", &mut self.packet)?;
        let item = SdesItem::builder(SdesItem::CNAME, &self.name);
        let name = Sdes::builder().add_chunk(SdesChunk::builder(self.ssrc).add_item(item));
        Ok(bytes + append(&name, "name", &mut self.packet[bytes..])?)
    }

    /// Accounts for a packet, which is a report, too: the next one follows an interval later.
    fn sent(&mut self, bytes: usize, now_ns: u64) {
        let bytes = bytes as u64 + LOWER_BYTES;
        self.budget_bytes = self.budget_bytes.saturating_sub(bytes);
        self.average_bytes = self.average_bytes - self.average_bytes / 16 + bytes;
        self.counts.reports += 1;
        self.last_report_ns = now_ns;
        self.next_report_ns = now_ns + self.interval_ns(now_ns);
    }

    /// Timer reconsideration (RFC 3550, 6.3.6): an interval drawn anew has to be over, too.
    fn is_report_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_report_ns {
            return false;
        }
        self.next_report_ns = self.last_report_ns + self.interval_ns(now_ns);
        now_ns >= self.next_report_ns
    }

    /// RFC 3550, A.7, for a session of two of which we do not send.
    fn interval_ns(&mut self, now_ns: u64) -> u64 {
        let is_first = self.counts.reports == 0;
        let least_ns = REPORT_INTERVAL_NS / if is_first { 2 } else { 1 };
        let elapsed_ns = now_ns.saturating_sub(self.began_ns);
        // Average size times members, at a twentieth of the rate of what was received so far. At
        // most a minute: a stream that carries next to nothing is reported on all the same.
        let needed_ns = u128::from(self.average_bytes / 16 * MEMBERS * SHARE)
            * u128::from(elapsed_ns)
            / u128::from(self.received_bytes.max(1));
        let mean_ns = u64::try_from(needed_ns)
            .unwrap_or(u64::MAX)
            .clamp(least_ns, 12 * REPORT_INTERVAL_NS);
        // Between half and one and a half of it.
        let share = 32_768 + (self.draw() >> 48);
        (mean_ns / 65_536 * share) / COMPENSATION * 1_000_000
    }

    fn allow(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.allowed_ns).min(SECOND_NS);
        let allowed = elapsed_ns * ALLOWANCE_BYTES_PER_SECOND / SECOND_NS;
        if allowed > 0 {
            self.allowed_ns = now_ns;
            self.budget_bytes += allowed;
        }
        self.budget_bytes = self.budget_bytes.min(BUDGET_BYTES);
    }

    /// When the allowance will have made a request affordable.
    fn affordable_ns(&self) -> u64 {
        let lacking = (MAX_BYTES as u64 + LOWER_BYTES).saturating_sub(self.budget_bytes);
        self.allowed_ns + (lacking * SECOND_NS).div_ceil(ALLOWANCE_BYTES_PER_SECOND)
    }

    /// A pseudorandom number: xorshift64* (Vigna 2016), never zero inside.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn append(
    packet: &impl RtcpPacketWriter,
    what: &'static str,
    buffer: &mut [u8],
) -> Result<usize, RtpError> {
    packet.write_into(buffer).map_err(|error| RtpError::Packet {
        what,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtcp_types::{Compound, Nack, Packet};

    const MS: u64 = 1_000_000;

    fn source() -> Source {
        let mut source = Source::new(77, 1, 8000, true);
        for sequence in [1, 2, 4] {
            source.packet(sequence);
        }
        source
    }

    fn feedback(limits: Option<Limits>) -> Feedback {
        Feedback::new(&Identity::seeded(3), limits, 256, 0)
    }

    fn none() -> impl Iterator<Item = Missing> {
        std::iter::empty()
    }

    fn missing(numbers: std::ops::Range<u64>, since_ns: u64) -> impl Iterator<Item = Missing> {
        numbers.map(move |number| Missing {
            number,
            since_ns,
            until_ns: since_ns + 200 * MS,
        })
    }

    #[test]
    fn report_says_what_was_received() {
        let (mut feedback, mut source) = (feedback(None), source());
        assert_eq!(
            feedback.goodbye(None, 0).unwrap(),
            None,
            "nobody knows us yet"
        );
        feedback.received(100_000);
        feedback.sender_report(0x1111_2222_3333_4444, 0);
        let now_ns = feedback.next_ns(none()).max(5_000 * MS);
        let ssrc = feedback.ssrc();
        let bytes = feedback.poll(&mut source, none(), now_ns).unwrap().unwrap();
        let packets: Vec<_> = Compound::parse(bytes)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let [Packet::Rr(report), Packet::Sdes(names)] = &packets[..] else {
            panic!("{packets:?}");
        };
        assert_eq!(report.ssrc(), ssrc);
        let block = report.report_blocks().next().unwrap();
        assert_eq!((block.ssrc(), block.cumulative_lost()), (77, 1));
        assert_eq!(
            (block.fraction_lost(), block.extended_sequence_number()),
            (64, 4)
        );
        assert_eq!(block.last_sender_report_timestamp(), 0x2222_3333);
        let delay = u64::from(block.delay_since_last_sender_report_timestamp());
        assert_eq!(delay, (now_ns << 16) / SECOND_NS);
        let chunk = names.chunks().next().unwrap();
        assert_eq!(chunk.items().next().unwrap().value().len(), 24);

        let bytes = feedback
            .goodbye(Some(&mut source), now_ns)
            .unwrap()
            .unwrap();
        let packets: Vec<_> = Compound::parse(bytes)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(matches!(
            &packets[..],
            [Packet::Rr(_), Packet::Sdes(_), Packet::Bye(_)]
        ));
    }

    #[test]
    fn intervals_are_random_and_five_seconds_on_average() {
        let (mut feedback, mut source) = (feedback(None), source());
        let mut sent = Vec::new();
        for now_ns in (0..5_000_000 * MS).step_by(10 * MS as usize) {
            feedback.received(1000);
            if feedback
                .poll(&mut source, none(), now_ns)
                .unwrap()
                .is_some()
            {
                sent.push(now_ns);
            }
        }
        // The first after half of it: 2.5 s times 0.5 to 1.5, over 1.218.
        assert!((1_000 * MS..3_100 * MS).contains(&sent[0]), "{}", sent[0]);
        let gaps: Vec<u64> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
        assert!(
            *least >= 2_050 * MS && *most <= 6_170 * MS,
            "{least} {most}"
        );
        assert!(most - least > 2_000 * MS);
        let mean = (sent[sent.len() - 1] - sent[0]) / gaps.len() as u64;
        // Reconsideration and its compensation leave about the nominal interval.
        assert!((4_500 * MS..5_500 * MS).contains(&mean), "{mean}");
    }

    #[test]
    fn thin_stream_is_reported_on_less_often() {
        let (mut feedback, mut source) = (feedback(None), source());
        let mut sent = 0;
        for second in 0..3_600 {
            feedback.received(100);
            let now_ns = second * SECOND_NS;
            sent += u32::from(
                feedback
                    .poll(&mut source, none(), now_ns)
                    .unwrap()
                    .is_some(),
            );
        }
        // 96 bytes for each of two, at 5 bytes per second: 38 s.
        assert!((70..130).contains(&sent), "{sent}");
    }

    #[test]
    fn requests_go_at_once_and_name_what_is_missing() {
        let (mut feedback, mut source) = (feedback(Some(Limits::default())), source());
        assert_eq!(feedback.next_ns(missing(20..23, 5 * MS)), 7 * MS);
        assert_eq!(
            feedback
                .poll(&mut source, missing(20..23, 5 * MS), 6 * MS)
                .unwrap(),
            None
        );
        let bytes = feedback
            .poll(&mut source, missing(20..23, 5 * MS), 7 * MS)
            .unwrap()
            .unwrap();
        let packets: Vec<_> = Compound::parse(bytes)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let [
            Packet::Rr(_),
            Packet::Sdes(_),
            Packet::TransportFeedback(request),
        ] = &packets[..]
        else {
            panic!("{packets:?}");
        };
        assert_eq!(request.media_ssrc(), 77);
        let nack = request.parse_fci::<Nack>().unwrap();
        assert_eq!(nack.entries().collect::<Vec<_>>(), [20, 21, 22]);
        assert_eq!(feedback.counts().requested, 3);
        feedback.came(20, 17 * MS);
        assert_eq!(feedback.round_trip_ns(), Some(10 * MS));
    }

    #[test]
    fn requests_stay_within_their_budget_whatever_is_missing() {
        let (mut feedback, mut source) = (feedback(Some(Limits::default())), source());
        let (mut sent_bytes, mut received_bytes) = (0, 0);
        for ms in 0..20_000_u64 {
            feedback.received(10);
            received_bytes += 10;
            let numbers = ms * 200..ms * 200 + 200; // others each time
            let polled = feedback.poll(
                &mut source,
                missing(numbers, ms * MS - ms.min(3) * MS),
                ms * MS,
            );
            sent_bytes += polled
                .unwrap()
                .map_or(0, |bytes| bytes.len() as u64 + LOWER_BYTES);
        }
        // Reports go when they are due, and there are few.
        let reports = 10 * (REPORT_BYTES + NAME_BYTES + LOWER_BYTES as usize) as u64;
        let share = received_bytes / SHARE + 20 * ALLOWANCE_BYTES_PER_SECOND;
        assert!(
            sent_bytes <= BUDGET_BYTES + share + reports,
            "{sent_bytes}, {share}"
        );
        assert!(sent_bytes > 20_000, "{sent_bytes}");
    }

    #[test]
    fn collision_changes_our_ssrc_and_not_for_ever() {
        let (mut feedback, mut source) = (feedback(None), source());
        let mut seen = vec![feedback.ssrc()];
        for _ in 0..20 {
            feedback.collision();
            let last = feedback.ssrc();
            let Some(bytes) = feedback.poll(&mut source, none(), 1).unwrap() else {
                continue;
            };
            let packets: Vec<_> = Compound::parse(bytes)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let [Packet::Rr(_), Packet::Sdes(_), Packet::Bye(bye)] = &packets[..] else {
                panic!("{packets:?}");
            };
            assert_eq!(bye.ssrcs().collect::<Vec<_>>(), [last]);
            assert!(!seen.contains(&feedback.ssrc()));
            seen.push(feedback.ssrc());
        }
        assert_eq!(seen.len(), 1 + usize::from(COLLISIONS_MAX));
        assert_eq!(feedback.counts().collisions, 20);
    }
}
