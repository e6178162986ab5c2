//! Whatever keeps a channel may end in a death, and in that of its recoverer as well: the channel
//! goes, and no port stays half open.
//!
//! The channel's maker has left, so nobody but those who used it last can be the reason that it
//! goes. (`last_port.rs` has what the living do meanwhile.)

// One thread, no unsafe code, and half an hour under Miri.
#![cfg(not(miri))]

use hythe_abi::pool::port;
use hythe_memory::{Memory, Ordering};
use hythe_pool::{
    ChannelIndex, ChannelType, Control, Member, MemberIndex, MemberInfo, MemberKind, PortIndex,
    PortKind, PortPolicy, Recoverer,
};

use crate::world::stage::binding;
use crate::world::{self, Dying, World, until_death};

/// A channel whose maker has left.
struct Scene {
    world: World,
    near: Member,
    undertaker: Member,
    victim: Option<Member>,
    channel: ChannelIndex,
    /// The victim's.
    port: Option<PortIndex>,
}

impl Scene {
    fn new(case: &Case) -> Self {
        let world = World::new();
        let [near, undertaker, mut victim] =
            ["near", "undertaker", "victim"].map(|name| world.join(name));
        let core = world.join_as(MemberKind::CoreEndpoint, "core").index();
        let mut maker = world.join("maker");
        let raw = ChannelType::default();
        let channel = maker.open_channel(&world.control, "c", &raw);
        let channel = channel.expect("channel");
        let port = case
            .has_port
            .then(|| open(&world.control, &mut victim, channel));
        if case.has_core {
            victim.bind_core(&world.control, channel, binding(core));
        }
        let mut scene = Self {
            world,
            near,
            undertaker,
            victim: Some(victim),
            channel,
            port,
        };
        if case.is_attached {
            let dying = scene.world.dying();
            attach(&mut scene, &dying);
        }
        let (control, regions) = (&scene.world.control, &scene.world.regions);
        maker.depart(control, regions).expect("departure");
        scene
    }

    fn victim(&mut self) -> &mut Member {
        self.victim.as_mut().expect("it has not departed")
    }

    /// Everyone but `spared` is dead, and is recovered; twice, because a core's row waits for
    /// whoever is attached to it.
    fn bury<M: Memory>(
        &self,
        recoverer: Recoverer,
        control: &Control<M>,
        spared: &[MemberIndex],
        reverse: bool,
    ) {
        for _ in 0..2 {
            let dead = |member: &MemberInfo| !spared.contains(&member.index);
            let mut all: Vec<MemberInfo> = control.tables().members().filter(dead).collect();
            if reverse {
                all.reverse();
            }
            for member in &all {
                let regions = &self.world.regions;
                let mut is_dead = |it: &MemberInfo| dead(it);
                recoverer
                    .recover(control, regions, member, 0, &mut is_dead)
                    .expect("no damage");
            }
        }
    }
}

fn open<M: Memory>(control: &Control<M>, member: &mut Member, channel: ChannelIndex) -> PortIndex {
    let (kind, policy) = (PortKind::Subscriber, PortPolicy::DropNewest);
    let opened = member.open_port(control, channel, kind, 2, policy);
    opened.expect("port")
}

/// What the victim does when it dies, and what it has before.
struct Case {
    name: &'static str,
    has_port: bool,
    has_core: bool,
    is_attached: bool,
    act: fn(&mut Scene, &Control<Dying>),
}

const NOTHING: Case = Case {
    name: "nothing",
    has_port: false,
    has_core: false,
    is_attached: false,
    act: |_, _| {},
};

const CASES: [Case; 7] = [
    Case {
        name: "give the port up",
        has_port: true,
        act: |scene, control| {
            let port = scene.port.expect("a port");
            scene.victim().close_port(control, port);
            scene.victim().free_port(control, port);
        },
        ..NOTHING
    },
    Case {
        name: "depart with the port",
        has_port: true,
        act: depart,
        ..NOTHING
    },
    Case {
        name: "unbind the core",
        has_core: true,
        act: |scene, control| {
            let channel = scene.channel;
            scene.victim().unbind_core(control, channel);
        },
        ..NOTHING
    },
    Case {
        name: "attach",
        has_core: true,
        act: attach,
        ..NOTHING
    },
    Case {
        name: "detach",
        has_core: true,
        is_attached: true,
        act: detach,
        ..NOTHING
    },
    Case {
        name: "detach from a core that is unbound",
        has_core: true,
        is_attached: true,
        act: |scene, control| {
            let channel = scene.channel;
            scene.near.unbind_core(&scene.world.control, channel);
            detach(scene, control);
        },
        ..NOTHING
    },
    Case {
        name: "depart attached, with a port",
        has_port: true,
        has_core: true,
        is_attached: true,
        act: depart,
    },
];

fn attach(scene: &mut Scene, control: &Control<Dying>) {
    let channel = control.tables().channel(scene.channel).expect("a channel");
    scene
        .victim()
        .attach_core(control, &channel, 0)
        .expect("alone");
}

fn detach(scene: &mut Scene, control: &Control<Dying>) {
    let channel = scene.channel;
    scene.victim().detach_core(control, channel, 0);
}

fn depart(scene: &mut Scene, control: &Control<Dying>) {
    let victim = scene.victim.take().expect("it departs once");
    let departed = victim.depart(control, &scene.world.regions);
    departed.expect("departure");
}

/// Dies in front of store `first` of the case; and the recoverer, of the victim and of the core, in
/// front of its store `second`. Returns who died.
fn dies_twice(case: &Case, first: u32, second: u32, reverse: bool) -> [bool; 2] {
    let mut scene = Scene::new(case);
    let dying = scene.world.dying();
    dying.memory().fault.arm(first);
    let victim_died = until_death(|| (case.act)(&mut scene, &dying)).is_none();
    let (near, undertaker) = (scene.near.index(), scene.undertaker.recoverer());
    dying.memory().fault.arm(second);
    let living = [near, scene.undertaker.index()];
    let undertaker_died =
        until_death(|| scene.bury(undertaker, &dying, &living, reverse)).is_none();
    scene.bury(
        scene.near.recoverer(),
        &scene.world.control,
        &[near],
        reverse,
    );

    let context = format!(
        "{}: killed before store {first}, the recoverer before {second}, reverse: {reverse}",
        case.name
    );
    let left: Vec<_> = scene.world.control.tables().channels().collect();
    assert_eq!(left, [], "{context}");
    let Scene { world, near, .. } = scene;
    near.depart(&world.control, &world.regions)
        .expect("departure");
    world.check_empty(&context);
    [victim_died, undertaker_died]
}

#[test]
fn channel_goes_with_its_last_use_whoever_dies_over_it() {
    for case in &CASES {
        let mut deaths = [0, 0];
        for reverse in [false, true] {
            for first in 1.. {
                let sweep = || (1..).map(|second| dies_twice(case, first, second, reverse));
                let recoverers = sweep().take_while(|died| died[1]).count();
                deaths[1] += recoverers;
                if !dies_twice(case, first, u32::MAX, reverse)[0] {
                    break;
                }
                deaths[0] += 1;
            }
        }
        println!("{:36} {deaths:?} deaths", case.name);
        assert!(deaths[0] > 1 && deaths[1] > 50, "{}", case.name);
    }
}

/// `near` has the only port on the channel. The victim opens another, dies over it, and so does its
/// recoverer; `near` gives its own up in front of the first burial, or behind the last. Returns who
/// died.
fn half_open(first: u32, second: u32, near_goes_first: bool) -> [bool; 2] {
    let mut scene = Scene::new(&Case {
        name: "open",
        has_port: true,
        ..NOTHING
    });
    let (world, channel) = (&scene.world, scene.channel);
    let own = open(&world.control, &mut scene.near, channel);
    let (victim, port) = (
        scene.victim.as_mut().expect("it lives"),
        scene.port.expect("a port"),
    );
    victim.free_port(&world.control, port);
    let dying = world.dying();
    dying.memory().fault.arm(first);
    let victim_died = until_death(|| open(&dying, victim, channel)).is_none();
    if near_goes_first {
        scene.near.free_port(&world.control, own);
    }
    let near = scene.near.index();
    let living = [near, scene.undertaker.index()];
    let undertaker = scene.undertaker.recoverer();
    dying.memory().fault.arm(second);
    let undertaker_died = until_death(|| scene.bury(undertaker, &dying, &living, false)).is_none();
    scene.bury(scene.near.recoverer(), &scene.world.control, &[near], false);
    let context =
        format!("killed before store {first}, the recoverer before {second}: {near_goes_first}");
    let world = &scene.world;
    for index in (0..world::LIMITS.ports).filter(|&index| near_goes_first || index != own.0) {
        let at = world.control.layout().port(index as usize) + port::STATE;
        let state = world.control.memory().load_cell(at, Ordering::Acquire);
        assert_eq!(state & 0xFF, 0, "{context}: port {index} is taken");
    }
    if !near_goes_first {
        assert!(
            world.control.tables().find_channel("c").is_some(),
            "{context}"
        );
        scene.near.free_port(&world.control, own);
    }
    let left: Vec<_> = scene.world.control.tables().channels().collect();
    assert_eq!(left, [], "{context}");
    let Scene { world, near, .. } = scene;
    near.depart(&world.control, &world.regions)
        .expect("departure");
    world.check_empty(&context);
    [victim_died, undertaker_died]
}

#[test]
fn port_that_was_half_open_leaves_nothing() {
    for near_goes_first in [false, true] {
        let mut deaths = 0;
        for first in 1.. {
            let recoverers = (1..)
                .take_while(|&second| half_open(first, second, near_goes_first)[1])
                .count();
            assert!(recoverers > 5, "only {recoverers} recoverers");
            if !half_open(first, u32::MAX, near_goes_first)[0] {
                break;
            }
            deaths += 1;
        }
        assert!(deaths > 5, "only {deaths} deaths");
    }
}

/// Those who stay on a channel look at it again when a port of it, or its core, has gone: whoever
/// died before saying so, or while saying so for the dead.
#[test]
fn those_who_stay_are_told_whoever_dies() {
    for case in CASES.iter().filter(|case| !case.is_attached) {
        for first in 1.. {
            let mut victim_died = false;
            for second in 1.. {
                let mut scene = Scene::new(case);
                open(&scene.world.control, &mut scene.near, scene.channel);
                let told = scene.world.control.tables().channel_epoch(scene.channel);
                let dying = scene.world.dying();
                dying.memory().fault.arm(first);
                victim_died = until_death(|| (case.act)(&mut scene, &dying)).is_none();
                let near = scene.near.index();
                let living = [near, scene.undertaker.index()];
                let undertaker = scene.undertaker.recoverer();
                dying.memory().fault.arm(second);
                let lived = until_death(|| scene.bury(undertaker, &dying, &living, false));
                let told_by_then =
                    scene.world.control.tables().channel_epoch(scene.channel) != told;
                let recoverer = scene.near.recoverer();
                scene.bury(recoverer, &scene.world.control, &[near], false);
                let now = scene.world.control.tables().channel_epoch(scene.channel);
                assert!(
                    now != told,
                    "{}: {first}, {second}: {told_by_then}",
                    case.name
                );
                if lived.is_some() {
                    break;
                }
            }
            if !victim_died {
                break;
            }
        }
    }
}
