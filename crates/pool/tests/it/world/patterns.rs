//! The cases of request/reply and of events: ports of other kinds, connections both ways between
//! two of them, and the cell of a listener.

use hythe_pool::{
    ChannelKind, ChannelType, Control, Member, PortIndex, PortKind, PortPolicy, Regions,
};

use super::Dying;
use super::stage::{Act, Actor, Before, Case, Stage};

/// An event, as a bit of a listener's cell.
const EVENT: u64 = 1 << 7;

pub(crate) fn all() -> Vec<Case> {
    let cases: [(&'static str, Before, Act); 7] = [
        ("open request channel", |_| {}, open_request_channel),
        (
            "open client",
            |stage| meet(stage, PortKind::Client),
            open_another,
        ),
        (
            "connect for requests",
            |stage| meet(stage, PortKind::Client),
            connect,
        ),
        (
            "connect for replies",
            |stage| meet(stage, PortKind::Server),
            connect,
        ),
        (
            "open listener",
            |stage| meet(stage, PortKind::Listener),
            open_another,
        ),
        ("notify", near_sleeps, notify),
        ("take events", actor_is_notified, take_events),
    ];
    let case = |(name, before, act)| Case { name, before, act };
    cases.into_iter().map(case).collect()
}

/// A port of this kind here, and one that it meets at `near`, on a channel of their own.
fn meet(stage: &mut Stage, own: PortKind) {
    let near = match own {
        PortKind::Client => PortKind::Server,
        PortKind::Server => PortKind::Client,
        PortKind::Listener => PortKind::Notifier,
        _ => PortKind::Listener,
    };
    let control = &stage.world.control;
    let channel = stage
        .near
        .open_channel_of(control, own.channel_kind(), "meeting", None)
        .expect("channel");
    let open = |member: &mut Member, kind| {
        member
            .open_port(control, channel, kind, 4, PortPolicy::DropNewest)
            .expect("port")
    };
    let ports = (open(stage.actor.me(), own), open(&mut stage.near, near));
    stage.actor.ports = Some(ports);
}

fn near_sleeps(stage: &mut Stage) {
    meet(stage, PortKind::Notifier);
    let control = &stage.world.control;
    let _ticket = control
        .tables()
        .bell(stage.near.index())
        .lie_down(control.memory());
}

fn actor_is_notified(stage: &mut Stage) {
    meet(stage, PortKind::Listener);
    let control = &stage.world.control;
    let raised = control
        .tables()
        .events(ports(&stage.actor).0)
        .raise(control.memory(), EVENT);
    assert_eq!(raised, Ok(()));
}

fn ports(actor: &Actor) -> (PortIndex, PortIndex) {
    actor.ports.expect("ports that meet")
}

fn open_request_channel(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let carries = ChannelType {
        name: "question".to_owned(),
        bytes: 8,
        align: 8,
        version: 3,
    };
    let kind = ChannelKind::RequestReply;
    let opened = actor
        .me()
        .open_channel_of(control, kind, "new", Some(&carries));
    opened.expect("channel");
}

/// One more port of the kind that the actor has already.
fn open_another(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let known = control.tables().port(ports(actor).0).expect("open");
    let policy = PortPolicy::DropNewest;
    actor
        .me()
        .open_port(control, known.channel, known.kind, 8, policy)
        .expect("port");
}

fn connect(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let ((from, to), near) = (ports(actor), actor.near);
    actor
        .me()
        .connect(control, from, near, to, 64)
        .expect("connection");
}

fn notify(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let raised = control
        .tables()
        .events(ports(actor).1)
        .raise(control.memory(), EVENT);
    assert_eq!(raised, Ok(()));
    assert!(
        control.tables().bell(actor.near).ring(control.memory()),
        "near sleeps"
    );
}

fn take_events(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let taken = control
        .tables()
        .events(ports(actor).0)
        .take(control.memory());
    assert_eq!(taken, EVENT);
}
