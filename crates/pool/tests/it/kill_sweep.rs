//! Every operation, killed in front of every store, and recovered: nothing is lost, nothing is
//! stuck.

use hythe_pool::Side;

use crate::world::cases;
use crate::world::stage::{Case, Stage};
use crate::world::{World, until_death};

/// What the living do between the death and the recovery.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    Work,
}

/// Lets the actor die in front of store number `store`. False: it came through, the case has fewer
/// stores.
fn kill_once(case: &Case, store: u32, meanwhile: Meanwhile) -> bool {
    let context = format!("{} killed before store {store}, {meanwhile:?}", case.name);
    let mut stage = Stage::new();
    (case.before)(&mut stage);
    let before = stage.seen_by_near();
    stage.dying.memory().fault.arm(store);
    let Stage {
        actor,
        dying,
        world,
        ..
    } = &mut stage;
    let lived = until_death(|| (case.act)(actor, dying, &world.regions)).is_some();
    assert!(lived || dying.memory().fault.stores() == store, "{context}");
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

/// Kills at every store; returns how many there were. The last round is the death right after the
/// operation.
fn sweep(case: &Case, meanwhile: Meanwhile) -> u32 {
    (1..)
        .take_while(|&store| kill_once(case, store, meanwhile))
        .count() as u32
}

#[test]
#[cfg_attr(miri, ignore = "about an hour under Miri")]
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
fn other_side_is_told_of_a_departure_whenever_it_happens() {
    for store in 1..=3 {
        let world = World::new();
        let (mut near, mut victim) = (world.join("near"), world.join("victim"));
        let info = world.connect(&mut victim, &mut near, 2).producer.info;
        let told = world.control.tables().changes(near.index());
        let dying = world.dying();
        dying.memory().fault.arm(store);
        let (index, nonce) = (info.index, info.nonce);
        let died = until_death(|| {
            victim.leave_connection(&dying, &world.regions, index, nonce, Side::Producer)
        });
        assert!(
            died.is_none(),
            "three stores: the state, and a word on each side"
        );
        world.bury(&near, &[near.index()], false);
        let found = world
            .control
            .tables()
            .connection(index)
            .expect("near has not left");
        assert!(found.producer_left);
        assert_ne!(
            world.control.tables().changes(near.index()),
            told,
            "before store {store}"
        );
    }
}

/// Makes a connection to a port that is closed by then, and leaves it; dies in front of store
/// `store`. False: it came through.
fn meets_a_closed_port(store: u32, attended: bool) -> bool {
    let world = World::new();
    let (mut near, mut victim) = (world.join("near"), world.join("victim"));
    let way = world.connect(&mut victim, &mut near, 2);
    let (from, to) = (way.producer_port, way.consumer_port);
    near.close_port(&world.control, to);
    let (index, nonce) = (way.producer.info.index, way.producer.info.nonce);
    near.leave_connection(&world.control, &world.regions, index, nonce, Side::Consumer)
        .expect("left");
    let dying = world.dying();
    let mut late = None;
    dying.memory().fault.arm(store);
    let died = until_death(|| {
        let info = victim.connect(&dying, from, near.index(), to, 2);
        let info = *late.insert(info.expect("connection"));
        if attended {
            assert!(near.attend(&world.control, &info));
        }
        victim.leave_unattended(&dying, &world.regions, &info)
    });
    if died.is_none() {
        world.bury(&near, &[near.index()], false);
    }
    let context = format!("before store {store}, attended: {attended}");
    if attended && let Some(info) = late {
        let left = world.control.tables().connection(info.index);
        assert!(left.is_some_and(|left| left.producer_left), "{context}");
        let (index, nonce) = (info.index, info.nonce);
        near.leave_connection(&world.control, &world.regions, index, nonce, Side::Consumer)
            .expect("left");
    }
    let left: Vec<_> = world.control.tables().connections().collect();
    let old = |info: &hythe_pool::ConnectionInfo| (info.index, info.nonce) == (index, nonce);
    assert!(left.iter().all(old), "{context}: {left:?}");
    if let Some(info) = late {
        assert!(!near.attend(&world.control, &info), "{context}: it is gone");
    }
    died.is_none()
}

#[test]
fn connection_to_a_closed_port_goes_without_its_consumer() {
    for attended in [false, true] {
        let stores = (1..)
            .take_while(|&store| meets_a_closed_port(store, attended))
            .count();
        assert!(stores > 10, "only {stores} deaths");
    }
}

#[test]
fn unmarked_message_of_dead_sender_is_found() {
    let cases = cases::all();
    let case = cases.iter().find(|case| case.name == "send with a mark");
    let case = case.expect("a case");
    for store in 1..=sweep(case, Meanwhile::Nothing) {
        let mut stage = Stage::new();
        (case.before)(&mut stage);
        let near = stage.near.index();
        let port = stage.actor.out.consumer_port;
        let told = stage.world.control.tables().changes(near);
        stage.dying.memory().fault.arm(store);
        let Stage {
            actor,
            dying,
            world,
            ..
        } = &mut stage;
        let _ = until_death(|| (case.act)(actor, dying, &world.regions));
        let living = stage.living();
        stage.world.bury(&stage.far, &living, false);
        let control = &stage.world.control;
        let mut marked = false;
        control
            .marks()
            .take_marks(near, |found| marked |= found == port);
        assert!(
            marked || control.tables().changes(near) != told,
            "killed before store {store}: neither a mark nor a word to look at all queues"
        );
    }
}
