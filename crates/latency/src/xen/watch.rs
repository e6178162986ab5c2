//! The emulator's log while it runs: read from a pipe, counted line by line, and made longer or
//! shorter over its monitor.
//!
//! The log is gigabytes where it tells of blocks, so it goes to no file. QEMU writes each line by a
//! call of its own: a reader that wakes up for each would take longer than the emulator. So this
//! one sleeps between two looks, and finds thousands.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use super::emulator_log::Line;
use super::exits::{self, Exits};
use super::guest_cpu_instructions::{self, GuestCpuInstructions, Wish};
use super::programs::{QEMU, STARTER};
use crate::LatencyError;

/// What QEMU is started with.
pub(super) const ALWAYS: &str = "int,trace:pl011_write";
/// What Linux lets anybody have of a pipe.
const PIPE_BYTES: usize = 1 << 20;
/// As long as QEMU takes to fill a sixth of it, at a microsecond for a line.
const NAP: Duration = Duration::from_millis(2);
/// What is kept of what QEMU says besides: enough for why it ended.
const SAID_BYTES_MAX: usize = 2000;

/// What the log told.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) exits: BTreeMap<u8, Exits>,
    /// None if nothing was wanted.
    pub(super) guest_cpu_instructions: BTreeMap<u8, GuestCpuInstructions>,
}

/// Reads to the end of the log, which is that of QEMU. `said` is given what QEMU said that is no
/// line of the log.
pub(super) fn watch(
    log: impl Read + std::os::fd::AsFd,
    mut monitor: impl Write,
    wanted: u64,
    said: &mut String,
) -> Result<Watched, LatencyError> {
    // A smaller one serves, too: the emulator waits more often.
    let _ = rustix::pipe::fcntl_setpipe_size(&log, PIPE_BYTES);
    let mut log = BufReader::with_capacity(PIPE_BYTES, Unhurried(log));
    let mut exits = exits::Counter::default();
    let mut guest_cpu_instructions =
        (wanted > 0).then(|| guest_cpu_instructions::Counter::new(wanted));
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let count = log
            .read_until(b'\n', &mut bytes)
            .map_err(LatencyError::file("read", "QEMU's log"))?;
        if count == 0 {
            break;
        }
        let text = str::from_utf8(&bytes).unwrap_or_default();
        let line = Line::read(text.trim_end());
        exits.line(line);
        let wish = guest_cpu_instructions
            .as_mut()
            .and_then(|counter| counter.line(line));
        if let Some(wish) = wish {
            // If it is not obeyed, too few samples are counted, which is told then.
            let _ = monitor
                .write_all(command(wish).as_bytes())
                .and_then(|()| monitor.flush());
        }
        let is_said = SPEAKERS.iter().any(|speaker| text.starts_with(speaker));
        if line == Line::Other && is_said && said.len() < SAID_BYTES_MAX {
            said.push_str(text);
        }
    }
    Ok(Watched {
        exits: exits.finish(),
        guest_cpu_instructions: guest_cpu_instructions
            .map(guest_cpu_instructions::Counter::finish)
            .transpose()?
            .unwrap_or_default(),
    })
}

/// What stands in front of what programs say of themselves.
const SPEAKERS: [&str; 2] = [QEMU.program, STARTER.program];

fn command(wish: Wish) -> String {
    match wish {
        Wish::LogBlocks => format!("log exec,nochain,in_asm,{ALWAYS}\n"),
        Wish::LogNoBlocks => format!("log {ALWAYS}\n"),
    }
}

/// Lets a pipe fill before it is read.
struct Unhurried<R>(R);

impl<R: Read> Read for Unhurried<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(NAP);
        self.0.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as they come through a pipe, with their ends; more than it holds at once.
    #[test]
    fn watch_counts_pipe_input_and_asks_monitor() {
        const SAMPLE: &str = "\
pl011_write addr 0x00000000 value 0x00000043
Taking exception 1 [Undefined Instruction] on CPU 1
...from EL1 to EL2
...with ESR 0x18/0x623a3016
...with ELR 0x40080108
...to EL2 PC 0x259400 PSTATE 0x3c9
Trace 1: 0x7f0020 [0000000000000000/0000000040080100/00000061/ff020200] 
pl011_write addr 0x00000000 value 0x00000063
";
        const LISTING: &str = "\
IN: 
0x40080100:  d503201f  nop      
0x40080104:  d503201f  nop      

";
        const SAMPLES: u64 = 4000;
        let (log, mut qemu) = std::io::pipe().expect("a pipe");
        let writing = std::thread::spawn(move || {
            let lines = LISTING.to_owned() + &SAMPLE.repeat(SAMPLES as usize);
            qemu.write_all(lines.as_bytes()).expect("it is read");
            let said = "...nonsense \u{fffd}\nqemu-system-aarch64: terminating\n";
            qemu.write_all(said.as_bytes()).expect("it is read");
        });
        let (mut monitor, mut said) = (Vec::new(), String::new());
        let watched = watch(log, &mut monitor, 2000, &mut said).expect("good");
        writing.join().expect("it wrote");
        let exits = Exits {
            samples: SAMPLES,
            exits: SAMPLES,
        };
        assert_eq!(watched.exits, BTreeMap::from([(b'C', exits)]));
        let own = &watched.guest_cpu_instructions[&b'C'];
        assert_eq!((own.instructions.len(), own.instructions.max()), (2000, 2));
        assert_eq!((own.first, own.by_exits[&1].len()), (1001, 2000));
        let asked = "log exec,nochain,in_asm,int,trace:pl011_write\nlog int,trace:pl011_write\n";
        assert_eq!(String::from_utf8_lossy(&monitor), asked);
        assert_eq!(said, "qemu-system-aarch64: terminating\n");
    }
}
