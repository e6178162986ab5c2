//! Deaths that have names: in a diamond, and between a hold and the push that should follow it.
//! (`kill_twice.rs` has the death of the recoverer; `kill_sweep.rs` every single step.)

use crate::world::{self, Dying, Message, Way, World, until_death};
use hythe_memory::Memory;
use hythe_pool::{Control, Member, MemberKind};

/// One slot over two ways to one receiver: from `a` to `c`, and from `a` over `b` to `c`.
struct Diamond {
    world: World,
    a: Member,
    b: Member,
    c: Member,
    direct: Way,
    first_leg: Way,
    second_leg: Way,
}

/// Who dies in the diamond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Corner {
    /// It doubles its reference and sends both.
    Source,
    /// It takes and forwards.
    Middle,
    /// It takes both and releases both.
    Receiver,
}

impl Diamond {
    fn new() -> Self {
        let world = World::new();
        let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| world.join(name));
        Self {
            direct: world.connect(&mut a, &mut c, 2),
            first_leg: world.connect(&mut a, &mut b, 2),
            second_leg: world.connect(&mut b, &mut c, 2),
            world,
            a,
            b,
            c,
        }
    }

    fn source<M: Memory>(&mut self, control: &Control<M>) {
        let message = world::lease(&mut self.a, control, &self.world.regions);
        let (slot, descriptor) = (message.slot, message.descriptor);
        self.a.duplicate(control, slot, 1).expect("duplicate");
        for way in [&mut self.direct, &mut self.first_leg] {
            let sent = self.a.send(control, &mut way.producer, slot, descriptor);
            sent.expect("send");
        }
    }

    fn middle<M: Memory>(&mut self, control: &Control<M>) {
        let way = &mut self.first_leg.consumer;
        let taken = self.b.take(control, &self.world.regions, way);
        let Some(taken) = taken.expect("take") else {
            return;
        };
        let way = &mut self.second_leg.producer;
        let sent = self.b.send(control, way, taken.slot, taken.descriptor);
        sent.expect("send");
    }

    /// Returns how many it took.
    fn receiver<M: Memory>(&mut self, control: &Control<M>) -> usize {
        let regions = &self.world.regions;
        let ways = [&mut self.direct, &mut self.second_leg];
        let taken: Vec<_> = ways
            .into_iter()
            .filter_map(|way| {
                self.c
                    .take(control, regions, &mut way.consumer)
                    .expect("take")
            })
            .collect();
        for one in &taken {
            self.c.release(control, one.slot, 1).expect("release");
        }
        taken.len()
    }

    /// The three act in turn; `corner` dies before its store number `store`. Returns whether it
    /// did.
    fn act(&mut self, corner: Corner, store: u32) -> bool {
        let dying: Control<Dying> = self.world.dying();
        let living = self.world.control.clone();
        let mut died = false;
        for turn in [Corner::Source, Corner::Middle, Corner::Receiver] {
            dying
                .memory()
                .fault
                .arm(if turn == corner { store } else { 0 });
            let came_through = until_death(|| match turn {
                Corner::Source => self.source(&dying),
                Corner::Middle => self.middle(&dying),
                Corner::Receiver => drop(self.receiver(&dying)),
            });
            if came_through.is_none() {
                died = true;
                let (who, living) = match turn {
                    Corner::Source => (&self.b, [self.b.index(), self.c.index()]),
                    Corner::Middle => (&self.a, [self.a.index(), self.c.index()]),
                    Corner::Receiver => (&self.a, [self.a.index(), self.b.index()]),
                };
                self.world.bury(who, &living, false);
                self.world.check_sums("buried");
            }
        }
        if corner != Corner::Receiver {
            // What was on its way when the other died.
            self.receiver(&living);
        }
        died
    }
}

fn sweep_diamond(corner: Corner) -> u32 {
    let mut store = 0;
    loop {
        store += 1;
        let context = format!("{corner:?} dies before store {store}");
        let mut diamond = Diamond::new();
        let died = diamond.act(corner, store);
        diamond.world.check_sums(&context);
        // Whatever of the message arrived or not: nobody has anything of it any more.
        let Diamond { world, a, b, c, .. } = diamond;
        for (at, member) in [
            (Corner::Source, a),
            (Corner::Middle, b),
            (Corner::Receiver, c),
        ] {
            if !died || at != corner {
                member
                    .depart(&world.control, &world.regions)
                    .expect("departure");
            }
        }
        world.check_empty(&context);
        if !died {
            return store - 1;
        }
    }
}

#[test]
fn diamond_survives_the_death_of_any_corner() {
    for corner in [Corner::Source, Corner::Middle, Corner::Receiver] {
        let deaths = sweep_diamond(corner);
        println!("{corner:?}: {deaths} stores, a death before each");
        // A take and a send have about ten stores each.
        assert!(deaths >= 15, "{corner:?} died only {deaths} times");
    }
}

/// A reference noted as one's own, then death before (and in) the push that should give it away:
/// the receiver gets the message or not, and the ledger sums up either way.
#[test]
fn death_between_hold_and_push_loses_no_slot() {
    let (mut arrived, mut lost) = (0, 0);
    for store in 1.. {
        let context = format!("dies before store {store} of the push");
        let world = World::new();
        let (mut near, mut victim) = (world.join("near"), world.join("victim"));
        let mut way = world.connect(&mut victim, &mut near, 2);
        let message = world.lease(&mut victim);
        victim
            .duplicate(&world.control, message.slot, 1)
            .expect("duplicate");
        let dying = world.dying();
        dying.memory().fault.arm(store);
        let Message { slot, descriptor } = message;
        let sent = until_death(|| victim.send(&dying, &mut way.producer, slot, descriptor));
        let taken = world.take(&mut near, &mut way);
        world.bury(&near, &[near.index()], false);
        world.check_sums(&context);
        match taken {
            Some(taken) => {
                arrived += 1;
                assert_eq!(
                    (taken, world.control.ledger().slot(slot).0),
                    (message, 1),
                    "{context}"
                );
                assert!(world.release(&mut near, slot, 1), "{context}");
            }
            None => {
                lost += 1;
                assert_eq!(
                    world.control.ledger().slot(slot).0,
                    0,
                    "{context}: given back"
                );
            }
        }
        near.depart(&world.control, &world.regions)
            .expect("departure");
        world.check_empty(&context);
        if sent.is_some() {
            break;
        }
    }
    println!("{lost} deaths before the message could be seen, {arrived} behind");
    assert!(lost > 8 && arrived > 1, "{lost} and {arrived}");
}

/// The same on the way to a core: the core's row answers for what was never pushed, until the core
/// is recovered.
#[test]
fn death_between_the_hold_of_a_core_and_the_push_loses_no_slot() {
    for store in 1.. {
        let context = format!("dies before store {store} of the gift");
        let world = World::new();
        let (near, mut victim) = (world.join("near"), world.join("victim"));
        let core = world.join_as(MemberKind::CoreEndpoint, "core");
        let slot = world.lease(&mut victim).slot;
        let dying = world.dying();
        dying.memory().fault.arm(store);
        let given = until_death(|| victim.give(&dying, core.index(), slot, 1));
        world.bury(&near, &[near.index(), core.index()], false);
        world.check_sums(&context);
        let held = world.control.ledger().held_by(core.index(), slot);
        assert_eq!(
            world.control.ledger().slot(slot).0,
            held,
            "{context}: nobody else has it"
        );
        world.bury(&near, &[near.index()], false);
        assert_eq!(
            world.control.ledger().slot(slot).0,
            0,
            "{context}: the core's row gave it back"
        );
        near.depart(&world.control, &world.regions)
            .expect("departure");
        world.check_empty(&context);
        if given.is_some() {
            assert_eq!(held, 1, "the last death was behind the gift");
            break;
        }
    }
}
