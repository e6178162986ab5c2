//! Two hosts and the links between them in virtual time, by a seed: what the tests share.

use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Acknowledged, Arrival, Checksum, Content, Fault, HEADER_BYTES,
    Receiver, Sender, Settings, Window,
};
use hythe_testing::Dice;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::sync::LazyLock;

pub(crate) const MS: u64 = 1_000_000;
/// Longest message.
const PATTERN_BYTES: usize = 1 << 20;
const SHIFTS: usize = 1 << 16;

pub(crate) fn settings() -> Settings {
    Settings {
        session: 0x0123_4567_89ab_cdef,
        flow: 7,
        mtu_bytes: 1_500,
        window: Window {
            messages: 256,
            bytes: 32 << 20,
        },
        message_bytes_max: 4 << 20,
        unreachable_ns: 2_000 * MS,
        initial_rtt_ns: 10 * MS,
        burst_bytes: 0,
        buffer_bytes: u32::MAX,
    }
}

/// One direction. Chances are in 10,000.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) delay_ns: u64,
    /// 0: of any speed.
    pub(crate) bytes_per_ms: u64,
    /// Behind the bottleneck; more is dropped.
    pub(crate) queue_bytes: u64,
    pub(crate) mtu_bytes: u16,
    pub(crate) loss: usize,
    pub(crate) reorder: usize,
    pub(crate) duplicate: usize,
    pub(crate) corrupt: usize,
    /// Nothing arrives that is sent meanwhile.
    pub(crate) cut: Range<u64>,
    pub(crate) busy_until_ns: u64,
}

impl Link {
    pub(crate) fn of(delay_ns: u64) -> Self {
        Self {
            delay_ns,
            bytes_per_ms: 0,
            queue_bytes: u64::MAX,
            mtu_bytes: 9_000,
            loss: 0,
            reorder: 0,
            duplicate: 0,
            corrupt: 0,
            cut: 0..0,
            busy_until_ns: 0,
        }
    }

    /// When copies of the datagram arrive, and which are damaged.
    fn carry(&mut self, now_ns: u64, datagram: &[u8], dice: &mut Dice) -> Vec<(u64, Vec<u8>)> {
        let bytes = datagram.len() as u64 + 48;
        if self.cut.contains(&now_ns)
            || bytes > u64::from(self.mtu_bytes)
            || dice.below(10_000) < self.loss
        {
            return Vec::new();
        }
        let mut leaves_ns = now_ns;
        if self.bytes_per_ms > 0 {
            let waits_ns = self.busy_until_ns.saturating_sub(now_ns);
            if waits_ns * self.bytes_per_ms / MS + bytes > self.queue_bytes {
                return Vec::new();
            }
            leaves_ns += waits_ns + bytes * MS / self.bytes_per_ms;
            self.busy_until_ns = leaves_ns;
        }
        let copies = 1 + usize::from(dice.below(10_000) < self.duplicate);
        let one = |dice: &mut Dice| {
            let mut copy = datagram.to_vec();
            if dice.below(10_000) < self.corrupt {
                let at = dice.below(copy.len());
                copy[at] ^= 1 << dice.below(8);
            }
            let late = dice.below(10_000) < self.reorder;
            let later_ns = u64::from(late) * dice.below(self.delay_ns as usize * 2) as u64;
            (leaves_ns + self.delay_ns + later_ns, copy)
        };
        (0..copies).map(|_| one(dice)).collect()
    }
}

/// A flow and its user at both ends.
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// Lengths of the messages that are still to be pushed.
    pub(crate) lengths: std::vec::IntoIter<u32>,
    pushed: BTreeMap<u64, u32>,
    slots: BTreeMap<u64, Vec<u8>>,
    pub(crate) delivered: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) has_ended: bool,
    /// What came whole is taken over from then on.
    pub(crate) accepts_from_ns: u64,
    is_ending: bool,
    pub(crate) came_bytes: u64,
    pub(crate) answered_bytes: u64,
}

impl Flow {
    pub(crate) fn new(settings: Settings, lengths: Vec<u32>) -> Self {
        Self {
            sender: Sender::new(settings).expect("settings"),
            receiver: Receiver::new(settings).expect("settings"),
            lengths: lengths.into_iter(),
            pushed: BTreeMap::new(),
            slots: BTreeMap::new(),
            delivered: 0,
            delivered_bytes: 0,
            has_ended: false,
            accepts_from_ns: 0,
            is_ending: false,
            came_bytes: 0,
            answered_bytes: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.has_ended && self.sender.next_wake().is_none()
    }

    fn push(&mut self, now_ns: u64) {
        while self.pushed.len() < 200 && !self.is_ending {
            let Some(length) = self.lengths.next() else {
                self.is_ending = self.sender.end(now_ns).is_some();
                return;
            };
            let number = self.sender.push(now_ns, length, length as u8);
            let number = number.expect("fewer than MESSAGES_MAX");
            self.pushed.insert(number, length);
        }
    }

    fn transmit(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let packet = self.sender.transmit(now_ns)?;
        let length = self.pushed.get(&packet.message).copied().unwrap_or(0);
        let payload = &pattern(packet.message, length)[packet.range()];
        let mut datagram = packet.seal(Checksum::of(payload)).to_vec();
        datagram.extend(payload);
        Some(datagram)
    }

    /// At the receiver.
    fn arrive(&mut self, now_ns: u64, datagram: &[u8]) -> Result<(), Fault> {
        self.came_bytes += datagram.len() as u64;
        let Some((header, payload)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            self.receiver.too_short();
            return Ok(());
        };
        match self
            .receiver
            .receive(now_ns, header, Checksum::of(payload))?
        {
            Arrival::Place(place) => {
                let length = place.length() as usize;
                let slot = self.slots.entry(place.message());
                let slot = slot.or_insert_with(|| vec![0; length]);
                slot[place.range()].copy_from_slice(payload);
                place.done();
            }
            Arrival::Taken | Arrival::Dropped(_) => (),
        }
        while let Some(message) = self.receiver.next_message() {
            self.deliver(message.number, message.content);
        }
        if now_ns >= self.accepts_from_ns {
            self.receiver.accept(now_ns, self.delivered);
        }
        Ok(())
    }

    fn deliver(&mut self, number: u64, content: Content) {
        assert_eq!(number, self.delivered, "in order, once");
        assert!(!self.has_ended, "nothing behind the end");
        self.delivered += 1;
        match content {
            Content::End => self.has_ended = true,
            Content::Message { length, tag } => {
                assert_eq!(tag, length as u8);
                let slot = self.slots.remove(&number).unwrap_or_default();
                assert!(slot == pattern(number, length), "message {number}");
                self.delivered_bytes += u64::from(length);
            }
        }
    }

    fn answer(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
        let bytes = self.receiver.acknowledge(now_ns, &mut out)?;
        self.answered_bytes += bytes as u64;
        assert!(self.answered_bytes <= self.came_bytes, "amplification");
        Some(out[..bytes].to_vec())
    }

    fn acknowledged(&mut self, now_ns: u64, datagram: &[u8]) -> Result<(), Fault> {
        if let Acknowledged::Through(accepted) = self.sender.acknowledged(now_ns, datagram)? {
            self.pushed = self.pushed.split_off(&accepted);
        }
        Ok(())
    }
}

/// Content that is of no other message, length or place.
fn pattern(message: u64, length: u32) -> &'static [u8] {
    static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut dice = Dice::new(9);
        let words = (0..(PATTERN_BYTES + SHIFTS) / 8).map(|_| dice.number().to_le_bytes());
        words.flatten().collect()
    });
    let shift = (message as usize * 7_919 + length as usize * 31) % SHIFTS;
    &PATTERN[shift..][..length as usize]
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_ns: u64,
    order: u64,
    flow: usize,
    is_forward: bool,
    datagram: Vec<u8>,
}

/// All flows share both links.
pub(crate) struct Network {
    pub(crate) now_ns: u64,
    /// Threads that take turns with a flow looked at the clock up to so long before their turn.
    pub(crate) clock_lag_ns: usize,
    pub(crate) flows: Vec<Flow>,
    pub(crate) forward: Link,
    pub(crate) back: Link,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    pub(crate) dice: Dice,
}

impl Network {
    pub(crate) fn new(flows: Vec<Flow>, forward: Link, back: Link, dice: Dice) -> Self {
        Self {
            // Clocks do not begin at 0.
            now_ns: 1_000 * MS,
            clock_lag_ns: 0,
            flows,
            forward,
            back,
            events: BinaryHeap::new(),
            order: 0,
            dice,
        }
    }

    /// Until `is_over` or a fault.
    pub(crate) fn run(&mut self, is_over: impl Fn(&Self) -> bool) -> Result<(), Fault> {
        while !is_over(self) {
            self.leave()?;
            let next = self.events.peek().map(|Reverse(event)| event.at_ns);
            let wakes = self
                .flows
                .iter()
                .flat_map(|flow| [flow.sender.next_wake(), flow.receiver.next_wake()]);
            let Some(next_ns) = wakes.flatten().chain(next).min() else {
                return Ok(());
            };
            // A timer that is due and does nothing would stop the time.
            self.now_ns = next_ns.max(self.now_ns + 1);
            while let Some(Reverse(event)) = self.events.peek() {
                if event.at_ns > self.now_ns {
                    break;
                }
                let Some(Reverse(event)) = self.events.pop() else {
                    break;
                };
                let seen_ns = self.seen_ns();
                let flow = &mut self.flows[event.flow];
                match event.is_forward {
                    true => flow.arrive(seen_ns, &event.datagram)?,
                    false => flow.acknowledged(seen_ns, &event.datagram)?,
                }
            }
        }
        Ok(())
    }

    /// What a thread takes for the time.
    fn seen_ns(&mut self) -> u64 {
        match self.clock_lag_ns {
            0 => self.now_ns,
            lag_ns => self.now_ns - self.dice.below(lag_ns) as u64,
        }
    }

    fn leave(&mut self) -> Result<(), Fault> {
        for index in 0..self.flows.len() {
            let now_ns = self.seen_ns();
            let flow = &mut self.flows[index];
            flow.sender.expire(now_ns)?;
            flow.receiver.expire(now_ns)?;
            flow.push(now_ns);
            while let Some(datagram) = self.flows[index].transmit(now_ns) {
                self.send(index, true, &datagram);
            }
            while let Some(datagram) = self.flows[index].answer(now_ns) {
                self.send(index, false, &datagram);
            }
        }
        Ok(())
    }

    fn send(&mut self, flow: usize, is_forward: bool, datagram: &[u8]) {
        let link = if is_forward {
            &mut self.forward
        } else {
            &mut self.back
        };
        for (at_ns, datagram) in link.carry(self.now_ns, datagram, &mut self.dice) {
            self.order += 1;
            self.events.push(Reverse(Event {
                at_ns,
                order: self.order,
                flow,
                is_forward,
                datagram,
            }));
        }
    }
}
