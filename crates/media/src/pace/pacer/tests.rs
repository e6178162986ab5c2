//! The pacer on a model clock, among others beside a scheduler that takes the CPU away.

use super::*;

const MS: u64 = 1_000_000;

fn places(dues: impl IntoIterator<Item = u64>) -> Vec<PacketPlace> {
    let place = |(index, due_ns): (u32, u64)| PacketPlace {
        offset: index * 100,
        bytes: 100,
        sequence: index as u16,
        due_ns,
    };
    (0..).zip(dues).map(place).collect()
}

fn pacer(burst: usize, early_ns: u64) -> Pacer {
    Pacer::new(Limit { burst, early_ns }, CATCH_UP)
}

/// Sends packets at their instants, `late_ns` later for each.
fn send_all(
    pacer: &mut Pacer,
    packets: &[PacketPlace],
    late_ns: impl Fn(usize) -> u64,
) -> Vec<u64> {
    let (mut now_ns, mut done) = (0, 0);
    let mut instants = Vec::new();
    while done < packets.len() {
        let rest = &packets[done..];
        now_ns = pacer.instant(rest, now_ns).max(now_ns) + late_ns(done);
        let count = pacer.group(rest, now_ns);
        pacer.sent(&rest[..count], now_ns);
        instants.push(now_ns);
        done += count;
    }
    instants
}

#[test]
fn first_goes_at_once_and_the_others_as_planned() {
    let mut pacer = pacer(1, 0);
    assert_eq!(pacer.instant(&places([7]), 5), 5);
    assert_eq!(pacer.instant(&places([7 + 3 * MS]), 6), 5 + 3 * MS);
    assert_eq!(pacer.instant(&[], 6), 6);
    assert_eq!(pacer.group(&[], 6), 0);
}

#[test]
fn near_neighbours_go_together_and_no_more_than_asked_for() {
    let packets = places([0, 10, 20, 30, 40]);
    for (burst, early_ns, expected) in [(100, 0, 1), (100, 25, 3), (2, 1000, 2), (0, 1000, 1)] {
        assert_eq!(pacer(burst, early_ns).group(&packets, 0), expected);
    }
    let mut early = pacer(100, 5);
    assert_eq!(early.group(&places([u64::MAX; 2]), 0), 2);
}

#[test]
fn errors_are_differences_of_distances() {
    let mut pacer = pacer(1, 0);
    // Always 50 us late: the distances are right all the same.
    let packets = places((0..1000).map(|index| index * MS));
    send_all(&mut pacer, &packets, |index| 50_000 * u64::from(index != 0));
    let spacing = pacer.spacing();
    assert_eq!((spacing.count, spacing.p50_ns), (999, 0));
    assert!((50_000..51_000).contains(&spacing.max_ns), "{spacing:?}");
    assert_eq!((spacing.late_ns, spacing.late_max_ns), (50_000, 50_000));
}

#[test]
fn late_packets_leave_at_four_times_rate_until_on_time() {
    let mut pacer = pacer(4, 0);
    let packets = places((0..40).map(|index| 10 * MS * index));
    // 100 ms late with the second one.
    let instants = send_all(&mut pacer, &packets, |index| {
        100 * MS * u64::from(index == 1)
    });
    // Four each, then the one that became due meanwhile.
    let expected = [0, 1100, 1200, 1300, 1325, 1400, 1500];
    let expected = expected.map(|tenths| tenths * MS / 10);
    assert_eq!(instants[..7], expected, "{instants:?}");
    assert_eq!(instants.last(), Some(&(390 * MS)));
    let spacing = pacer.spacing();
    assert_eq!((spacing.late_ns, spacing.late_max_ns), (0, 100 * MS));
    assert_eq!(spacing.moves, 0);
}

#[test]
fn one_by_one_is_four_times_the_rate_as_well() {
    let mut pacer = pacer(1, 0);
    let packets = places((0..10).map(|index| 10 * MS * index));
    let instants = send_all(&mut pacer, &packets, |index| {
        30 * MS * u64::from(index == 1)
    });
    let expected = [0, 400, 425, 450, 475, 500, 600, 700, 800, 900];
    assert_eq!(instants, expected.map(|tenths| tenths * MS / 10));
}

#[test]
fn pause_moves_the_plan_and_a_stop_does_not() {
    for is_told in [false, true] {
        let mut pacer = pacer(1, 0);
        pacer.sent(&places([0]), 0);
        if is_told {
            pacer.resume();
        }
        let next = places([10 * MS, 20 * MS]);
        assert_eq!(
            pacer.instant(&next, 60_000 * MS).max(60_000 * MS),
            60_000 * MS
        );
        pacer.sent(&next[..1], 60_000 * MS);
        let then_ns = pacer.instant(&next[1..], 60_000 * MS);
        let spacing = pacer.spacing();
        if is_told {
            assert_eq!((then_ns, spacing.moves), (60_010 * MS, 1));
            assert_eq!((spacing.count, spacing.late_max_ns), (0, 0));
        } else {
            assert_eq!((then_ns, spacing.moves), (60_000 * MS + 10 * MS / 4, 0));
            assert_eq!(spacing.late_max_ns, 59_990 * MS);
        }
    }
    // Before the first packet there is nothing to move.
    let mut pacer = pacer(1, 0);
    pacer.resume();
    assert_eq!(pacer.spacing().moves, 0);
}

/// A live source gives a packet every 10 ms, from the fifth on later by `late_ms`.
fn live(late_ms: impl Fn(u64) -> u64, waited_ms: u64) -> Spacing {
    let mut pacer = pacer(8, 0);
    for index in 0..200 {
        let now_ns = (10 * index + late_ms(index)) * MS;
        let packet = places([10 * MS * index]);
        pacer.waited(10 * MS * index, waited_ms * MS, now_ns);
        let sent_ns = pacer.instant(&packet, now_ns).max(now_ns);
        pacer.sent(&packet, sent_ns);
    }
    pacer.spacing()
}

#[test]
fn late_live_source_moves_plan_but_jitter_does_not() {
    let jitter = live(|index| index % 3 * 40, 100);
    assert_eq!((jitter.moves, jitter.late_max_ns), (0, 80 * MS));
    let silent = live(|index| 5000 * u64::from(index > 5), 5010);
    assert_eq!((silent.moves, silent.late_ns), (1, 0));
    // One percent slow: moved each time that it is 0.1 s behind.
    let slow = live(|index| index * 3, 13);
    assert_eq!((slow.moves, slow.late_max_ns), (5, 99 * MS));
}

#[test]
fn live_source_is_not_blamed_for_what_this_machine_took() {
    // Stopped for 5 s; the source had its packets all the time, and was waited for 10 ms each.
    let stopped = live(|index| 5000 * u64::from(index > 5), 10);
    assert_eq!(stopped.moves, 0);
}

#[test]
fn hostile_times_saturate() {
    let mut pacer = pacer(2, 0);
    pacer.sent(&places([0]), 1);
    assert_eq!(pacer.instant(&places([u64::MAX]), 1), u64::MAX);
    pacer.waited(0, u64::MAX, u64::MAX);
    pacer.waited(0, u64::MAX, u64::MAX);
    assert!(pacer.spacing().moves >= 1);
}

/// Weyl's sequence through splitmix64's mixer.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}

/// Packets that left together: the number of the first, how many, and when.
type Sent = (usize, usize, u64);

/// However many groups are taken together: a burst, and four times what the media has in that time.
fn assert_bounded(sent: &[Sent], burst: usize, apart_ns: u64) {
    for (index, (first, _, began_ns)) in sent.iter().enumerate() {
        for (place, count, at_ns) in sent[index..].iter().take(100) {
            let packets = place + count - first;
            let refilled = u64::from(CATCH_UP) * (at_ns - began_ns) / apart_ns;
            // One of the tokens may be there in part.
            assert!(
                packets as u64 <= burst as u64 + refilled + 1,
                "{packets} packets in {} ns",
                at_ns - began_ns
            );
        }
    }
}

/// Of 30 s of media, so much is sent beside a scheduler that takes the CPU away.
const DISTURBED_NS: u64 = 10_000 * MS;
const MEDIA_NS: u64 = 30_000 * MS;

/// A stream of one packet each `apart_ns`, on a machine whose scheduler takes the CPU away for 50,
/// 200 and 1,000 ms, and lets it wait for up to 0.1 ms each time.
fn survives(seed: u64, limit: Limit, apart_ns: u64) {
    let mut random = Random(seed);
    let packets = places((0..MEDIA_NS / apart_ns).map(|index| apart_ns * index));
    let mut pacer = Pacer::new(limit, CATCH_UP);
    let (mut now_ns, mut done, mut next_stop_ns) = (0, 0, 100 * MS);
    let mut sent = Vec::new();
    while done < packets.len() {
        let rest = &packets[done..];
        let instant_ns = pacer.instant(rest, now_ns);
        if now_ns < instant_ns {
            now_ns = instant_ns + random.below(100_000);
            if rest[0].due_ns >= next_stop_ns && rest[0].due_ns < DISTURBED_NS {
                now_ns += [50, 200, 1000][random.below(3) as usize] * MS;
                next_stop_ns = rest[0].due_ns + random.below(2000) * MS;
            }
            // As a session does: it asks once more when it wakes.
            assert!(
                pacer.instant(rest, now_ns) <= now_ns,
                "seed {seed}: put off again"
            );
            continue;
        }
        let count = pacer.group(rest, now_ns);
        assert!((1..=limit.burst).contains(&count), "seed {seed}: {count}");
        pacer.sent(&rest[..count], now_ns);
        sent.push((done, count, now_ns));
        done += count;
    }
    assert_bounded(&sent, limit.burst, apart_ns);
    let spacing = pacer.spacing();
    assert!(spacing.late_max_ns >= 50 * MS, "seed {seed}: {spacing:?}");
    // No more than the wake-up, and the plan is the one that it was at the beginning.
    assert!(spacing.late_ns < MS, "seed {seed}: {spacing:?}");
    assert_eq!(spacing.moves, 0, "seed {seed}");
    let end_ns = packets.last().unwrap().due_ns;
    assert!(now_ns <= end_ns + MS, "seed {seed}: {now_ns}");
    assert!(now_ns + limit.early_ns >= end_ns, "seed {seed}: {now_ns}");
}

#[test]
fn pacer_recovers_after_lost_cpu_time() {
    for seed in 0..16 {
        // 5 Mbit/s in packets of 1,316 bytes, and ten times that; one by one only the first.
        for (burst, early_ns, apart_ns) in [
            (64, 20 * MS, 2_105_600),
            (64, 20 * MS, 210_560),
            (8, 2 * MS, 2_105_600),
            (8, 2 * MS, 210_560),
            (1, 0, 2_105_600),
        ] {
            survives(seed, Limit { burst, early_ns }, apart_ns);
        }
    }
}
