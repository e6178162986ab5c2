//! What a run measures, in the order of a round: what is compared stands next to each other.

use super::calls::{CallCase, CallSeries, PRIORITY};
use super::case::{Case, Content, Mode, System};
use super::lossy::{LossyCase, Remedy};
use super::plays::{PlaysCase, PlaysSeries, PlaysSystem, Programs};
use super::series::Series;
use super::{Scale, program};

/// Seven transport stream packets of 188 bytes behind the RTP header: what RFC 2250 packs into an
/// Ethernet frame.
const TRANSPORT_PACKET_BYTES: u16 = 12 + 7 * 188;
/// Of the comparison with other programs, so many that their start, which is subtracted, is not
/// most of it.
const TRANSPORT_PACKETS: u32 = 50_000;
/// Of the head, whose time is subtracted.
pub(super) const HEAD_PACKETS: u32 = 1000;

/// What is measured, and what is not and why.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) series: Vec<Series>,
    pub(super) calls: Vec<CallSeries>,
    pub(super) lossy: Vec<LossyCase>,
    pub(super) plays: Vec<PlaysSeries>,
    pub(super) skipped: Vec<String>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
            && self.calls.is_empty()
            && self.lossy.is_empty()
            && self.plays.is_empty()
    }

    /// Was nothing measured that is kept here?
    pub(super) fn has_nothing(&self) -> bool {
        let has_calls = self.calls.iter().any(CallSeries::has_rounds);
        let has_plays = self.plays.iter().any(PlaysSeries::has_rounds);
        !has_calls && !has_plays && self.series.iter().all(|series| series.repeat() == 0)
    }
}

/// `is_installed` says which programs there are, `try_priority` whether a thread is given
/// [`PRIORITY`].
pub(super) fn make(
    scale: &Scale,
    is_installed: impl Fn(&str) -> bool,
    try_priority: impl Fn() -> std::io::Result<()>,
) -> Plan {
    let mut cases = Vec::new();
    for &packets in &scale.packets {
        cases.extend(methods(scale, packets));
    }
    cases.extend(fan_out(scale));
    let mut skipped = Vec::new();
    for case in transport_stream(scale) {
        // ffmpeg makes the stream, too.
        let needed = [Some("ffmpeg"), program::name(case.system)];
        let missing = needed
            .into_iter()
            .flatten()
            .find(|name| !is_installed(name));
        match missing {
            Some(name) if scale.wants(&case) => {
                skipped.push(format!("{case} with a transport stream: no {name} in PATH"));
            }
            _ => cases.push(case),
        }
    }
    cases.retain(|case| scale.wants(case));
    let mut calls: Vec<CallCase> = calls(scale).collect();
    if calls.iter().any(|case| case.priority.is_some())
        && let Err(error) = try_priority()
    {
        calls.retain(|case| case.priority.is_none());
        skipped.push(format!("calls with real-time priority {PRIORITY}: {error}"));
    }
    Plan {
        series: cases.into_iter().map(Series::new).collect(),
        calls: calls.into_iter().map(CallSeries::new).collect(),
        lossy: lossy(scale).collect(),
        plays: Vec::new(),
        skipped,
    }
}

impl Plan {
    /// Adds streams as they play, by the programs that there are; the others are named.
    pub(super) fn add_plays(&mut self, scale: &Scale, programs: &Programs) {
        let missing = |system| match programs.of(system) {
            // It makes the stream, too.
            Ok(_) => programs.of(PlaysSystem::Ffmpeg).err(),
            Err(why) => Some(why),
        };
        for case in plays(scale) {
            match missing(case.system) {
                None => self.plays.push(PlaysSeries::new(case)),
                Some(why) => {
                    let destinations = case.destinations;
                    self.skipped
                        .push(format!("{case} to {destinations}: {why}"));
                }
            }
        }
    }
}

/// Every system to as many: what is compared stands next to each other.
pub(super) fn plays(scale: &Scale) -> impl Iterator<Item = PlaysCase> {
    let of = |destinations: &u16| {
        PlaysSystem::ALL.map(|system| PlaysCase {
            system,
            destinations: *destinations,
            seconds: scale.play_seconds,
        })
    };
    let cases = scale.play_destinations.iter().flat_map(of);
    cases.filter(|case| scale.wants(case))
}

/// Is there such a method at all?
const fn exists(system: System, mode: Mode) -> bool {
    match mode {
        Mode::Prepared => !system.is_peer(),
        Mode::FirstSend => true,
        Mode::Headers => matches!(system, System::Gso | System::Hythe),
    }
}

fn methods(scale: &Scale, packets: u32) -> impl Iterator<Item = Case> {
    let modes = [Mode::FirstSend, Mode::Prepared, Mode::Headers];
    let pairs = modes
        .into_iter()
        .flat_map(|mode| System::ALL.map(|system| (system, mode)));
    let packet_bytes = scale.packet_bytes;
    pairs
        .filter(|(system, mode)| exists(*system, *mode) && !system.is_peer())
        .map(move |(system, mode)| Case {
            system,
            mode,
            content: Content::Noise,
            packets,
            destinations: 1,
            packet_bytes,
        })
}

/// One stream to many, with the fewest packets: a receiver has to keep them all.
fn fan_out(scale: &Scale) -> impl Iterator<Item = Case> {
    let packets = scale.packets.iter().copied().min().unwrap_or(0);
    let destinations = scale.destinations;
    let is_worth_it = |case: &Case| case.mode != Mode::FirstSend || case.system == System::Sendto;
    methods(scale, packets)
        .filter(is_worth_it)
        .filter(move |_| destinations > 1)
        .map(move |case| Case {
            destinations,
            ..case
        })
}

fn transport_stream(scale: &Scale) -> impl Iterator<Item = Case> {
    let packets = scale.packets.iter().copied().max().unwrap_or(0);
    let packets = packets.min(TRANSPORT_PACKETS);
    let sent = [
        (System::Sendto, Mode::FirstSend),
        (System::Hythe, Mode::FirstSend),
        (System::Hythe, Mode::Prepared),
        (System::Ffmpeg, Mode::FirstSend),
        (System::Gstreamer, Mode::FirstSend),
    ];
    // Less is mostly start.
    let is_enough = packets >= 5 * HEAD_PACKETS;
    sent.into_iter()
        .filter(move |_| is_enough)
        .map(move |(system, mode)| Case {
            system,
            mode,
            content: Content::TransportStream,
            packets,
            destinations: 1,
            packet_bytes: TRANSPORT_PACKET_BYTES,
        })
}

/// The product, beside a thread that calls `sendto` by the same schedule; both as ordinary threads
/// and with real-time priority.
fn calls(scale: &Scale) -> impl Iterator<Item = CallCase> {
    let cases = [None, Some(PRIORITY)].into_iter().flat_map(|priority| {
        [System::Sendto, System::Hythe].map(|system| CallCase {
            system,
            calls: scale.calls,
            seconds: scale.call_seconds,
            priority,
        })
    });
    cases.filter(|case| scale.wants(case))
}

fn lossy(scale: &Scale) -> impl Iterator<Item = LossyCase> {
    let cases = Remedy::ALL.map(|remedy| LossyCase {
        remedy,
        packets: scale.lossy_packets,
        seed: scale.seed,
    });
    cases.into_iter().filter(|case| scale.wants(case))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale() -> Scale {
        Scale {
            packets: vec![10_000, 30_000],
            destinations: 16,
            packet_bytes: 1400,
            repeat: 1,
            calls: 2000,
            call_seconds: 10,
            lossy_packets: 20_000,
            seed: 5,
            play_destinations: vec![1, 100],
            play_seconds: 1,
            only: Vec::new(),
        }
    }

    fn names(plan: &Plan, choose: impl Fn(&Case) -> bool) -> Vec<String> {
        let cases = plan.series.iter().map(|series| series.case);
        cases.filter(choose).map(|case| case.to_string()).collect()
    }

    #[test]
    fn every_number_of_packets_is_sent_by_every_method() {
        let plan = make(&scale(), |_| true, || Ok(()));
        let expected = [
            "sendto/first_send",
            "sendmmsg/first_send",
            "gso/first_send",
            "sendfile-gso/first_send",
            "hythe/first_send",
            "sendto/prepared",
            "sendmmsg/prepared",
            "gso/prepared",
            "sendfile-gso/prepared",
            "hythe/prepared",
            "gso/headers",
            "hythe/headers",
        ];
        for packets in [10_000, 30_000] {
            let of_one = |case: &Case| {
                (case.content, case.packets, case.destinations) == (Content::Noise, packets, 1)
            };
            assert_eq!(names(&plan, of_one), expected);
        }
        let many = names(&plan, |case| case.destinations == 16);
        assert_eq!(many.len(), 8, "{many:?}");
        assert_eq!(many[0], "sendto/first_send");
    }

    #[test]
    fn programs_that_are_missing_are_named() {
        let plan = make(&scale(), |name| name == "ffmpeg", || Ok(()));
        assert_eq!(plan.skipped.len(), 1);
        assert!(plan.skipped[0].contains("gst-launch-1.0"), "{plan:?}");
        let peers = names(&plan, |case| case.system.is_peer());
        assert_eq!(peers, ["ffmpeg/first_send"]);
        let plan = make(&scale(), |_| false, || Ok(()));
        assert_eq!(plan.skipped.len(), 5, "nobody makes the stream");
    }

    #[test]
    fn streams_play_to_as_many_by_every_system() {
        let cases: Vec<PlaysCase> = plays(&scale()).collect();
        let names = cases
            .iter()
            .map(|case| (case.to_string(), case.destinations));
        let of = |name: &str, destinations| (name.to_owned(), destinations);
        let expected = [
            of("hythe/plays", 1),
            of("ffmpeg/plays", 1),
            of("gstreamer/plays", 1),
            of("plain/plays", 1),
            of("hythe/plays", 100),
        ];
        assert_eq!(names.take(5).collect::<Vec<_>>(), expected);
        assert_eq!(cases.len(), 8);
        // Of those that are not there it is said.
        let mut plan = make(&scale(), |_| true, || Ok(()));
        let before = plan.skipped.len();
        plan.add_plays(&scale(), &Programs::find(&[]));
        assert_eq!(plan.plays.len() + plan.skipped.len() - before, 8);
        let plain = |why: &&String| why.starts_with("plain/plays to 1:");
        assert!(plan.skipped.iter().any(|why| plain(&why)), "{plan:?}");
    }

    #[test]
    fn choices_narrow_the_plan() {
        let only = vec!["hythe/".to_owned(), "sendto/first".to_owned()];
        let plan = make(&Scale { only, ..scale() }, |_| true, || Ok(()));
        let all = names(&plan, |case| {
            (case.content, case.packets) == (Content::Noise, 30_000)
        });
        let expected = [
            "sendto/first_send",
            "hythe/first_send",
            "hythe/prepared",
            "hythe/headers",
        ];
        assert_eq!(all, expected);
        assert_eq!((plan.calls.len(), plan.lossy.len()), (2, 4));
        let only = vec!["calls".to_owned(), "lossy-resend".to_owned()];
        let plan = make(&Scale { only, ..scale() }, |_| true, || Ok(()));
        assert!(plan.series.is_empty() && !plan.is_empty());
        let names: Vec<String> = plan
            .calls
            .iter()
            .map(|calls| calls.case.to_string())
            .collect();
        let expected = [
            "sendto/calls",
            "hythe/calls",
            "sendto/calls_realtime",
            "hythe/calls_realtime",
        ];
        assert_eq!(names, expected);
        assert_eq!(plan.lossy.len(), 1);
    }

    #[test]
    fn priority_that_is_not_permitted_is_named() {
        let refused = || Err(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
        let plan = make(&scale(), |_| true, refused);
        assert!(plan.calls.iter().all(|calls| calls.case.priority.is_none()));
        assert!(plan.skipped[0].contains("real-time priority 1: permission denied"));
    }
}
