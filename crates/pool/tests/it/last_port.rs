//! The channel that loses its last port goes, whoever made it, and wherever the owner of the port
//! dies.

use std::cell::{Cell, RefCell};

use hythe_memory::{Mapped, Memory, Ordering};
use hythe_pool::{ChannelIndex, ChannelType, Control, Member, PortIndex, PortKind, PortPolicy};

use crate::world::{self, World, until_death};

fn open<M: Memory>(control: &Control<M>, member: &mut Member, channel: ChannelIndex) -> PortIndex {
    let (kind, policy) = (PortKind::Subscriber, PortPolicy::DropNewest);
    let opened = member.open_port(control, channel, kind, 2, policy);
    opened.expect("port")
}

/// A channel whose maker has left, and the one port on it.
fn left_with_one_port(world: &World, owner: &mut Member) -> PortIndex {
    let mut maker = world.join("maker");
    let raw = ChannelType::default();
    let channel = maker.open_channel(&world.control, "c", &raw);
    let port = open(&world.control, owner, channel.expect("channel"));
    maker
        .depart(&world.control, &world.regions)
        .expect("departure");
    assert!(
        world.control.tables().find_channel("c").is_some(),
        "it has a port"
    );
    port
}

/// As the ports of a node do when they are dropped.
fn give_up<M: Memory>(control: &Control<M>, owner: &mut Member, port: PortIndex) {
    owner.close_port(control, port);
    owner.free_port(control, port);
}

/// Dies in front of store `store` of giving the port up. False: it came through.
fn owner_dies(store: u32) -> bool {
    let world = World::new();
    let (near, mut owner) = (world.join("near"), world.join("owner"));
    let port = left_with_one_port(&world, &mut owner);
    let dying = world.dying();
    dying.memory().fault.arm(store);
    let died = until_death(|| give_up(&dying, &mut owner, port)).is_none();
    world.bury(&near, &[near.index()], false);
    let left: Vec<_> = world.control.tables().channels().collect();
    assert_eq!(left, [], "killed before store {store}");
    died
}

#[test]
fn owner_of_the_last_port_may_die_anywhere() {
    let deaths = (1..).take_while(|&store| owner_dies(store)).count();
    assert!(deaths >= 5, "only {deaths} deaths");
}

/// The owner dies, and then its recoverer in front of store `store`. False: it came through.
fn recoverer_dies(store: u32, is_closed: bool) -> bool {
    let world = World::new();
    let (near, mut owner) = (world.join("near"), world.join("owner"));
    let other = world.join("other");
    let port = left_with_one_port(&world, &mut owner);
    if is_closed {
        owner.close_port(&world.control, port);
    }
    let dying = world.dying();
    dying.memory().fault.arm(store);
    let dead = world
        .control
        .tables()
        .member(owner.index())
        .expect("its record");
    let mut is_dead = |member: &hythe_pool::MemberInfo| member.index == owner.index();
    let recoverer = other.recoverer();
    let died =
        until_death(|| recoverer.recover(&dying, &world.regions, &dead, 0, &mut is_dead)).is_none();
    world.bury(&near, &[near.index()], false);
    let left: Vec<_> = world.control.tables().channels().collect();
    assert_eq!(left, [], "closed: {is_closed}, killed before store {store}");
    died
}

#[test]
fn so_may_who_recovers_it() {
    for is_closed in [false, true] {
        let deaths = (1..)
            .take_while(|&store| recoverer_dies(store, is_closed))
            .count();
        assert!(deaths > 5, "only {deaths} deaths");
    }
}

/// Memory in which something happens behind the first swap of its user, and something else in front
/// of the next store.
struct Interrupted<'a> {
    memory: Mapped,
    behind_swap: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
    before_store: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl Memory for Interrupted<'_> {
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.memory.load(at, order)
    }
    fn store(&self, at: usize, value: u32, order: Ordering) {
        self.memory.store(at, value, order);
    }
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        self.memory.add(at, value, order)
    }
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        self.memory.load_cell(at, order)
    }
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        if self.behind_swap.borrow().is_none()
            && let Some(happens) = self.before_store.take()
        {
            happens();
        }
        self.memory.store_cell(at, value, order);
    }
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        self.memory.replace_cell(at, current, new)?;
        if let Some(happens) = self.behind_swap.take() {
            happens();
        }
        Ok(())
    }
}

/// While the last port goes, another comes as far as store `store` of its opening, is seen or not,
/// and gives up before the channel is put back or freed. False: the opening came to its end.
fn another_comes_and_gives_up(store: u32) -> bool {
    let world = World::new();
    let mut owner = world.join("owner");
    let port = left_with_one_port(&world, &mut owner);
    let channel = world
        .control
        .tables()
        .find_channel("c")
        .expect("a channel")
        .index;
    let late = RefCell::new(world.join("late"));
    let dying = world.dying();
    dying.memory().fault.arm(store);
    let came_through = Cell::new(false);
    let comes = || {
        let (kind, policy) = (PortKind::Subscriber, PortPolicy::DropNewest);
        let mut late = late.borrow_mut();
        let opened = until_death(|| late.open_port(&dying, channel, kind, 2, policy));
        assert!(opened.as_ref().is_none_or(Result::is_err), "{opened:?}");
        came_through.set(opened.is_some());
    };
    let gives_up = || {
        let ports = 0..world::LIMITS.ports;
        ports.for_each(|port| late.borrow_mut().free_port(&world.control, PortIndex(port)));
    };
    let interrupted = Control::open(Interrupted {
        memory: world.control.memory().clone(),
        behind_swap: RefCell::new(Some(Box::new(comes))),
        before_store: RefCell::new(Some(Box::new(gives_up))),
    });
    owner.close_port(&world.control, port);
    owner.retire_channel(&interrupted.expect("a pool"), channel);
    owner.free_port(&world.control, port);
    let left: Vec<_> = world.control.tables().channels().collect();
    assert_eq!(left, [], "interrupted before store {store}");
    assert_eq!(world.control.tables().ports().count(), 0);
    !came_through.get()
}

#[test]
fn it_goes_also_when_another_came_in_between_and_gave_up() {
    let points = (1..)
        .take_while(|&store| another_comes_and_gives_up(store))
        .count();
    assert!(points > 10, "only {points} points");
}
