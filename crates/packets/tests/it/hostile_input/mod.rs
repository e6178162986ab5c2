//! Datagrams of a peer that lies, at both halves of a flow: for the tests and the fuzz target.

use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Arrival, Checksum, HEADER_BYTES, Receiver, Sender, Settings, Window,
};

pub(crate) const SETTINGS: Settings = Settings {
    session: 0x0123_4567_89ab_cdef,
    flow: 7,
    mtu_bytes: 1_500,
    window: Window {
        messages: 8,
        bytes: 10_000,
    },
    message_bytes_max: 4_000,
    unreachable_ns: 2_000_000_000,
    initial_rtt_ns: 1_000_000,
    burst_bytes: 0,
    buffer_bytes: u32::MAX,
};

/// The session, the length and the checksum that the rest of the datagram asks for: what a peer
/// that knows the session can send.
pub(crate) fn sign(datagram: &mut [u8]) {
    let Some((header, payload)) = datagram.split_first_chunk_mut::<HEADER_BYTES>() else {
        return;
    };
    header[..8].copy_from_slice(&SETTINGS.session.to_le_bytes());
    header[8..12].copy_from_slice(&SETTINGS.flow.to_le_bytes());
    header[12..16].fill(0);
    header[26..28].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(payload), header);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
}

/// In front of each datagram: its length (16 bits), and to whom it goes, signed or not, after how
/// long.
pub(crate) fn read_all(bytes: &[u8]) {
    let mut both = Both::new();
    let mut rest = bytes;
    while let [low, high, manner, behind @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high]) % 1_600);
        let (datagram, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        both.now_ns += u64::from(manner >> 3) * 4_000_000;
        let mut datagram = datagram.to_vec();
        if manner & 2 == 0 {
            sign(&mut datagram);
        }
        match manner & 1 {
            0 => both.receiver_reads(&datagram, manner & 4 != 0),
            _ => both.sender_reads(&datagram),
        }
    }
}

struct Both {
    sender: Sender,
    receiver: Receiver,
    now_ns: u64,
    came_bytes: usize,
    answered_bytes: usize,
    delivered: u64,
}

impl Both {
    fn new() -> Self {
        Self {
            sender: Sender::new(SETTINGS).expect("settings"),
            receiver: Receiver::new(SETTINGS).expect("settings"),
            now_ns: 1_000_000_000,
            came_bytes: 0,
            answered_bytes: 0,
            delivered: 0,
        }
    }

    fn receiver_reads(&mut self, datagram: &[u8], accepts: bool) {
        self.came_bytes += datagram.len();
        let Some((header, payload)) = datagram.split_first_chunk() else {
            return self.receiver.too_short();
        };
        let arrival = self
            .receiver
            .receive(self.now_ns, header, Checksum::of(payload));
        if let Ok(Arrival::Place(place)) = arrival {
            assert!(place.length() <= SETTINGS.message_bytes_max);
            assert!(place.range().end <= place.length() as usize);
            assert_eq!(place.range().len(), payload.len());
            assert!(place.message() < self.delivered + 8, "beyond the credit");
            place.done();
        }
        while let Some(message) = self.receiver.next_message() {
            assert_eq!(message.number, self.delivered);
            self.delivered += 1;
        }
        if accepts {
            self.receiver.accept(self.now_ns, self.delivered);
        }
        let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
        while let Some(bytes) = self.receiver.acknowledge(self.now_ns, &mut out) {
            self.answered_bytes += bytes;
        }
        assert!(self.answered_bytes <= self.came_bytes, "amplification");
        self.receiver.expire(self.now_ns).ok();
    }

    fn sender_reads(&mut self, datagram: &[u8]) {
        while self.sender.state().packets < 4_000
            && self.sender.push(self.now_ns, 3_000, 1).is_some()
        {}
        let mut left = 0;
        while let Some(packet) = self.sender.transmit(self.now_ns) {
            assert!(packet.message >= self.sender.accepted() || packet.payload_bytes == 0);
            assert!(packet.range().end <= 3_000 && packet.payload_bytes <= 1_404);
            left += 1;
        }
        assert!(left < 4_096, "a burst without a bound");
        let before = self.sender.accepted();
        self.sender.acknowledged(self.now_ns, datagram).ok();
        assert!(self.sender.accepted() >= before);
        self.sender.expire(self.now_ns).ok();
    }
}
