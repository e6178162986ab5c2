//! What agents send each other to measure a link: bytes, and what they mean.

/// Of each packet.
pub(super) const HEADER_BYTES: usize = 20;
/// A ping and its answer.
pub(super) const PING_BYTES: usize = 64;
/// Datagrams of a burst: as many as the kernel cuts by one call.
pub(super) const BURST_DATAGRAMS_MAX: u16 = 64;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// What to use from now on: the index is that of [`Use`].
    Prepare = 1,
    /// It does (index as asked), or cannot (0).
    Prepared = 2,
    /// It measures itself: later.
    Busy = 3,
    Ping = 4,
    Pong = 5,
    /// One of a burst, by its index.
    Burst = 6,
    /// As many and as long, when all of a burst have come.
    Back = 7,
    /// Nothing more comes.
    Done = 8,
    /// Answer blocks by TCP, too.
    Listen = 9,
    /// At the port that the index is, or not at all (0).
    Listening = 10,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Prepare,
        Self::Prepared,
        Self::Busy,
        Self::Ping,
        Self::Pong,
        Self::Burst,
        Self::Back,
        Self::Done,
        Self::Listen,
        Self::Listening,
    ];
}

/// What an end uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Use {
    /// UDP; the program of `xdp` is not on the interface for this end's sake.
    Udp = 0,
    /// `xdp`.
    Wire = 1,
    /// UDP, while the program is on the interface: as all other traffic there.
    Beside = 2,
}

impl Use {
    /// As a packet names it.
    pub(super) fn of(index: u16) -> Self {
        match index {
            1 => Self::Wire,
            2 => Self::Beside,
            _ => Self::Udp,
        }
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) kind: Kind,
    /// Answers have that of what they answer.
    pub(super) number: u32,
    pub(super) index: u16,
    /// Of the burst.
    pub(super) count: u16,
    /// Of the datagram.
    pub(super) bytes: u16,
}

impl Packet {
    /// Without a burst.
    pub(super) const fn new(kind: Kind, number: u32, index: u16) -> Self {
        let bytes = match kind {
            Kind::Ping | Kind::Pong => PING_BYTES,
            _ => HEADER_BYTES,
        };
        Self {
            kind,
            number,
            index,
            count: 1,
            bytes: bytes as u16,
        }
    }

    /// Begins a datagram for whoever knows the word.
    pub(super) fn write(&self, word: u64, into: &mut [u8]) {
        into[..8].copy_from_slice(&word.to_le_bytes());
        into[8..12].copy_from_slice(&self.number.to_le_bytes());
        into[12..14].copy_from_slice(&self.index.to_le_bytes());
        into[14..16].copy_from_slice(&self.count.to_le_bytes());
        into[16..18].copy_from_slice(&self.bytes.to_le_bytes());
        into[18] = self.kind as u8;
        into[19] = 0;
    }

    /// What begins these bytes; `None`: nothing for us, or nothing that makes sense.
    pub(super) fn read(word: u64, bytes: &[u8]) -> Option<Self> {
        let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let (its_word, rest) = header.split_first_chunk::<8>()?;
        let (number, _) = rest.split_first_chunk::<4>()?;
        let packet = Self {
            kind: *Kind::ALL.iter().find(|kind| **kind as u8 == header[18])?,
            number: u32::from_le_bytes(*number),
            index: half(12),
            count: half(14),
            bytes: half(16),
        };
        let length = usize::from(packet.bytes);
        let makes_sense = match packet.kind {
            Kind::Burst | Kind::Back => {
                packet.index < packet.count && packet.count <= BURST_DATAGRAMS_MAX
            }
            _ => length == usize::from(Self::new(packet.kind, 0, 0).bytes),
        };
        let is_ours = u64::from_le_bytes(*its_word) == word;
        (is_ours && makes_sense && (HEADER_BYTES..=bytes.len()).contains(&length)).then_some(packet)
    }
}

/// Which datagrams of a burst have come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coming {
    number: u32,
    came: u64,
}

impl Coming {
    /// One has. True: it was the last that was missing.
    pub(super) fn take(&mut self, packet: &Packet) -> bool {
        if packet.number != self.number {
            *self = Self {
                number: packet.number,
                came: 0,
            };
        }
        let all = u64::MAX >> (64 - u32::from(packet.count.clamp(1, BURST_DATAGRAMS_MAX)));
        let one = 1 << (packet.index % BURST_DATAGRAMS_MAX);
        let is_new = self.came & one == 0;
        self.came |= one;
        is_new && self.came == all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_written_and_strangers_are_not() {
        for kind in Kind::ALL {
            let packet = Packet {
                count: 3,
                ..Packet::new(kind, 7, 2)
            };
            let mut bytes = [0; PING_BYTES];
            packet.write(42, &mut bytes);
            assert_eq!(Packet::read(42, &bytes), Some(packet));
            assert_eq!(Packet::read(43, &bytes), None, "another word");
            assert_eq!(Packet::read(42, &bytes[..HEADER_BYTES - 1]), None);
            bytes[18] = 0;
            assert_eq!(Packet::read(42, &bytes), None, "no such kind");
        }
        let refused = |packet: Packet| {
            let mut bytes = [0; PING_BYTES];
            packet.write(42, &mut bytes);
            assert_eq!(Packet::read(42, &bytes), None, "{packet:?}");
        };
        let burst = |index, count, bytes| Packet {
            kind: Kind::Burst,
            number: 1,
            index,
            count,
            bytes,
        };
        refused(burst(3, 3, 64));
        refused(burst(0, 65, 64));
        refused(burst(0, 3, 19));
        refused(burst(0, 3, 65));
        // An answer would be longer than what it answers.
        refused(Packet {
            bytes: 20,
            ..Packet::new(Kind::Ping, 1, 0)
        });
    }

    #[test]
    fn burst_has_come_once_when_each_of_it_has() {
        let mut coming = Coming::default();
        let take = |coming: &mut Coming, number, index, count| {
            coming.take(&Packet {
                kind: Kind::Burst,
                number,
                index,
                count,
                bytes: 64,
            })
        };
        for count in [1, 3, 64] {
            let number = u32::from(count);
            for index in (1..count).rev() {
                assert!(!take(&mut coming, number, index, count));
                assert!(!take(&mut coming, number, index, count), "again");
            }
            assert!(take(&mut coming, number, 0, count));
            assert!(!take(&mut coming, number, 0, count), "once");
        }
    }
}
