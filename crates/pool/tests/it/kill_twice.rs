//! Deaths upon deaths: of the recoverer while it recovers, and of both sides of a connection.

// One thread, no unsafe code, and hours under Miri.
#![cfg(not(miri))]

use crate::world::cases;
use crate::world::stage::{Case, Stage};
use crate::world::{Dying, Way, World, until_death};
use hythe_pool::{Control, Member, MemberInfo, Recoverer, Side};

/// One death in front of store `first` of `case`, one of its recoverer in front of store `second`.
/// False: the recoverer came through.
fn kill_twice(case: &Case, first: u32, second: u32) -> bool {
    let context = format!(
        "{} killed before store {first}, its recoverer before {second}",
        case.name
    );
    let mut stage = Stage::new();
    (case.before)(&mut stage);
    stage.dying.memory().fault.arm(first);
    let Stage {
        actor,
        dying,
        world,
        ..
    } = &mut stage;
    until_death(|| (case.act)(actor, dying, &world.regions));

    let mut undertaker = stage.world.join("undertaker").recoverer();
    if second % 5 == 4 {
        // One that has no record of its own, because the pool was full.
        undertaker = Recoverer::outsider(stage.world.control.new_session());
    }
    let own_end = stage.world.dying();
    own_end.memory().fault.arm(second);
    let living = stage.living();
    let lived = until_death(|| recover_all_but(&stage, undertaker, &own_end)).is_some();
    if second.is_multiple_of(2) {
        stage.work_meanwhile();
    }
    stage
        .world
        .bury(&stage.far, &living, second.is_multiple_of(3));
    stage.check_life_goes_on(&context);
    stage.check_nothing_leaks(&context);
    !lived
}

/// What the recoverer does that dies: recovers everyone who is not on the stage, nor itself.
fn recover_all_but(stage: &Stage, undertaker: Recoverer, control: &Control<Dying>) {
    let living = stage.living();
    let dead: Vec<MemberInfo> = control
        .tables()
        .members()
        .filter(|member| !living.contains(&member.index) && member.name != "undertaker")
        .collect();
    for member in dead {
        let mut is_dead = |found: &MemberInfo| !living.contains(&found.index);
        let regions = &stage.world.regions;
        undertaker
            .recover(control, regions, &member, 0, &mut is_dead)
            .expect("recovery");
    }
}

#[test]
fn second_recoverer_finishes_what_the_first_began() {
    let interesting = [
        "join",
        "lease",
        "release all",
        "forward",
        "reclaim",
        "connect",
        "take from evict-oldest",
        "evict the oldest",
    ];
    let leaving = [
        "leave last, as producer",
        "leave last, as consumer",
        "open channel",
    ];
    let mut deaths = 0;
    for case in cases::all() {
        if !interesting.contains(&case.name) && !leaving.contains(&case.name) {
            continue;
        }
        // The death that leaves most behind is late in the step; a few others stand for the rest.
        for first in [2, 9, 10, 11, 21, 25] {
            let stores = (1..)
                .take_while(|&second| kill_twice(&case, first, second))
                .count();
            assert!(
                stores > 50,
                "{}: a recovery of only {stores} stores",
                case.name
            );
            deaths += stores;
        }
    }
    println!("{deaths} recoverers died");
}

/// Both sides of one connection die while they leave it, in front of the given stores.
fn both_sides_die(producer_store: u32, consumer_store: u32, producer_first: bool) -> [bool; 2] {
    let context =
        format!("{producer_store} and {consumer_store}, producer first: {producer_first}");
    let world = World::new();
    let mut undertaker = world.join("undertaker");
    let (mut from, mut to) = (world.join("from"), world.join("to"));
    let mut way = world.connect(&mut from, &mut to, 4);
    for _ in 0..3 {
        let message = world.lease(&mut from);
        world.send(&mut from, &mut way, message);
    }
    let died = if producer_first {
        let first = leaves(&world, &mut from, &way, Side::Producer, producer_store);
        [
            first,
            leaves(&world, &mut to, &way, Side::Consumer, consumer_store),
        ]
    } else {
        let first = leaves(&world, &mut to, &way, Side::Consumer, consumer_store);
        [
            leaves(&world, &mut from, &way, Side::Producer, producer_store),
            first,
        ]
    };
    let reverse = (producer_store + consumer_store).is_multiple_of(2);
    assert_eq!(
        world.bury(&undertaker, &[undertaker.index()], reverse),
        2,
        "{context}"
    );
    world.check_sums(&context);
    let message = world.lease(&mut undertaker);
    world.release(&mut undertaker, message.slot, 1);
    undertaker
        .depart(&world.control, &world.regions)
        .expect("departure");
    world.check_empty(&context);
    died
}

fn leaves(world: &World, member: &mut Member, way: &Way, side: Side, store: u32) -> bool {
    let dying = world.dying();
    dying.memory().fault.arm(store);
    let info = way.producer.info;
    let (index, nonce) = (info.index, info.nonce);
    until_death(|| member.leave_connection(&dying, &world.regions, index, nonce, side)).is_none()
}

#[test]
fn both_sides_of_a_connection_may_die_while_they_leave_it() {
    let mut deaths = [0, 0];
    for producer_first in [true, false] {
        for producer_store in 1..90 {
            for consumer_store in 1..90 {
                let died = both_sides_die(producer_store, consumer_store, producer_first);
                deaths[0] += u32::from(died[0]);
                deaths[1] += u32::from(died[1]);
                if died == [false, false] {
                    break;
                }
            }
        }
    }
    println!("{} producers and {} consumers died", deaths[0], deaths[1]);
    assert!(deaths.iter().all(|&deaths| deaths > 200), "{deaths:?}");
}
