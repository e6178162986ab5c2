//! Every operation, killed in front of every store, and recovered: nothing is lost, nothing is stuck.

#![cfg(not(loom))]

mod world;

use world::cases;
use world::stage::{Case, Stage};
use world::until_death;

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
    stage.dying.memory().fuse.light(store);
    let Stage { actor, dying, world, .. } = &mut stage;
    let lived = until_death(|| (case.act)(actor, dying, &world.regions)).is_some();
    assert!(lived || dying.memory().fuse.stores() == store, "{context}");
    if matches!(meanwhile, Meanwhile::Work) {
        stage.work_meanwhile();
    }
    let living = stage.living();
    stage.world.bury(&stage.far, &living, store.is_multiple_of(2));
    stage.check_life_goes_on(&context);
    stage.check_nothing_leaks(&context);
    !lived
}

/// Kills at every store; returns how many there were. The last round is the death right after the operation.
fn sweep(case: &Case, meanwhile: Meanwhile) -> u32 {
    (1..).take_while(|&store| kill_once(case, store, meanwhile)).count() as u32
}

#[test]
fn no_store_of_any_operation_is_a_bad_place_to_die() {
    for case in cases::all() {
        let quiet = sweep(&case, Meanwhile::Nothing);
        let busy = sweep(&case, Meanwhile::Work);
        println!("{:26} {quiet:4} stores, a death before each and one after", case.name);
        assert!(quiet > 0, "{} stores nothing: the sweep visited no death", case.name);
        assert_eq!(quiet, busy, "{}: not every store was visited", case.name);
    }
}
