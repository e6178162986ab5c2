//! Verdicts. Never looks at a clock.

use proptest::prelude::*;

use super::*;
use crate::runs::{Reader, Usage, Verdict};

const PACK: u32 = 7;

fn run(read: bool, startup_ns: u64) -> Entry {
    Entry::Run(Run {
        finished_unix_s: 0,
        boot_id: "boot".to_owned(),
        pack: PACK,
        by: Reader::Replay,
        read,
        measured_from: MeasuredFrom::Replay,
        startup_ns,
        reading_ns: 0,
        began_ns: 0,
        usage: Usage {
            read: if read { 10 } else { 0 },
            used: if read { 6 } else { 0 },
            unused: if read { 4 } else { 0 },
            ..Usage::default()
        },
    })
}

fn other(entry: Entry, change: impl FnOnce(&mut Run)) -> Entry {
    match entry {
        Entry::Run(mut run) => {
            change(&mut run);
            Entry::Run(run)
        }
        verdict => verdict,
    }
}

/// Follows the advice until it is a verdict or `most` runs are done; how many were left unread.
fn follow(with_ns: u64, without_ns: u64, wanted: usize, most: usize) -> (Vec<Entry>, Advice) {
    let mut entries = Vec::new();
    for _ in 0..most {
        match advise(&entries, PACK, wanted) {
            Advice::Read => entries.push(run(true, with_ns)),
            Advice::LeaveUnread { .. } => entries.push(run(false, without_ns)),
            verdict => return (entries, verdict),
        }
    }
    let advice = advise(&entries, PACK, wanted);
    (entries, advice)
}

fn unread(entries: &[Entry]) -> usize {
    let left = |entry: &&Entry| matches!(entry, Entry::Run(run) if !run.read);
    entries.iter().filter(left).count()
}

#[test]
fn pack_that_helps_is_left_unread_so_often_and_then_never_again() {
    let (entries, advice) = follow(1_000, 2_000, 5, 40);
    assert_eq!(advice, Advice::Read);
    assert_eq!(unread(&entries), 5);
    assert!(
        entries[..10]
            .iter()
            .zip([true, false].iter().cycle())
            .all(|(entry, read)| matches!(entry, Entry::Run(run) if run.read == *read))
    );
}

#[test]
fn pack_that_does_not_help_is_switched_off_with_the_figures() {
    let (entries, advice) = follow(2_000_000_000, 1_500_000_000, 3, 40);
    assert_eq!(entries.len(), 6);
    let Advice::SwitchOff { reason } = advice else {
        panic!("{advice:?}")
    };
    for figure in ["2.000 s with", "1.500 s without", "3 runs", "40 %"] {
        assert!(reason.contains(figure), "{reason}");
    }
}

#[test]
fn one_run_that_took_long_decides_nothing() {
    let mut entries: Vec<Entry> = (0..5)
        .flat_map(|_| [run(true, 10), run(false, 20)])
        .collect();
    entries[4] = run(true, 1_000_000);
    assert_eq!(advise(&entries, PACK, 5), Advice::Read);
}

#[test]
fn what_stopped_helping_is_switched_off_later() {
    let mut entries: Vec<Entry> = (0..5)
        .flat_map(|_| [run(true, 10), run(false, 20)])
        .collect();
    entries.extend((0..5).map(|_| run(true, 21)));
    assert!(matches!(
        advise(&entries, PACK, 5),
        Advice::SwitchOff { .. }
    ));
}

#[test]
fn who_switches_it_on_again_begins_anew() {
    let (mut entries, _) = follow(20, 10, 2, 40);
    entries.push(Entry::SwitchedOff(Verdict {
        unix_s: 0,
        pack: PACK,
        reason: String::new(),
    }));
    assert_eq!(advise(&entries, PACK, 2), Advice::Read);
    assert_eq!(summarize(&entries, PACK), Summary::default());
}

#[test]
fn other_packs_and_other_beginnings_are_not_compared() {
    let mut entries: Vec<Entry> = (0..5)
        .map(|_| other(run(false, 1), |run| run.pack += 1))
        .collect();
    entries
        .extend((0..5).map(|_| other(run(false, 1), |run| run.measured_from = MeasuredFrom::Boot)));
    entries.extend((0..5).map(|_| run(true, 10)));
    assert!(matches!(
        advise(&entries, PACK, 5),
        Advice::LeaveUnread { .. }
    ));
    assert_eq!(summarize(&entries, PACK).without, 0);
}

#[test]
fn figures_are_medians_and_shares() {
    let entries = [
        run(true, 10),
        run(true, 30),
        run(false, 60),
        run(true, 20),
        run(false, 100),
    ];
    let summary = summarize(&entries, PACK);
    assert_eq!((summary.with, summary.without), (3, 2));
    assert_eq!(
        (summary.median_with_ns, summary.median_without_ns),
        (Some(20), Some(80))
    );
    assert_eq!(summary.speedup, Some(4.0));
    assert_eq!((summary.hits, summary.waste), (Some(0.6), Some(0.4)));
}

proptest! {
    #[test]
    fn verdict_has_enough_runs_of_each_kind(
        times in prop::collection::vec((any::<bool>(), 0_u64..100), 0..40),
        wanted in 1_usize..6,
    ) {
        let entries: Vec<Entry> = times.iter().map(|(read, ns)| run(*read, *ns)).collect();
        let without = unread(&entries);
        let with = entries.len() - without;
        match advise(&entries, PACK, wanted) {
            Advice::SwitchOff { .. } => prop_assert!(with >= wanted && without >= wanted),
            Advice::LeaveUnread { .. } => prop_assert!(without < wanted && without < with),
            Advice::Read => {}
        }
    }

    #[test]
    fn following_the_advice_always_comes_to_an_end_of_unread_runs(with in 1_u64..100, without in 1_u64..100, wanted in 1_usize..6) {
        let (entries, advice) = follow(with, without, wanted, 60);
        prop_assert_eq!(unread(&entries), wanted);
        prop_assert_eq!(advice == Advice::Read, with < without);
    }
}
