//! Every operation, killed in front of every store, and recovered: nothing is lost, nothing is stuck.

#![cfg(not(loom))]

mod world;

use hythe_pool::{Member, Side};

use world::cases;
use world::stage::{Case, Stage};
use world::{World, until_death};

/// What the living do between the death and the recovery.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    Work,
}

/// Lets the actor die in front of store number `store`. False: it came through, the case has fewer stores.
fn kill_once(case: &Case, store: u32, meanwhile: Meanwhile) -> bool {
    let context = format!("{} killed before store {store}, {meanwhile:?}", case.name);
    let mut stage = Stage::new();
    (case.before)(&mut stage);
    let before = stage.seen_by_near();
    stage.dying.memory().fuse.light(store);
    let Stage {
        actor,
        dying,
        world,
        ..
    } = &mut stage;
    let lived = until_death(|| (case.act)(actor, dying, &world.regions)).is_some();
    assert!(lived || dying.memory().fuse.stores() == store, "{context}");
    if matches!(meanwhile, Meanwhile::Work) {
        stage.work_meanwhile();
    }
    let living = stage.living();
    stage
        .world
        .bury(&stage.far, &living, store.is_multiple_of(2));
    let after = stage.seen_by_near();
    assert!(
        after.0 == before.0 || after.1 != before.1,
        "{context}: near was not told"
    );
    stage.check_life_goes_on(&context);
    stage.check_nothing_leaks(&context);
    !lived
}

/// Kills at every store; returns how many there were. The last round is the death right after the operation.
fn sweep(case: &Case, meanwhile: Meanwhile) -> u32 {
    (1..)
        .take_while(|&store| kill_once(case, store, meanwhile))
        .count() as u32
}

#[test]
fn no_store_of_any_operation_is_a_bad_place_to_die() {
    for case in cases::all() {
        let quiet = sweep(&case, Meanwhile::Nothing);
        let busy = sweep(&case, Meanwhile::Work);
        println!(
            "{:26} {quiet:4} stores, a death before each and one after",
            case.name
        );
        assert!(
            quiet > 0,
            "{} stores nothing: the sweep visited no death",
            case.name
        );
        assert_eq!(quiet, busy, "{}: not every store was visited", case.name);
    }
}

#[test]
fn the_other_side_is_told_of_a_departure_whenever_it_happens() {
    for store in 1..=3 {
        let world = World::new();
        let (mut near, mut victim) = (world.join("near"), world.join("victim"));
        let info = world.connect(&mut victim, &mut near, 2).producer.info;
        let told = Member::changes(&world.control, near.index());
        let dying = world.dying();
        dying.memory().fuse.light(store);
        let (index, nonce) = (info.index, info.nonce);
        let died = until_death(|| {
            victim.leave_connection(&dying, &world.regions, index, nonce, Side::Producer)
        });
        assert!(
            died.is_none(),
            "three stores: the state, and a word on each side"
        );
        world.bury(&near, &[near.index()], false);
        let found = world.control.connection(index).expect("near has not left");
        assert!(found.producer_left);
        assert_ne!(
            Member::changes(&world.control, near.index()),
            told,
            "before store {store}"
        );
    }
}
