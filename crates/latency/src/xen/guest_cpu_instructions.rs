//! How many instructions the core's own CPU executed in a sample, whatever the emulator ran in
//! between: from its log of blocks.
//!
//! Where instructions are counted, the CPUs run in turns, and a clock counts the turns of both.
//! QEMU's log tells of each block that begins (`exec`), on which CPU, and how many instructions are
//! in it when it is made (`in_asm`); nothing is chained past the log (`nochain`). What stands
//! between the two edges of a sample are then the core's instructions and those of Xen on its CPU:
//! every sample can be judged, also one in which the other CPU had a turn. Such a log has a line
//! for every three instructions, so it is switched on when the core begins to measure, and off when
//! enough samples of a measure have been counted. Counts line by line; never reads or waits.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use hdrhistogram::Histogram;

use super::CPUS_MAX;
use super::device_tree::GUEST_SEES;
use super::emulator_log::{Block, Line};
use crate::LatencyError;

/// Where Xen 4.17 is on Arm, as it sees itself: `XEN_VIRT_START`, and the size reserved for it.
const XEN: Range<u64> = 0x20_0000..0x40_0000;
/// The first sample of a measure that is counted. The log is asked for with the first one of all,
/// and QEMU obeys when it comes to it: within 160 samples, as was seen on a busy machine. What it
/// took longer is left out, and is in [`GuestCpuInstructions::first`].
const FIRST: u64 = 1001;
/// Fewer are no 99.9 %.
const FEWEST: u64 = 1000;
/// Instructions are four bytes.
const INSTRUCTION_BYTES: u64 = 4;

/// What was counted of a measure.
#[derive(Clone, Debug)]
pub struct GuestCpuInstructions {
    /// Instructions of each sample.
    pub instructions: Histogram<u64>,
    /// Of the same samples, by how often they left the guest (EL1) for the hypervisor (EL2).
    pub by_exits: BTreeMap<u64, Histogram<u64>>,
    /// Which sample of the measure was the first that was counted; from 1.
    pub first: u64,
    /// Samples in which another CPU had a turn.
    pub with_a_turn: u64,
    /// What the core's CPU executed from the first sample to the last, and how many interrupts it
    /// took at EL2 meanwhile.
    pub executed: u64,
    /// See `executed`.
    pub interrupts: u64,
}

/// What the emulator is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    LogBlocks,
    LogNoBlocks,
}

/// Which addresses are in the log.
pub(super) fn filter() -> String {
    let range = |range: Range<u64>| format!("{:#x}+{:#x}", range.start, range.end - range.start);
    format!("{},{}", range(GUEST_SEES), range(XEN))
}

/// Is the log of blocks on?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    Off,
    /// It was asked for. Since the last beginning of a sample: did blocks come, all of them known?
    Asked {
        blocks: bool,
        all_known: bool,
    },
    On,
    /// It was asked to end. Since the last beginning of a sample: did blocks come?
    Ending {
        blocks: bool,
    },
}

pub(super) struct Counter {
    /// Samples to be counted of each measure.
    wanted: u64,
    log: Log,
    /// Instructions in each block, by its number.
    lengths: HashMap<u64, Listing>,
    listing: Option<Listing>,
    running: Option<Running>,
    cpus: [Cpu; CPUS_MAX],
    exception: Option<(u32, usize)>,
    measures: BTreeMap<u8, Measure>,
    open: Option<Sample>,
    /// The first reason why nothing of this can be believed.
    refusal: Option<String>,
    has_ended: bool,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    executed: u64,
    interrupts: u64,
}

#[derive(Clone, Copy)]
struct Listing {
    at: u64,
    instructions: u64,
}

/// The block that the log told of last. All of it is counted when it begins; what did not run is
/// taken back.
#[derive(Clone, Copy)]
struct Running {
    block: Block,
    instructions: u64,
}

struct Measure {
    begun: u64,
    began: Cpu,
    counted: Option<GuestCpuInstructions>,
}

struct Sample {
    letter: u8,
    cpu: usize,
    began: Cpu,
    exits: u64,
    has_a_turn: bool,
}

impl Counter {
    pub(super) fn new(wanted: u64) -> Self {
        Self {
            wanted,
            log: Log::Off,
            lengths: HashMap::new(),
            listing: None,
            running: None,
            cpus: [Cpu::default(); CPUS_MAX],
            exception: None,
            measures: BTreeMap::new(),
            open: None,
            refusal: None,
            has_ended: false,
        }
    }

    pub(super) fn line(&mut self, line: Line) -> Option<Wish> {
        match line {
            Line::Block(block) => self.begins(block),
            Line::Listing => {
                self.listing = Some(Listing {
                    at: 0,
                    instructions: 0,
                });
            }
            Line::Listed(at) => {
                if let Some(listing) = &mut self.listing {
                    if listing.instructions == 0 {
                        listing.at = at;
                    }
                    listing.instructions += 1;
                }
            }
            Line::Stopped(number) => {
                if let Some(running) = self.running
                    && running.block.number == number
                {
                    self.take_back_from(running.block.at);
                }
            }
            Line::Rewound(to) => self.take_back_from(to),
            Line::Exception { number, cpu } => self.takes(number, cpu),
            Line::Levels { from: 1, to: 2 } => {
                if let (Some(sample), Some((_, cpu))) = (&mut self.open, self.exception)
                    && sample.cpu == cpu
                {
                    sample.exits += 1;
                }
            }
            Line::Left(at) => self.left(at),
            Line::Entered { level: 2, at } => self.entered(at),
            Line::Pin(_) if self.has_ended => {}
            Line::Pin(b'\n') => {
                self.has_ended = true;
                return (self.log != Log::Off).then(|| self.stop_logging());
            }
            Line::Pin(letter) => return self.edge(letter),
            _ => {}
        }
        None
    }

    /// By the letter that begins a sample.
    pub(super) fn finish(self) -> Result<BTreeMap<u8, GuestCpuInstructions>, LatencyError> {
        if let Some(what) = self.refusal {
            return Err(LatencyError::EmulatorLog { what });
        }
        let mut all = BTreeMap::new();
        for (letter, measure) in self.measures {
            let counted = measure.counted.as_ref();
            let count = counted.map_or(0, |counted| counted.instructions.len());
            match measure.counted {
                Some(counted) if count >= FEWEST.min(self.wanted) => all.insert(letter, counted),
                _ => {
                    let what = format!(
                        "of measure {} only {count} of {} samples were counted: the emulator began its log late; run it again on a machine with less to do",
                        char::from(letter),
                        measure.begun
                    );
                    return Err(LatencyError::EmulatorLog { what });
                }
            };
        }
        Ok(all)
    }

    fn refuse(&mut self, what: impl FnOnce() -> String) {
        if self.refusal.is_none() {
            self.refusal = Some(what());
        }
    }

    fn begins(&mut self, block: Block) {
        if let Some(listing) = self.listing.take()
            && listing.at == block.at
        {
            self.lengths.insert(block.number, listing);
        }
        let length = self.lengths.get(&block.number);
        let known = length.filter(|length| length.at == block.at);
        let instructions = known.map(|length| length.instructions);
        match &mut self.log {
            Log::Asked { blocks, all_known } => {
                *blocks = true;
                *all_known &= instructions.is_some();
            }
            Log::Ending { blocks } => *blocks = true,
            Log::Off | Log::On => {}
        }
        if instructions.is_none() && self.log == Log::On {
            self.refuse(|| format!("the block at {:#x} was not listed", block.at));
        }
        let instructions = instructions.unwrap_or(0);
        if let Some(cpu) = self.cpus.get_mut(block.cpu) {
            cpu.executed += instructions;
        }
        if let Some(sample) = &mut self.open {
            sample.has_a_turn |= sample.cpu != block.cpu;
        }
        self.running = Some(Running {
            block,
            instructions,
        });
    }

    /// The running block ran up to this address only.
    fn take_back_from(&mut self, at: u64) {
        let Some(running) = self.running.take() else {
            return;
        };
        let ran = at.wrapping_sub(running.block.at) / INSTRUCTION_BYTES;
        if ran < running.instructions
            && let Some(cpu) = self.cpus.get_mut(running.block.cpu)
        {
            cpu.executed -= running.instructions - ran;
        }
    }

    fn takes(&mut self, number: u32, cpu: usize) {
        const INTERRUPT: u32 = 5;
        self.exception = Some((number, cpu));
        if let Some(of) = self.cpus.get_mut(cpu) {
            of.interrupts += u64::from(number == INTERRUPT);
        }
        if let Some(sample) = &mut self.open {
            sample.has_a_turn |= sample.cpu != cpu;
        }
    }

    /// Where an exception interrupted the program.
    fn left(&mut self, at: u64) {
        /// What traps, and both kinds of aborts: the instruction there did not run. All others come
        /// behind one.
        const OF_AN_INSTRUCTION: [u32; 3] = [1, 3, 4];
        if let (Some((number, cpu)), Some(running)) = (self.exception, self.running)
            && OF_AN_INSTRUCTION.contains(&number)
            && running.block.cpu == cpu
            && at.wrapping_sub(running.block.at) / INSTRUCTION_BYTES < running.instructions
        {
            self.take_back_from(at);
        }
    }

    fn entered(&mut self, at: u64) {
        let is_ours = |sample: &Sample| self.exception.is_some_and(|(_, cpu)| cpu == sample.cpu);
        if self.open.as_ref().is_some_and(is_ours) && !XEN.contains(&at) {
            self.refuse(|| {
                format!(
                    "the hypervisor is at {at:#x}, and only {:#x} to {:#x} is counted: another version than 4.17?",
                    XEN.start, XEN.end
                )
            });
        }
    }

    fn edge(&mut self, letter: u8) -> Option<Wish> {
        if letter.is_ascii_uppercase() {
            self.begin(letter)
        } else if let Some(sample) = self
            .open
            .take_if(|open| open.letter.eq_ignore_ascii_case(&letter))
        {
            self.end(&sample)
        } else if !letter.is_ascii_lowercase() && self.log == Log::On {
            // A timer is programmed: it has no samples between edges, and its task computes for
            // seconds.
            Some(self.stop_logging())
        } else {
            None
        }
    }

    fn begin(&mut self, letter: u8) -> Option<Wish> {
        let mut wish = None;
        self.open = None;
        let core = self.running.map_or(0, |running| running.block.cpu);
        let began = self.cpus.get(core).copied().unwrap_or_default();
        let measure = self.measures.entry(letter).or_insert(Measure {
            begun: 0,
            began,
            counted: None,
        });
        measure.begun += 1;
        let counted = measure.counted.as_ref();
        let count = counted.map_or(0, |counted| counted.instructions.len());
        let (is_wanted, is_due) = (count < self.wanted, measure.begun >= FIRST);
        self.log = match self.log {
            Log::Off if is_wanted => {
                wish = Some(Wish::LogBlocks);
                ASKED
            }
            Log::Asked {
                blocks: true,
                all_known: true,
            } => Log::On,
            Log::Asked { .. } => ASKED,
            Log::Ending { blocks: false } => Log::Off,
            Log::Ending { .. } => Log::Ending { blocks: false },
            other => other,
        };
        if self.log == Log::On && is_due && is_wanted {
            if counted.is_none() {
                measure.began = began;
            }
            self.open = Some(Sample {
                letter,
                cpu: core,
                began,
                exits: 0,
                has_a_turn: false,
            });
        }
        wish
    }

    fn end(&mut self, sample: &Sample) -> Option<Wish> {
        if self
            .running
            .is_none_or(|running| running.block.cpu != sample.cpu)
        {
            self.refuse(|| "the core went from one CPU to another".to_owned());
        }
        let now = self.cpus.get(sample.cpu).copied().unwrap_or_default();
        let measure = self.measures.get_mut(&sample.letter)?;
        let counted = measure.counted.get_or_insert_with(|| GuestCpuInstructions {
            instructions: histogram(),
            by_exits: BTreeMap::new(),
            first: measure.begun,
            with_a_turn: 0,
            executed: 0,
            interrupts: 0,
        });
        let instructions = now.executed - sample.began.executed;
        let of_its_exits = counted.by_exits.entry(sample.exits);
        for histogram in [
            &mut counted.instructions,
            of_its_exits.or_insert_with(histogram),
        ] {
            // A histogram that resizes itself takes every value.
            let _ = histogram.record(instructions);
        }
        counted.with_a_turn += u64::from(sample.has_a_turn);
        counted.executed = now.executed - measure.began.executed;
        counted.interrupts = now.interrupts - measure.began.interrupts;
        match counted.instructions.len() < self.wanted {
            true => None,
            false => Some(self.stop_logging()),
        }
    }

    fn stop_logging(&mut self) -> Wish {
        self.open = None;
        self.log = Log::Ending { blocks: true };
        Wish::LogNoBlocks
    }
}

const ASKED: Log = Log::Asked {
    blocks: false,
    all_known: true,
};

fn histogram() -> Histogram<u64> {
    #[allow(
        clippy::expect_used,
        reason = "proof: 4 digits are documented as valid"
    )]
    Histogram::new(4).expect("a constant")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of an interrupt, as QEMU 7.2.22 writes it; addresses and lengths of blocks as the
    /// test wants them.
    struct Log {
        counter: Counter,
        wishes: Vec<Wish>,
    }

    impl Log {
        /// That of blocks is on, and the next sample is the first that counts.
        fn ready(wanted: u64) -> Self {
            let mut log = Self {
                counter: Counter::new(wanted),
                wishes: Vec::new(),
            };
            log.lines("Trace 1: 0x10 [0000000000000000/0000000040080000/00000061/ff020200] ");
            log.list(0x20, 0x4008_0100, 5);
            for _ in 1..FIRST {
                log.pin('C');
                log.block(1, 0x20, 0x4008_0100);
                log.pin('c');
            }
            assert_eq!(log.wishes, [Wish::LogBlocks]);
            log
        }

        fn lines(&mut self, text: &str) {
            for line in text.lines() {
                self.wishes.extend(self.counter.line(Line::read(line)));
            }
        }

        fn pin(&mut self, letter: char) {
            let letter = u32::from(letter);
            self.lines(&format!("pl011_write addr 0x00000000 value 0x{letter:08x}"));
        }

        fn block(&mut self, cpu: usize, number: u64, at: u64) {
            self.lines(&format!(
                "Trace {cpu}: {number:#x} [0000000000000000/{at:016x}/00000061/ff020200] "
            ));
        }

        /// And it runs for the first time, on the core's CPU.
        fn list(&mut self, number: u64, at: u64, instructions: u64) {
            self.lines("----------------\nIN: ");
            for index in 0..instructions {
                let at = at + index * INSTRUCTION_BYTES;
                self.lines(&format!("0x{at:08x}:  d503201f  nop      "));
            }
            self.lines("");
            self.block(1, number, at);
        }

        fn exception(&mut self, (number, cpu): (u32, usize), left: u64, entered: u64) {
            self.lines(&format!(
                "Taking exception {number} [It] on CPU {cpu}\n...from EL1 to EL2\n...with ELR {left:#x}\n...to EL2 PC {entered:#x} PSTATE 0x3c9"
            ));
        }

        fn sample(mut self, between: impl FnOnce(&mut Self)) -> GuestCpuInstructions {
            self.pin('C');
            between(&mut self);
            self.pin('c');
            let mut counted = self.counter.finish().expect("good");
            assert_eq!(counted.len(), 1);
            counted.remove(&b'C').expect("it was measured")
        }

        fn refused(mut self, between: impl FnOnce(&mut Self)) -> String {
            self.pin('C');
            between(&mut self);
            self.pin('c');
            self.counter.finish().expect_err("refused").to_string()
        }
    }

    #[test]
    fn instructions_are_those_of_the_cores_cpu_between_the_edges() {
        let own = Log::ready(1).sample(|log| {
            log.list(0x30, 0x20_0000, 7);
            log.list(0x40, 0x4008_0200, 3);
            log.block(1, 0x30, 0x20_0000);
        });
        assert_eq!((own.instructions.len(), own.instructions.max()), (1, 17));
        assert_eq!((own.first, own.with_a_turn), (FIRST, 0));
        // The other one has a turn in the same program, and elsewhere without being logged.
        let own = Log::ready(1).sample(|log| {
            log.list(0x30, 0x20_0000, 7);
            log.block(0, 0x30, 0x20_0000);
            log.block(1, 0x30, 0x20_0000);
        });
        assert_eq!((own.instructions.max(), own.with_a_turn), (14, 1));
        let own = Log::ready(1).sample(|log| {
            log.exception((5, 0), 0xffff_8000, 0x25_9400);
            log.list(0x30, 0x20_0000, 7);
        });
        assert_eq!((own.instructions.max(), own.with_a_turn), (7, 1));
    }

    #[test]
    fn what_did_not_run_is_taken_back() {
        // A load from a device goes back to itself, and runs alone.
        let own = Log::ready(1).sample(|log| {
            log.list(0x30, 0x20_0000, 7);
            log.lines("cpu_io_recompile: rewound execution of TB to 0000000000200008");
            log.list(0x31, 0x20_0008, 1);
            log.list(0x32, 0x20_000c, 4);
        });
        assert_eq!(own.instructions.max(), 7);
        // The count of instructions was used up, or an interrupt came: the block did not begin,
        // another did.
        let own = Log::ready(1).sample(|log| {
            log.list(0x30, 0x20_0000, 7);
            log.block(1, 0x20, 0x4008_0100);
            log.lines("Stopped execution of TB chain before 0x20 [0000000040080100] ");
            // Of one that has run already.
            log.block(1, 0x20, 0x4008_0100);
            log.lines("Stopped execution of TB chain before 0x30 [0000000000200000] ");
        });
        assert_eq!(own.instructions.max(), 12);
        // The third instruction traps; an interrupt comes behind a block that ran to its end,
        // though it is to go on at its beginning.
        let own = Log::ready(1).sample(|log| {
            log.list(0x30, 0x4008_0200, 7);
            log.exception((1, 1), 0x4008_0208, 0x25_9400);
            log.block(1, 0x20, 0x4008_0100);
            log.exception((5, 1), 0x4008_0100, 0x25_9400);
        });
        assert_eq!(own.instructions.max(), 7);
        assert_eq!(own.by_exits.keys().copied().collect::<Vec<_>>(), [2]);
        assert_eq!((own.interrupts, own.executed), (1, 7));
    }

    #[test]
    fn log_is_read_until_count_suffices() {
        let mut log = Log::ready(2);
        for _ in 0..4 {
            log.pin('C');
            log.block(1, 0x20, 0x4008_0100);
            log.pin('c');
        }
        assert_eq!(log.wishes, [Wish::LogBlocks, Wish::LogNoBlocks]);
        // It stays on until QEMU has heard of it.
        log.pin('D');
        log.block(1, 0x20, 0x4008_0100);
        log.pin('D');
        log.pin('D');
        log.pin('D');
        assert_eq!(log.wishes[2..], [Wish::LogBlocks]);
        log.block(1, 0x20, 0x4008_0100);
        log.pin('D');
        log.pin('+');
        assert_eq!(log.wishes[3..], [Wish::LogNoBlocks]);
        // Text is no edge.
        log.pin('\n');
        log.pin('E');
        assert_eq!(log.wishes.len(), 5);
        let said = log.counter.finish().expect_err("too few of D").to_string();
        assert!(said.contains("of measure D only 0 of 5"), "{said}");
    }

    #[test]
    fn what_cannot_be_counted_is_refused_by_name() {
        let said = Log::ready(1).refused(|log| log.block(1, 0x99, 0x20_0000));
        assert!(said.contains("0x200000 was not listed"), "{said}");
        let said = Log::ready(1).refused(|log| log.exception((5, 1), 0, 0xa00_0000_0000));
        assert!(said.contains("at 0xa0000000000"), "{said}");
        let said = Log::ready(1).refused(|log| log.block(0, 0x20, 0x4008_0100));
        assert!(said.contains("one CPU to another"), "{said}");
    }

    #[test]
    fn xen_and_what_the_core_sees_are_in_the_log() {
        assert_eq!(filter(), "0x40000000+0x1000000,0x200000+0x200000");
    }
}
