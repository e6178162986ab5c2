//! Both senders of calls, each measured over the same time.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe_media::voice::{Calls, Prompt, VoiceSender};
use hythe_rtp::Identity;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_sys::scheduling::enter_fifo;
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::super::case::System;
use super::super::packets::HEADER_BYTES;
use super::super::{monotonic_ns, nanoseconds};
use super::{
    CallCase, INTERVAL_NS, PACKET_BYTES, PACKET_SAMPLES, PAYLOAD_TYPE, PRIORITY, Paced, TEETH,
    TOOTH_NS, port, prompt, said,
};
use crate::error::BenchError;
use crate::statistics::{encode, histogram, record};

const VERSION_2: u8 = 0x80;
/// Talk begins (RFC 3551, 4.1).
const MARKER: u8 = 0x80;

/// Sends for as long as the case says.
pub(in super::super) fn run(case: CallCase, to: IpAddr) -> Result<Paced, BenchError> {
    // A thread of its own: its timers become precise and its priority is raised, and both stay so.
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            if let Some(priority) = case.priority {
                enter_fifo(priority.into())?;
            }
            match case.system {
                System::Hythe => product(case, to),
                System::Sendto => plain(case, to),
                other => Err(BenchError::WrongUse(format!("{other} sends no calls"))),
            }
        });
        sending
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Would a thread be given [`PRIORITY`]?
pub(in super::super) fn try_priority() -> std::io::Result<()> {
    std::thread::scope(|scope| {
        let trying = scope.spawn(|| enter_fifo(PRIORITY.into()));
        trying
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn product(case: CallCase, to: IpAddr) -> Result<Paced, BenchError> {
    let format = StreamFormat {
        encoding: Encoding::Pcmu,
        payload_type: PAYLOAD_TYPE,
        clock_hz: 8_000,
        channels: 1,
        parameters: String::new(),
    };
    let Some(prompt) = Prompt::new(&format, prompt()) else {
        return Err(BenchError::Invalid("the prompt is refused".to_owned()));
    };
    let mut calls = Calls::new(case.calls.into());
    for call in 0..case.calls {
        let identity = Identity {
            ssrc: call.into(),
            sequence: 0,
            ..Identity::seeded(call.into())
        };
        calls.add(SocketAddr::new(to, port(call)), &prompt, &identity)?;
    }
    let mut sender = VoiceSender::new(calls)?;
    let (elapsed, cpu_ns) = measure(|| {
        for _ in 0..case.turns() {
            sender.turn();
        }
    });
    let statistics = sender.statistics();
    Ok(Paced {
        elapsed_ns: elapsed.as_nanos() as u64,
        cpu_ns,
        packets: statistics.packets,
        unsent: statistics.unsent,
        reports: statistics.reports,
        stalls: statistics.stalls,
        spacing: encode(std::slice::from_ref(&statistics.spacing_errors))?,
    })
}

fn plain(case: CallCase, to: IpAddr) -> Result<Paced, BenchError> {
    // As precise as the product's: what differs is the sending.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut caller = Plain {
        socket: UdpSocket::bind("0.0.0.0:0")?,
        to,
        prompt: prompt(),
        sent_ns: vec![0; case.calls.into()],
        packets: 0,
        unsent: 0,
        stalls: 0,
        is_late: false,
        spacing: histogram(),
    };
    let (elapsed, cpu_ns) = measure(|| {
        let start_ns = monotonic_ns();
        for turn in 0..case.turns() {
            caller.turn(start_ns, turn, case.calls);
        }
    });
    Ok(Paced {
        elapsed_ns: elapsed.as_nanos() as u64,
        cpu_ns,
        packets: caller.packets,
        unsent: caller.unsent,
        reports: 0,
        stalls: caller.stalls,
        spacing: encode(&[caller.spacing])?,
    })
}

/// A loop as anybody writes it.
#[derive(Debug)]
struct Plain {
    socket: UdpSocket,
    to: IpAddr,
    prompt: Vec<u8>,
    /// Of each call, the last packet; 0: there was none.
    sent_ns: Vec<u64>,
    packets: u64,
    unsent: u64,
    stalls: u64,
    /// By more than a packet lasts.
    is_late: bool,
    spacing: Histogram<u64>,
}

impl Plain {
    fn turn(&mut self, start_ns: u64, turn: u64, calls: u16) {
        let due_ns = start_ns + turn * TOOTH_NS;
        sleep_until(due_ns);
        // One reading for all that are due, as the product does: neither pays more for being
        // measured.
        let now_ns = monotonic_ns();
        let was_late = std::mem::replace(&mut self.is_late, now_ns - due_ns > INTERVAL_NS);
        self.stalls += u64::from(self.is_late && !was_late);
        let number = turn / TEETH;
        let first = (turn % TEETH) as u16;
        for call in (first..calls).step_by(TEETH as usize) {
            let packet = packet(call, number, said(&self.prompt, number));
            let address = SocketAddr::new(self.to, port(call));
            if self.socket.send_to(&packet, address).is_err() {
                self.unsent += 1;
                continue;
            }
            self.packets += 1;
            let before_ns = std::mem::replace(&mut self.sent_ns[usize::from(call)], now_ns);
            if before_ns != 0 {
                let error_ns = (now_ns - before_ns).abs_diff(INTERVAL_NS);
                record(&mut self.spacing, Duration::from_nanos(error_ns));
            }
        }
    }
}

fn packet(call: u16, number: u64, said: &[u8]) -> [u8; PACKET_BYTES as usize] {
    let mut made = [0; PACKET_BYTES as usize];
    made[0] = VERSION_2;
    made[1] = PAYLOAD_TYPE | if number == 0 { MARKER } else { 0 };
    made[2..4].copy_from_slice(&(number as u16).to_be_bytes());
    let time = (number * PACKET_SAMPLES as u64) as u32;
    made[4..8].copy_from_slice(&time.to_be_bytes());
    made[8..HEADER_BYTES].copy_from_slice(&u32::from(call).to_be_bytes());
    made[HEADER_BYTES..].copy_from_slice(said);
    made
}

fn sleep_until(due_ns: u64) {
    let due = Timespec {
        tv_sec: (due_ns / 1_000_000_000) as i64,
        tv_nsec: (due_ns % 1_000_000_000) as i64,
    };
    let clock = rustix::thread::ClockId::Monotonic;
    // Interrupted: on.
    while monotonic_ns() < due_ns && clock_nanosleep_absolute(clock, &due) == Err(Errno::INTR) {}
}

/// How long it took, and how much of a CPU.
fn measure(work: impl FnOnce()) -> (Duration, u64) {
    let cpu_ns = || nanoseconds(clock_gettime(ClockId::ProcessCPUTime));
    let (began, cpu) = (Instant::now(), cpu_ns());
    work();
    (began.elapsed(), cpu_ns() - cpu)
}
