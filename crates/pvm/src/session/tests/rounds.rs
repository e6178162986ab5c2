//! Barriers of frozen groups.

use super::fake::Network;
use super::{AT_ONCE, Task, task};
use crate::code::Code;
use hythe_testing::Polling;

/// Tasks 1 to `count`, all in group `g`, which they froze; the first has number 0.
fn frozen(network: &Network, count: i32) -> Vec<Task> {
    let mut members: Vec<Task> = (1..=count).map(|one| task(network, one as u32)).collect();
    for member in &mut members {
        member.join_group("g").expect("new");
    }
    let freezing = members.into_iter().map(|mut member| {
        std::thread::spawn(move || {
            assert_eq!(member.freeze_group("g", count), Ok(count));
            member
        })
    });
    let freezing: Vec<_> = freezing.collect();
    let frozen = freezing.into_iter().map(|one| one.join());
    frozen.map(|one| one.expect("all went well")).collect()
}

/// Takes in what is there.
fn take_in(member: &mut Task) {
    while member.pull(AT_ONCE).expect("it is there").is_some() {}
}

#[test]
fn frozen_group_passes_barrier_when_all_are_there() {
    let network = Network::default();
    let mut members = frozen(&network, 3);
    for count in [-1, 3, -1] {
        let mut rounds = Vec::new();
        for one in [2, 0, 1] {
            let member = &mut members[one];
            take_in(member);
            let come = member.come("g", count).expect("sent");
            let mut round = come.expect("all of them");
            if one != 1 {
                assert_eq!(member.outcome(&mut round), None, "{one} is alone");
                assert_eq!(member.look_at_members(&mut round), Ok(()));
            }
            rounds.push((one, round));
        }
        // The one that lets the others go first.
        rounds.sort_by_key(|(one, _)| *one);
        for (one, mut round) in rounds {
            take_in(&mut members[one]);
            assert_eq!(members[one].outcome(&mut round), Some(Ok(())), "{one}");
        }
    }
    assert!(members[0].come("g", 2).expect("some").is_none());
}

#[test]
fn frozen_barrier_fails_without_lost_member() {
    let network = Network::default();
    let mut members = frozen(&network, 4);
    let gone = members.remove(1);
    let mut first = members[0].come("g", 4).expect("sent").expect("all");
    let mut third = members[1].come("g", 4).expect("sent").expect("all");
    drop(gone);
    take_in(&mut members[0]);
    assert_eq!(members[0].outcome(&mut first), None);
    // Not the one that would let it go.
    assert_eq!(members[1].look_at_members(&mut third), Ok(()));
    let looked = members[0].look_at_members(&mut first);
    assert_eq!(looked, Err(Code::NO_GROUP));
    // One that waits, and one that comes later.
    let mut fourth = members[2].come("g", 4).expect("sent").expect("all");
    for (one, round) in [(1, &mut third), (2, &mut fourth)] {
        take_in(&mut members[one]);
        assert_eq!(members[one].outcome(round), Some(Err(Code::NO_GROUP)));
    }
    for member in &mut members {
        assert!(member.come("g", 4).expect("nothing is sent").is_none());
        assert_eq!(member.barrier("g", 4), Err(Code::NO_GROUP));
    }
}

#[test]
fn barrier_ends_without_its_coordinator() {
    let network = Network::default();
    let mut members = frozen(&network, 2);
    let mut second = members.remove(1);
    let mut round = second.come("g", -1).expect("sent").expect("all");
    drop(members);
    let mut polling = Polling::new("the group is gone");
    while second.look_at_members(&mut round).is_ok() {
        take_in(&mut second);
        assert_eq!(second.outcome(&mut round), None);
        polling.pause();
    }
    assert_eq!(second.barrier("g", -1), Err(Code::NO_GROUP));
}

#[test]
fn server_keeps_barriers_of_groups_that_not_all_froze() {
    let network = Network::default();
    let (mut one, mut other) = (task(&network, 1), task(&network, 2));
    for member in [&mut one, &mut other] {
        member.join_group("g").expect("new");
    }
    assert!(one.come("g", 1).expect("nothing is sent").is_none());
    assert_eq!(one.freeze_group("g", 1), Ok(1));
    assert!(one.come("g", 2).expect("nothing is sent").is_none());
    assert!(one.come("g", -1).expect("nothing is sent").is_none());
    assert_eq!(one.barrier("g", 1), Ok(0));
}

/// What they do at a barrier of all, in this order.
fn meet(members: &mut [Task]) {
    let mut rounds: Vec<_> = members
        .iter_mut()
        .map(|member| member.come("g", -1).expect("sent").expect("all of them"))
        .collect();
    for (member, round) in members.iter_mut().zip(&mut rounds) {
        take_in(member);
        assert_eq!(member.outcome(round), Some(Ok(())));
    }
}

#[test]
fn program_that_takes_whatever_comes_takes_no_words_of_barriers() {
    let network = Network::default();
    let mut members = frozen(&network, 2);
    let mut round = members[1].come("g", 2).expect("sent").expect("all");
    take_in(&mut members[0]);
    assert_eq!(members[0].next_candidate(0), None, "it is nobody's message");
    let mut first = members[0].come("g", 2).expect("sent").expect("all");
    assert_eq!(members[0].outcome(&mut first), Some(Ok(())));
    take_in(&mut members[1]);
    assert_eq!(members[1].outcome(&mut round), Some(Ok(())));
}

#[test]
fn second_freeze_is_refused_and_barrier_still_works() {
    let network = Network::default();
    let mut members = frozen(&network, 2);
    let again = members[1].freeze_group("g", 2);
    assert_eq!(again, Err(Code::DUPLICATE_GROUP));
    meet(&mut members);
}

#[test]
fn members_that_froze_a_group_by_its_size_and_by_all_of_it_meet() {
    let network = Network::default();
    let mut members: Vec<Task> = (1..=2).map(|one| task(&network, one)).collect();
    for member in &mut members {
        member.join_group("g").expect("new");
    }
    let sizes = [-1, 2];
    let freezing = members.into_iter().zip(sizes).map(|(mut member, size)| {
        std::thread::spawn(move || {
            assert_eq!(member.freeze_group("g", size), Ok(2));
            member
        })
    });
    let freezing: Vec<_> = freezing.collect();
    let frozen = freezing.into_iter().map(|one| one.join());
    let mut members: Vec<Task> = frozen.map(|one| one.expect("all went well")).collect();
    meet(&mut members);
}

#[test]
fn messages_of_old_group_never_reach_its_namesake() {
    let network = Network::default();
    let mut members = frozen(&network, 2);
    // The first one never hears that.
    let _old = members[1].come("g", 2).expect("sent").expect("all");
    for member in &mut members {
        assert_eq!(member.leave_group("g"), Ok(0));
    }
    drop(members);
    let mut members = frozen(&network, 2);
    let mut round = members[0].come("g", 2).expect("sent").expect("all");
    take_in(&mut members[0]);
    assert_eq!(members[0].outcome(&mut round), None, "it is alone");
}
