//! What carries a session's flows: sockets past the kernel's protocols beside those of UDP, where
//! the agent says so, from the beginning of a flow on or later.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_node::RegionIndex;
use hythe_node::hop::{self, Doorbell};
use hythe_wire::Wire;

use super::Session;
use crate::message::{Carrier, FromProcess, WireUse};
use crate::socket::{FlowSocket, Uses};

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
    wire: WireUse,
    again: Instant,
    pause: Duration,
}

/// How a flow goes by `AF_XDP`.
#[derive(Clone, Copy, Debug, Default)]
struct Mode {
    is_zero_copy: bool,
    sends_from_slots: bool,
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
    /// Has the socket of a flow that is about to begin use those past the kernel's protocols, if
    /// they are to be had, and tells the agent.
    pub(super) fn add_wire(&self, flow: u32, socket: &mut FlowSocket, wire: WireUse) {
        let opened = socket.udp().and_then(|udp| self.open_wire(&wire, &udp));
        let became = match opened {
            Ok((opened, card, why)) => {
                socket.set_wire(Some((opened, card, uses_of(&wire))));
                Ok(why)
            }
            Err(error) => Err(error),
        };
        self.note_wire((flow, wire), mode_of(socket), became);
    }

    /// The agent has chosen another carrier for a flow.
    pub(super) fn carry(&self, number: u32, wire: Option<WireUse>) {
        self.lock().refused.remove(&number);
        self.change_carrier(number, wire);
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
            self.change_carrier(number, Some(wire));
        }
    }

    fn change_carrier(&self, number: u32, wire: Option<WireUse>) {
        if let Some(opened) = self.lock().opened.get_mut(&number) {
            opened.wire = wire;
            return;
        }
        if self.lock().connections.contains_key(&number) {
            return;
        }
        let (before, sending, receiving) = {
            let state = self.lock();
            let mut sending = state.sending.iter();
            let mut receiving = state.receiving.iter().map(|(flow, _)| flow);
            (
                state.wired.get(&number).cloned(),
                sending.find(|flow| flow.id.number == number).cloned(),
                receiving.find(|flow| flow.id.number == number).cloned(),
            )
        };
        // Each locks its flow, and nothing else.
        let with_socket = |work: &mut dyn FnMut(&mut FlowSocket)| match (&sending, &receiving) {
            (Some(flow), _) => flow.with_socket(work),
            (None, Some(flow)) => flow.with_socket(work),
            (None, None) => {}
        };
        let Some(wire) = wire else {
            with_socket(&mut |socket| socket.set_wire(None));
            self.let_go_of_wire(number);
            return self.say_carried(number, (Carrier::Udp, Mode::default()), "");
        };
        // Not by its number: who has asked again by itself has named another, of a program that was
        // gone by then.
        let is_there = |before: &WireUse| before.path == wire.path;
        let mut is_kept = before.as_ref().is_some_and(is_there);
        with_socket(&mut |socket| is_kept = is_kept && socket.keep_wire(uses_of(&wire)));
        if is_kept {
            self.lock().wired.insert(number, wire);
            return;
        }
        // What it has is of a program that is gone.
        with_socket(&mut |socket| socket.set_wire(None));
        self.let_go_of_wire(number);
        let mut udp = None;
        with_socket(&mut |socket| udp = Some(socket.udp()));
        let Some(udp) = udp else {
            return;
        };
        // Behind the lock: it waits.
        let mut opened = Some(udp.and_then(|udp| self.open_wire(&wire, &udp)));
        let (mut became, mut mode) = (Ok(String::new()), Mode::default());
        let mut doorbells = Ok(Vec::new());
        with_socket(&mut |socket| match opened.take() {
            Some(Ok((opened, card, why))) => {
                became = Ok(why);
                socket.set_wire(Some((opened, card, uses_of(&wire))));
                mode = mode_of(socket);
                if receiving.is_some() {
                    doorbells = self.doorbells_of_wire(socket);
                }
            }
            Some(Err(error)) => became = Err(error),
            None => {}
        });
        match doorbells {
            Ok(doorbells) => {
                let mut state = self.lock();
                let mut ends = state.receiving.iter_mut();
                if let Some((_, all)) = ends.find(|(end, _)| end.id.number == number) {
                    all.extend(doorbells);
                }
            }
            // Nobody would be woken by it.
            Err(error) => {
                with_socket(&mut |socket| socket.set_wire(None));
                became = Err(error);
            }
        }
        self.note_wire((number, wire), mode, became);
    }

    /// Asks for sockets, and for sending from a region of the pool by them.
    fn open_wire(&self, wire: &WireUse, udp: &UdpSocket) -> io::Result<OpenedWire> {
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

    fn note_wire(&self, (flow, wire): (u32, WireUse), mode: Mode, became: io::Result<String>) {
        match became {
            Ok(why_copied) => {
                let mut state = self.lock();
                state.refused.remove(&flow);
                state.wired.insert(flow, wire);
                drop(state);
                self.say_carried(flow, (Carrier::Xdp, mode), &why_copied);
            }
            Err(error) => {
                let reason = format!("{}: {error}", wire.path);
                // Once: the agent measures the link again when it hears of it.
                if self.note_refused(flow, wire) {
                    self.say_carried(flow, (Carrier::Udp, Mode::default()), &reason);
                }
            }
        }
    }

    /// False: it was refused before, and asked for again.
    fn note_refused(&self, flow: u32, wire: WireUse) -> bool {
        let mut state = self.lock();
        let before = state.refused.get(&flow).map(|before| before.pause);
        let pause = before.map_or(ASK_AGAIN, |pause| (pause * 2).min(ASK_AGAIN_MAX));
        let again = Instant::now() + pause;
        state.refused.insert(flow, Refused { wire, again, pause });
        before.is_none()
    }

    pub(super) fn doorbells(&self, socket: &FlowSocket) -> io::Result<Vec<Arc<Doorbell>>> {
        let of_udp = self
            .participant
            .doorbells()
            .add_file(socket.descriptor()?)?;
        let mut doorbells = vec![of_udp];
        doorbells.extend(self.doorbells_of_wire(socket)?);
        Ok(doorbells)
    }

    fn doorbells_of_wire(&self, socket: &FlowSocket) -> io::Result<Vec<Arc<Doorbell>>> {
        let files = socket.wire_descriptors()?.into_iter();
        let doorbells = self.participant.doorbells();
        files.map(|file| doorbells.add_file(file)).collect()
    }

    /// Lets go of what is left of a wire that has ended, and tells the agent.
    pub(super) fn note_end_of_wire(&self, flow: u32) {
        if self.let_go_of_wire(flow) {
            let reason = "the program at the interface has ended";
            self.say_carried(flow, (Carrier::Udp, Mode::default()), reason);
        }
    }

    /// False: it had none.
    fn let_go_of_wire(&self, flow: u32) -> bool {
        let mut state = self.lock();
        if state.wired.remove(&flow).is_none() {
            return false;
        }
        let mut ends = state.receiving.iter_mut();
        let doorbells = ends
            .find(|(end, _)| end.id.number == flow)
            .map(|(_, doorbells)| doorbells.split_off(1));
        // Behind the lock: they take one of their own.
        drop(state);
        drop(doorbells);
        true
    }

    fn say_carried(&self, flow: u32, (carrier, mode): (Carrier, Mode), reason: &str) {
        self.tell(&FromProcess::Carried {
            flow,
            carrier,
            is_zero_copy: mode.is_zero_copy,
            sends_from_slots: mode.sends_from_slots,
            reason: reason.chars().take(200).collect(),
        });
    }
}

/// For people.
fn nobody_serves() -> io::Error {
    let reason = "no `hythe host wire` serves its interface";
    io::Error::new(io::ErrorKind::NotFound, reason)
}

fn mode_of(socket: &FlowSocket) -> Mode {
    Mode {
        is_zero_copy: socket.is_zero_copy(),
        sends_from_slots: socket.card().is_some(),
    }
}

const fn uses_of(wire: &WireUse) -> Uses {
    Uses {
        short: wire.short,
        long: wire.long,
    }
}
