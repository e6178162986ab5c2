//! `AF_XDP` sockets for the frames of a session's flows, where the agent says which program has
//! some: from the beginning of a flow on or later.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_node::RegionIndex;
use hythe_node::hop::{self, Doorbell};
use hythe_wire::Wire;

use super::Session;
use crate::frames::FrameSocket;
use crate::message::{FramesUse, FromProcess, WirePlace};

/// The answer of the program that serves the interface is waited for so long: it may have to wait
/// for the kernel to let go of a queue.
const WIRE_BOUND: Duration = Duration::from_secs(1);
/// One that has not answered is not asked again for so long: each of many flows would have the
/// session's thread wait as long.
const SILENCE: Duration = Duration::from_secs(10);

/// Sockets that were refused are asked for again after so long, and each time after twice as long,
/// up to the second: whoever has them may let go.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const ASK_AGAIN_MAX: Duration = Duration::from_secs(64);

/// Sockets that a flow did not get.
#[derive(Debug)]
pub(super) struct Refused {
    wire: WirePlace,
    again: Instant,
    pause: Duration,
}

/// Sockets, the region of which they send, and why there is none: for people.
type OpenedWire = (Wire, Option<RegionIndex>, String);

/// A program that has not answered.
#[derive(Debug)]
pub(super) struct Silent {
    path: String,
    instance: u64,
    since: Instant,
}

impl Session {
    /// The agent has named another program for a flow, or none.
    pub(super) fn carry(&self, number: u32, wire: Option<WirePlace>) {
        self.lock().refused.remove(&number);
        self.change_wire(number, wire);
    }

    /// Asks again for sockets that a flow did not get, if that is due: for one flow, since it may
    /// wait.
    pub(super) fn ask_again(&self) {
        let due = {
            let mut state = self.lock();
            let now = Instant::now();
            let mut refused = state.refused.iter_mut();
            let due = refused.find(|(_, refused)| now >= refused.again);
            due.map(|(number, refused)| {
                refused.again = now + refused.pause;
                (*number, refused.wire.clone())
            })
        };
        if let Some((number, wire)) = due {
            self.change_wire(number, Some(wire));
        }
    }

    fn change_wire(&self, number: u32, wire: Option<WirePlace>) {
        let (before, sending, receiving) = {
            let mut state = self.lock();
            // One that has not begun gets its sockets then.
            if let Some(opened) = state.opened.get_mut(&number) {
                opened.wire = wire;
                return;
            }
            let connection = state.connections.get_mut(&number);
            if let Some(connection) = connection.filter(|connection| connection.is_first()) {
                connection.wire = wire;
                return;
            }
            let mut sending = state.sending.iter();
            let mut receiving = state.receiving.iter().map(|end| &end.flow);
            (
                state.wired.get(&number).cloned(),
                sending.find(|flow| flow.id.number == number).cloned(),
                receiving.find(|flow| flow.id.number == number).cloned(),
            )
        };
        // Each locks its flow, and nothing else.
        let with_frames = |work: &mut dyn FnMut(&mut FrameSocket)| match (&sending, &receiving) {
            (Some(flow), _) => flow.with_frames(work),
            (None, Some(flow)) => flow.with_frames(work),
            (None, None) => {}
        };
        let Some(wire) = wire else {
            with_frames(&mut |frames| frames.set_wire(None));
            self.let_go_of_wire(number);
            return self.say_carried(number, None, "");
        };
        // Not by its number: a process that has asked again by itself has named another, of a
        // program that was gone by then.
        let is_there = before.as_ref().is_some_and(|it| it.path == wire.path);
        let mut is_kept = false;
        with_frames(&mut |frames| is_kept = is_there && frames.is_served());
        if is_kept {
            self.lock().wired.insert(number, wire);
            return;
        }
        // What it has is of a program that is gone.
        with_frames(&mut |frames| frames.set_wire(None));
        self.let_go_of_wire(number);
        let mut udp = None;
        with_frames(&mut |frames| udp = Some(frames.udp()));
        let Some(udp) = udp else {
            return self.say_carried(number, None, "the other end has no socket for frames");
        };
        // Behind the lock: it waits.
        let opened = udp.and_then(|udp| self.open_wire(&wire, &udp));
        let became = opened.and_then(|(opened, region, why)| {
            let (mut opened, mut used, mut files) = (Some(opened), None, Ok(Vec::new()));
            with_frames(&mut |frames| {
                frames.set_wire(opened.take().map(|opened| (opened, region)));
                used = Some(use_of(frames));
                files = frames.descriptors();
            });
            // A flow that has ended meanwhile uses none.
            let used = used.ok_or(io::ErrorKind::NotConnected)?;
            if receiving.is_some() {
                self.add_doorbells(number, files?)?;
            }
            Ok((used, why))
        });
        if became.is_err() {
            // Nobody would be woken by them.
            with_frames(&mut |frames| frames.set_wire(None));
        }
        self.note_wire((number, wire), became);
    }

    /// Has these wake the port of a subscriber's flow.
    fn add_doorbells(&self, number: u32, files: Vec<OwnedFd>) -> io::Result<()> {
        let doorbells = self.participant.doorbells();
        let added: io::Result<Vec<Arc<Doorbell>>> = files
            .into_iter()
            .map(|file| doorbells.add_file(file))
            .collect();
        let added = added?;
        let mut state = self.lock();
        let mut ends = state.receiving.iter_mut();
        if let Some(end) = ends.find(|end| end.flow.id.number == number) {
            end.wire = added;
        }
        Ok(())
    }

    /// Asks for sockets, and for sending from a region of the pool by them.
    fn open_wire(&self, wire: &WirePlace, udp: &UdpSocket) -> io::Result<OpenedWire> {
        let is_it = |silent: &Silent| {
            (&silent.path, silent.instance) == (&wire.path, wire.instance)
                && silent.since.elapsed() < SILENCE
        };
        if self.lock().silent.as_ref().is_some_and(is_it) {
            return Err(io::Error::other("it has not answered another flow"));
        }
        let path = Path::new(&wire.path);
        if !path.exists() {
            return Err(nobody_serves());
        }
        // Those that only receive offer it, too: the first of a pool has it registered for all.
        let card = hop::card_region(&self.participant);
        let slots = card.as_ref().ok();
        let slots = slots.map(|card| (card.file.as_fd(), card.bytes));
        let opened = Wire::connect(path, udp, slots, WIRE_BOUND);
        let opened = opened.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => {
                self.lock().silent = Some(Silent {
                    path: wire.path.clone(),
                    instance: wire.instance,
                    since: Instant::now(),
                });
                error
            }
            // It has just ended.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => nobody_serves(),
            _ => error,
        })?;
        Ok(match card {
            Ok(card) if opened.sends_from_slots() => (opened, Some(card.index), String::new()),
            Ok(_) => {
                let why = format!("payload is copied: {}", opened.copies_because());
                (opened, None, why)
            }
            Err(error) => (opened, None, format!("payload is copied: {error}")),
        })
    }

    fn note_wire(&self, (flow, wire): (u32, WirePlace), became: io::Result<(FramesUse, String)>) {
        match became {
            Ok((used, why_copied)) => {
                let mut state = self.lock();
                state.refused.remove(&flow);
                state.wired.insert(flow, wire);
                drop(state);
                self.say_carried(flow, Some(used), &why_copied);
            }
            Err(error) => {
                let reason = format!("{}: {error}", wire.path);
                if self.note_refused(flow, wire) {
                    self.say_carried(flow, None, &reason);
                }
            }
        }
    }

    /// False: it was refused before, and asked for again.
    fn note_refused(&self, flow: u32, wire: WirePlace) -> bool {
        let mut state = self.lock();
        let before = state.refused.get(&flow).map(|before| before.pause);
        let pause = before.map_or(ASK_AGAIN, |pause| (pause * 2).min(ASK_AGAIN_MAX));
        let again = Instant::now() + pause;
        state.refused.insert(flow, Refused { wire, again, pause });
        before.is_none()
    }

    /// Lets go of what is left of a wire that has ended, and tells the agent.
    pub(super) fn note_end_of_wire(&self, flow: u32) {
        if self.let_go_of_wire(flow) {
            self.say_carried(flow, None, "the program at the interface has ended");
        }
    }

    /// False: it had none.
    fn let_go_of_wire(&self, flow: u32) -> bool {
        let mut state = self.lock();
        if state.wired.remove(&flow).is_none() {
            return false;
        }
        let mut ends = state.receiving.iter_mut();
        let end = ends.find(|end| end.flow.id.number == flow);
        let doorbells = end.map(|end| std::mem::take(&mut end.wire));
        // Behind the lock: they take one of their own.
        drop(state);
        drop(doorbells);
        true
    }

    fn say_carried(&self, flow: u32, frames: Option<FramesUse>, reason: &str) {
        self.tell(&FromProcess::Carried {
            flow,
            frames,
            reason: reason.chars().take(200).collect(),
        });
    }
}

/// For people.
fn nobody_serves() -> io::Error {
    let reason = "no `hythe host wire` serves its interface";
    io::Error::new(io::ErrorKind::NotFound, reason)
}

fn use_of(frames: &FrameSocket) -> FramesUse {
    FramesUse {
        sends_from_slots: frames.region().is_some(),
    }
}
