//! Which packets go together, and when.
//!
//! A picture becomes dozens of packets that are all due at one instant; a transport stream becomes packets that are due a fraction of a
//! millisecond apart. The one is to be spread over the time until the next picture, the other gathered into groups that one send
//! can take. A [`Limit`] decides both.

use crate::wire::run::PacketPlace;

/// How much may leave at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets that leave back to back, at most; at least 1.
    pub burst: usize,
    /// How early a packet may leave to go together with those in front of it, in ticks of the media clock.
    pub early: u64,
}

/// Packets that leave back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Index of the first.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// When, in ticks of the media clock.
    pub due: u64,
}

/// The groups of `packets`, whose `due` never decreases. `until` is the `due` of what comes behind them, over which the last ones are spread.
pub fn groups(packets: &[PacketPlace], until: u64, limit: Limit) -> impl Iterator<Item = Group> {
    let burst = limit.burst.max(1);
    let mut stretch = Stretch::at(packets, 0, until);
    let mut next = 0;
    std::iter::from_fn(move || {
        if next == packets.len() {
            return None;
        }
        if next == stretch.end() {
            stretch = Stretch::at(packets, next, until);
        }
        let first = next;
        let due = stretch.due_of(next, burst);
        let (is_whole, rest) = (stretch.count <= burst, stretch.end() - next);
        next += rest.min(burst);
        // What was cut in pieces is not mixed with what comes behind it.
        while is_whole && next < packets.len() && packets[next].due <= due + limit.early {
            let following = Stretch::at(packets, next, until);
            if following.end() - first > burst {
                break;
            }
            stretch = following;
            next = following.end();
        }
        Some(Group {
            first,
            count: next - first,
            due,
        })
    })
}

/// Neighbouring packets that are due at one instant.
#[derive(Clone, Copy)]
struct Stretch {
    first: usize,
    count: usize,
    due: u64,
    /// Until the next stretch is due.
    ticks: u64,
}

impl Stretch {
    fn at(packets: &[PacketPlace], first: usize, until: u64) -> Self {
        let due = packets.get(first).map_or(until, |packet| packet.due);
        let same = packets.iter().skip(first);
        let count = same.take_while(|packet| packet.due == due).count();
        let behind = packets.get(first + count).map_or(until, |next| next.due);
        Self {
            first,
            count,
            due,
            ticks: behind.saturating_sub(due),
        }
    }

    fn end(&self) -> usize {
        self.first + self.count
    }

    /// Pieces of `burst` packets at equal distances.
    fn due_of(&self, index: usize, burst: usize) -> u64 {
        let pieces = self.count.div_ceil(burst).max(1) as u64;
        let piece = ((index - self.first) / burst) as u64;
        // Less than the ticks of one unit times its packets: far from an overflow, but nobody vouches for a file's times.
        self.due + (u128::from(self.ticks) * u128::from(piece) / u128::from(pieces)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(dues: &[u64]) -> Vec<PacketPlace> {
        let place = |(sequence, due): (u16, &u64)| PacketPlace {
            offset: u32::from(sequence) * 100,
            bytes: 100,
            sequence,
            due: *due,
        };
        (0..).zip(dues).map(place).collect()
    }

    fn plan(dues: &[u64], until: u64, burst: usize, early: u64) -> Vec<(usize, u64)> {
        let packets = packets(dues);
        let groups: Vec<Group> = groups(&packets, until, Limit { burst, early }).collect();
        let mut next = 0;
        for group in &groups {
            assert_eq!(group.first, next, "{groups:?}");
            next += group.count;
        }
        assert_eq!(next, dues.len());
        groups
            .iter()
            .map(|group| (group.count, group.due))
            .collect()
    }

    #[test]
    fn a_picture_is_spread_until_the_next() {
        let dues = [&[0; 10][..], &[3600; 2]].concat();
        let expected = [(4, 0), (4, 1200), (2, 2400), (2, 3600)];
        assert_eq!(plan(&dues, 7200, 4, 0), expected);
        assert_eq!(plan(&[0; 4], 3600, 4, 0), [(4, 0)]);
    }

    #[test]
    fn near_neighbours_go_together_and_no_more_than_asked_for() {
        let dues: Vec<u64> = (0..10).map(|index| index * 10).collect();
        assert_eq!(
            plan(&dues, 100, 100, 0),
            dues.iter().map(|due| (1, *due)).collect::<Vec<_>>()
        );
        assert_eq!(
            plan(&dues, 100, 100, 25),
            [(3, 0), (3, 30), (3, 60), (1, 90)]
        );
        assert_eq!(
            plan(&dues, 100, 2, 1000),
            [(2, 0), (2, 20), (2, 40), (2, 60), (2, 80)]
        );
    }

    #[test]
    fn a_spread_picture_takes_nothing_from_the_next() {
        let dues = [0, 0, 0, 10, 20];
        assert_eq!(plan(&dues, 30, 2, 100), [(2, 0), (1, 5), (2, 10)]);
    }

    #[test]
    fn times_of_a_hostile_file_do_not_overflow() {
        let end = u64::MAX;
        assert_eq!(
            plan(&[0; 3], end, 1, 0),
            [(1, 0), (1, end / 3), (1, 2 * (end / 3))]
        );
        assert_eq!(plan(&[end; 2], 0, 1, 5), [(1, end), (1, end)]);
        assert_eq!(plan(&[], 0, 1, 0), []);
    }
}
