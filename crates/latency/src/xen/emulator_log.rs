//! Lines of QEMU's log (`-d int,exec,nochain,in_asm,trace:pl011_write`), as of version 7.2. Only
//! words of one line are taken apart here; `exits` and `guest_cpu_instructions` say what they mean
//! together.

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A byte was written to the UART's data register.
    Pin(u8),
    /// A list of instructions begins that were made into one block.
    Listing,
    /// One of them, at this address.
    Listed(u64),
    /// A block begins.
    Block(Block),
    /// The block of that number did not begin after all.
    Stopped(u64),
    /// The running block went back to this address, to go on with a block of its own.
    Rewound(u64),
    /// A CPU takes an exception. What follows up to [`Line::Entered`] is about it.
    Exception { number: u32, cpu: usize },
    /// From which level to which.
    Levels { from: u8, to: u8 },
    /// Where it will return to.
    Left(u64),
    /// Where its handler begins.
    Entered { level: u8, at: u64 },
    /// Nothing of the above.
    Other,
}

/// Instructions that the emulator runs one after the other, without looking up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) cpu: usize,
    /// Where the emulator has made it: another for each block.
    pub(super) number: u64,
    pub(super) at: u64,
}

impl Line {
    pub(super) fn read(line: &str) -> Self {
        Self::known(line).unwrap_or(Self::Other)
    }

    /// The commonest first: there are millions of lines.
    fn known(line: &str) -> Option<Self> {
        if let Some(rest) = line.strip_prefix("Trace ") {
            return block(rest).map(Self::Block);
        }
        if let Some(rest) = line.strip_prefix("...") {
            return about_exception(rest);
        }
        if let Some(rest) = line.strip_prefix("pl011_write addr 0x00000000 value 0x") {
            // What is sent is in the lowest byte.
            return hexadecimal(rest).map(|word| Self::Pin(word as u8));
        }
        if let Some(rest) = line.strip_prefix("Taking exception ") {
            let (number, rest) = rest.split_once(' ')?;
            let (_, cpu) = rest.rsplit_once(" on CPU ")?;
            return Some(Self::Exception {
                number: number.parse().ok()?,
                cpu: cpu.parse().ok()?,
            });
        }
        if let Some(rest) = line.strip_prefix("0x") {
            return hexadecimal(rest).map(Self::Listed);
        }
        if line.starts_with("IN:") {
            return Some(Self::Listing);
        }
        if let Some(rest) = line.strip_prefix("Stopped execution of TB chain before 0x") {
            return hexadecimal(rest).map(Self::Stopped);
        }
        let rest = line.strip_prefix("cpu_io_recompile: rewound execution of TB to ")?;
        hexadecimal(rest).map(Self::Rewound)
    }
}

/// `1: 0x7f496c477600 [0000000000000000/0000000000200200/00000061/ff020201] `.
fn block(line: &str) -> Option<Block> {
    let (cpu, rest) = line.split_once(": 0x")?;
    let (number, rest) = rest.split_once(" [")?;
    let (_, rest) = rest.split_once('/')?;
    Some(Block {
        cpu: cpu.parse().ok()?,
        number: hexadecimal(number)?,
        at: hexadecimal(rest)?,
    })
}

fn about_exception(line: &str) -> Option<Line> {
    if let Some(at) = line.strip_prefix("with ELR 0x") {
        return hexadecimal(at).map(Line::Left);
    }
    let level = |text: &str| text.parse::<u8>().ok();
    if let Some(rest) = line.strip_prefix("from EL") {
        let (from, to) = rest.split_once(" to EL")?;
        return Some(Line::Levels {
            from: level(from)?,
            to: level(to)?,
        });
    }
    let (to, rest) = line.strip_prefix("to EL")?.split_once(" PC 0x")?;
    Some(Line::Entered {
        level: level(to)?,
        at: hexadecimal(rest)?,
    })
}

/// The digits in front.
fn hexadecimal(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit());
    u64::from_str_radix(&text[..end.unwrap_or(text.len())], 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_qemu_are_read() {
        let block = Block {
            cpu: 1,
            number: 0x7f49_6c47_7600,
            at: 0x20_0200,
        };
        // As QEMU 7.2.22 wrote them.
        for (text, line) in [
            (
                "Trace 1: 0x7f496c477600 [0000000000000000/0000000000200200/00000061/ff020201] ",
                Line::Block(block),
            ),
            ("IN: ", Line::Listing),
            (
                "0x00200200:  d53800a5  mrs      x5, mpidr_el1",
                Line::Listed(0x20_0200),
            ),
            (
                "Stopped execution of TB chain before 0x7f496c477600 [0000000000200200] ",
                Line::Stopped(block.number),
            ),
            (
                "cpu_io_recompile: rewound execution of TB to 0000000000200204",
                Line::Rewound(0x20_0204),
            ),
            (
                "Taking exception 1 [Undefined Instruction] on CPU 1",
                Line::Exception { number: 1, cpu: 1 },
            ),
            ("...from EL1 to EL2", Line::Levels { from: 1, to: 2 }),
            ("...with ELR 0x40081280", Line::Left(0x4008_1280)),
            (
                "...to EL2 PC 0x259400 PSTATE 0x3c9",
                Line::Entered {
                    level: 2,
                    at: 0x25_9400,
                },
            ),
            (
                "pl011_write addr 0x00000000 value 0x00000043",
                Line::Pin(b'C'),
            ),
            ("pl011_write addr 0x00000030 value 0x00000301", Line::Other),
            ("...with ESR 0x18/0x623a3016", Line::Other),
            (
                "Exception return from AArch64 EL2 to AArch64 EL1 PC 0x40081284",
                Line::Other,
            ),
            ("", Line::Other),
            ("Trace 1", Line::Other),
            ("0x", Line::Other),
        ] {
            assert_eq!(Line::read(text), line, "{text}");
        }
    }
}
