//! Runs: neighbouring packets that one call can send.
//!
//! UDP segmentation offload cuts one send into datagrams of one size; only the last may be shorter.
//! So packets built one behind the other are sent in runs. Which packets go now is the pacer's
//! business; this module only groups them.

/// Most bytes of one UDP send (RFC 768, less the IPv4 and UDP headers; IPv6 allows 20 more, which
/// is not used).
pub const RUN_BYTES_MAX: usize = 65_507;
/// Most datagrams of one send; the kernel's `UDP_MAX_SEGMENTS` is 64 before Linux 6.9 and 128
/// since.
pub const RUN_PACKETS_MAX: usize = 64;

/// Where a packet lies, and when it is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketPlace {
    /// From the first byte of the memory to that of the RTP header.
    pub offset: u32,
    /// Header and payload.
    pub bytes: u16,
    /// Of its RTP header.
    pub sequence: u16,
    /// When it is to leave, in nanoseconds since the start of the stream:
    /// [`Schedule`](crate::pace::Schedule) decides.
    pub due_ns: u64,
}

impl PacketPlace {
    /// Behind its last byte.
    pub(crate) fn end(&self) -> usize {
        self.offset as usize + usize::from(self.bytes)
    }

    /// Does it lie right behind `before`?
    fn follows(&self, before: &Self) -> bool {
        before.end() == self.offset as usize
    }
}

/// Packets that one send with segmentation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where the first begins.
    pub offset: u32,
    /// Of all together.
    pub bytes: u32,
    /// Of each but the last, which has as many or fewer.
    pub segment_bytes: u16,
    /// How many.
    pub packets: u16,
}

/// The runs of `packets`, in order. Packets that do not follow each other in memory begin a new
/// run.
pub fn runs(packets: &[PacketPlace]) -> impl Iterator<Item = Run> {
    let mut rest = packets;
    std::iter::from_fn(move || {
        let run = Run::first_of(rest, |_| true)?;
        rest = &rest[usize::from(run.packets)..];
        Some(run)
    })
}

impl Run {
    /// The run that `packets` begin with, as long as each of its packets
    /// [follows](PacketPlace::follows) the one before and `may_take` says yes to it.
    pub(crate) fn first_of(
        packets: &[PacketPlace],
        may_take: impl Fn(&PacketPlace) -> bool,
    ) -> Option<Self> {
        let count = length(packets, |before, next| {
            next.follows(before) && may_take(next)
        });
        let (first, last) = (packets.first()?, packets.get(count.checked_sub(1)?)?);
        Some(Self {
            offset: first.offset,
            bytes: (last.end() - first.offset as usize) as u32,
            segment_bytes: first.bytes,
            packets: count as u16,
        })
    }
}

/// How many of the first packets one send can be cut into, as long as `may_follow` says yes to each
/// and the one before.
pub(crate) fn length(
    packets: &[PacketPlace],
    may_follow: impl Fn(&PacketPlace, &PacketPlace) -> bool,
) -> usize {
    let Some(first) = packets.first() else {
        return 0;
    };
    let (mut count, mut bytes) = (1, usize::from(first.bytes));
    for pair in packets.windows(2).take(RUN_PACKETS_MAX - 1) {
        let (before, next) = (&pair[0], &pair[1]);
        bytes += usize::from(next.bytes);
        // A shorter packet ends its run.
        let fits = before.bytes == first.bytes && next.bytes <= first.bytes;
        if !fits || bytes > RUN_BYTES_MAX || !may_follow(before, next) {
            break;
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(sizes: &[u16]) -> Vec<PacketPlace> {
        let mut offset = 0;
        let place = |(sequence, bytes): (u16, &u16)| {
            let at = offset;
            offset += u32::from(*bytes);
            PacketPlace {
                offset: at,
                bytes: *bytes,
                sequence,
                due_ns: 0,
            }
        };
        (0..).zip(sizes).map(place).collect()
    }

    fn lengths(packets: &[PacketPlace]) -> Vec<u16> {
        runs(packets).map(|run| run.packets).collect()
    }

    #[test]
    fn equal_packets_are_one_run_and_a_shorter_one_ends_it() {
        assert_eq!(lengths(&places(&[100, 100, 100])), [3]);
        assert_eq!(lengths(&places(&[100, 100, 50, 100, 100])), [3, 2]);
        assert_eq!(lengths(&places(&[50, 100, 100])), [1, 2]);
        assert_eq!(lengths(&[]), [0_u16; 0]);
    }

    #[test]
    fn limits_of_the_kernel_end_a_run() {
        assert_eq!(lengths(&places(&[10; 100])), [64, 36]);
        // 46 x 1400 = 64,400; one more would be 65,800.
        assert_eq!(lengths(&places(&[1400; 50])), [46, 4]);
    }

    #[test]
    fn hole_ends_a_run() {
        let mut packets = places(&[100; 4]);
        packets[2].offset += 8;
        packets[3].offset += 8;
        let found: Vec<Run> = runs(&packets).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].offset, found[1].bytes), (208, 200));
    }
}
