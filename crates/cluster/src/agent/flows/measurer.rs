//! Measures the link of a session, and chooses what carries its flows.
//!
//! One thread for each session whose link both users trust. It answers the other side when that
//! measures, and measures itself where the user has forced no carrier. No flow waits for it: until
//! there is a choice they go by UDP, and a later one reaches flows that are there.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hythe_flows::measure::{Cause, NotMeasured, Prober, Schedule};
use hythe_flows::message::{Carrier, Transport};
use hythe_node::monotonic_ns;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::netdevice;

use super::link::mtu_of;
use super::measuring::Turn;
use super::{FlowSession, Link};
use crate::agent::lock::lock;
use crate::agent::random::random;
use crate::frame::Control;
use crate::{ConnectionPath, HostName};

/// Looks so often whether the link has changed.
const LOOK: Duration = Duration::from_millis(500);
/// Of two hosts that meet, the one whose name is less measures first; the other waits so long.
const SECOND: Duration = Duration::from_millis(1500);
/// Where the other side, or another link of this host, is being measured.
const BUSY: Duration = Duration::from_millis(300);

/// What a link is known by: another one is measured anew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    place: Place,
    mtu_bytes: u16,
    served: Option<(PathBuf, u64)>,
}

/// Where a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: ConnectionPath,
    interface: Option<String>,
    index: u32,
}

impl Known {
    /// That of a link over which packets may go.
    fn now(link: &Link) -> Option<Self> {
        let (path, interface) = (link.path_for(Transport::Packets).ok()?, link.interface());
        let mtu_bytes = mtu_of(path, interface.as_deref()).ok()?;
        let socket = UdpSocket::bind((path.local, 0)).ok()?;
        let index = interface
            .as_deref()
            .map(|name| netdevice::name_to_index(&socket, name));
        Some(Self {
            mtu_bytes,
            served: link.served(),
            place: Place {
                path,
                interface,
                index: index.and_then(Result::ok).unwrap_or(0),
            },
        })
    }
}

/// Until the session is over.
pub(crate) fn measure_link(host: &HostName, turn: &Turn, session: &dyn FlowSession) {
    let opened = session.measuring().open_bell();
    let result = opened.and_then(|bell| {
        let mut measurer = Measurer {
            host,
            turn,
            session,
            end: None,
            there: None,
            schedule: Schedule::default(),
            not_before: Instant::now(),
        };
        measurer.follow(&bell)
    });
    if let Err(error) = result {
        tracing::warn!(%error, "a link is not measured any more");
        lock(&session.measuring().shown).trouble = error.to_string();
    }
}

/// The thread's own.
struct Measurer<'a> {
    host: &'a HostName,
    turn: &'a Turn,
    session: &'a dyn FlowSession,
    end: Option<(Place, Prober)>,
    there: Option<(u16, u64)>,
    schedule: Schedule<Known>,
    not_before: Instant,
}

impl Measurer<'_> {
    fn place(&self) -> Option<&Place> {
        self.end.as_ref().map(|(place, _)| place)
    }

    fn follow(&mut self, bell: &OwnedFd) -> std::io::Result<()> {
        while !self.session.is_over() {
            match rustix::io::read(bell, &mut [0; 8]) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let known = Known::now(self.session.link());
            if known.as_ref().map(|known| &known.place) != self.place() {
                self.end = None;
            }
            match known {
                Some(known) => self.turn(known, bell)?,
                None => {
                    let mut files = [PollFd::new(bell, PollFlags::IN)];
                    hythe_sys::wait::poll_or_sleep(&mut files, LOOK)?;
                }
            }
        }
        Ok(())
    }

    /// Measures, if it is time, and answers for a while.
    fn turn(&mut self, known: Known, bell: &OwnedFd) -> std::io::Result<()> {
        let measuring = self.session.measuring();
        let is_new = self.end.is_none();
        let peer = known.place.path.peer;
        let (_, prober) = match self.end.take() {
            Some(end) => self.end.insert(end),
            None => {
                let opened = self.open(&known)?;
                self.end.insert((known.place.clone(), opened))
            }
        };
        prober.set_mtu(known.mtu_bytes);
        let is_told = lock(&measuring.there).take();
        let mut is_met = false;
        self.there = is_told.or(self.there);
        if let Some((port, word)) = self.there
            && (is_new || is_told.is_some())
        {
            prober.meet(SocketAddr::new(peer, port), word)?;
            is_met = true;
        }
        if is_met {
            self.not_before = Instant::now() + self.pause();
        }
        if measuring.has_trouble.swap(false, Ordering::AcqRel) {
            self.schedule.note_trouble();
        }
        let is_forced = self.session.link().forced().is_some();
        if self.there.is_some()
            && !is_forced
            && Instant::now() >= self.not_before
            && let Some(cause) = self.schedule.due(monotonic_ns(), &known)
        {
            self.measure(known.clone(), cause);
        }
        let Some((_, prober)) = &mut self.end else {
            return Ok(());
        };
        let may_use = self.session.link().forced() != Some(Carrier::Udp);
        let path = known.served.filter(|_| may_use).map(|(path, _)| path);
        let left = self.not_before.saturating_duration_since(Instant::now());
        let timeout = match left.is_zero() {
            true => LOOK,
            false => left.min(LOOK),
        };
        prober.answer(bell.as_fd(), path.as_deref(), timeout)
    }

    /// So that both do not begin at once.
    fn pause(&self) -> Duration {
        match self.host.as_str() < self.session.host() {
            true => Duration::ZERO,
            false => SECOND,
        }
    }

    fn open(&self, known: &Known) -> std::io::Result<Prober> {
        let word = random().map_err(|error| std::io::Error::other(error.to_string()))?;
        let at = (known.place.path.local, known.place.interface.as_deref());
        let prober = Prober::open(at, known.mtu_bytes, word)?;
        let udp_port = prober.port()?;
        self.session.say(Control::MeasureAt { udp_port, word });
        Ok(prober)
    }

    fn measure(&mut self, known: Known, cause: Cause) {
        let Some(turn) = self.turn.take() else {
            self.not_before = Instant::now() + BUSY;
            return;
        };
        let Some((_, prober)) = &mut self.end else {
            return;
        };
        let served = match &known.served {
            Some((path, _)) => Ok(path.clone()),
            None => {
                let interface = known.place.interface.as_deref().unwrap_or("its interface");
                Err(format!("no `hythe host wire` serves {interface}"))
            }
        };
        let is_served = served.is_ok();
        let (start, before) = (Instant::now(), prober.spent());
        let result = prober.measure(served);
        let bytes = prober.spent() - before;
        drop(turn);
        let (link, measuring) = (self.session.link(), self.session.measuring());
        let mut shown = lock(&measuring.shown);
        shown.count += 1;
        shown.bytes += bytes;
        shown.took += start.elapsed();
        match result {
            Ok(measured) => {
                let is_known = measured.udp.round_trip_ns.is_some();
                let is_enough = measured.is_whole() || (is_known && !is_served);
                let new_choice = shown.conclude(link, measured, cause);
                drop(shown);
                self.schedule.measured(monotonic_ns(), known, is_enough);
                if let Some(choice) = new_choice {
                    tracing::info!(?choice, %cause, "carriers of a link are chosen");
                    self.session.note_change();
                }
            }
            Err(NotMeasured::Busy) => {
                drop(shown);
                self.not_before = Instant::now() + self.pause() + BUSY;
            }
            Err(NotMeasured::Silent) => {
                shown.trouble = NotMeasured::Silent.to_string();
                drop(shown);
                self.schedule.measured(monotonic_ns(), known, false);
            }
        }
    }
}
