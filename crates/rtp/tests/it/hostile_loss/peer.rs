//! A peer who writes what he likes to everything that repairs losses: media, parity of both
//! formats, retransmissions, requests.
//!
//! Shared by a seeded test and by the fuzz target `media_loss`, which choose the bytes. Some
//! packets are as the bytes say; others are whole, with some bytes changed, so that they get past
//! the first checks.

use std::net::{IpAddr, Ipv4Addr};

use hythe_rtp::loss::Repaired;
use hythe_rtp::loss::fec::decoder::DecoderLimits;
use hythe_rtp::loss::fec::encoder::Format;
use hythe_rtp::loss::fec::parity::{BadParity, Parity};
use hythe_rtp::loss::fec::{Decoder, Encoder, Protection, Shape, smpte2022, ulpfec};
use hythe_rtp::loss::history::{History, Kept};
use hythe_rtp::loss::nack::{Askers, Limits, Resender};
use hythe_rtp::loss::rtx::{Method, RtxReceiver, RtxStream};
use rtp_types::RtpPacket;

const PACKET_BYTES_MAX: u16 = 128;
const SSRC: u32 = 0x5555_5555;
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LIMITS: Limits = Limits {
    share_per_mille: 100,
    burst_bytes: 2000,
    resends_max: 2,
    round_trip_ns: 1_000_000,
};
const STREAM_BYTES_PER_SECOND: u64 = 100_000;
const RTX: RtxStream = RtxStream {
    ssrc: 0x6666_6666,
    payload_type: 98,
};
const RECEIVER: RtxReceiver = RtxReceiver {
    original_ssrc: SSRC,
    original_payload_type: 33,
    payload_type: 98,
    ssrc: Some(RTX.ssrc),
};

/// Bytes that choose; zeroes when they are used up.
struct Choices<'c>(&'c [u8]);

impl<'c> Choices<'c> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    fn bytes(&mut self, count: usize) -> &'c [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Changes up to three bytes.
    fn damage(&mut self, packet: &mut [u8]) {
        for _ in 0..self.byte() % 4 {
            let (at, value) = (self.byte(), self.byte());
            // Mostly headers, sometimes anywhere.
            let at = usize::from(at) % packet.len().min(if at < 200 { 40 } else { 256 });
            packet[at] = value;
        }
    }
}

struct Scene {
    decoder: Decoder,
    encoders: [(Encoder, ParseParity); 2],
    resender: Resender,
    history: History<()>,
    rtx: Method,
    sequence: u16,
    now_ns: u64,
    resent_bytes: u64,
}

type ParseParity = for<'p> fn(&'p [u8]) -> Result<Parity<'p>, BadParity>;

/// Plays the peer as `bytes` say, and checks after each packet that the limits hold.
pub(crate) fn play(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let mut scene = Scene::new(choices.byte());
    while !choices.0.is_empty() {
        match choices.byte() % 8 {
            0..=2 => scene.honest_packet(&mut choices),
            3 => {
                let length = choices.byte().into();
                scene.anything(choices.bytes(length));
            }
            4 => scene.retransmission(&mut choices),
            5 => scene.request(&mut choices),
            6 => scene.now_ns += u64::from(choices.byte()) << 14,
            _ => {
                let jump = u16::from_be_bytes([choices.byte(), choices.byte()]);
                scene.sequence = scene.sequence.wrapping_add(jump);
            }
        }
    }
    scene.check();
}

impl Scene {
    fn new(start: u8) -> Self {
        let shape = Shape::new(4, 4).expect("within the limits");
        let encoder = |format| {
            let body = PACKET_BYTES_MAX - 12;
            Encoder::new(format, shape, Protection::Both, body, 0xfff0).expect("within the limits")
        };
        let ulpfec = Format::Ulpfec {
            payload_type: 100,
            ssrc: SSRC,
        };
        Self {
            decoder: Decoder::new(DecoderLimits {
                window_packets: 256,
                parities: 16,
                packet_bytes_max: PACKET_BYTES_MAX,
            }),
            encoders: [
                (encoder(Format::Smpte2022), smpte2022::parse),
                (encoder(ulpfec), ulpfec::parse),
            ],
            resender: Resender::new(
                SSRC,
                Askers::Host(HOST),
                LIMITS,
                STREAM_BYTES_PER_SECOND,
                64,
            ),
            history: History::new(64, 1 << 30),
            rtx: Method::Rtx {
                stream: RTX,
                sequence: 0,
            },
            sequence: u16::from(start) << 8 | 0xf8,
            now_ns: 0,
            resent_bytes: 0,
        }
    }

    /// A packet as our own sender sends it, which may get lost, and the parity behind it, which may
    /// be changed on its way.
    fn honest_packet(&mut self, choices: &mut Choices<'_>) {
        let packet = self.packet(choices);
        let Some((header, body)) = packet.split_first_chunk() else {
            return;
        };
        self.history.keep(
            Kept {
                sequence: self.sequence,
                bytes: packet.len() as u16,
                sent_ns: self.now_ns,
                place: (),
            },
            &mut |_| {},
        );
        self.sequence = self.sequence.wrapping_add(1);
        if !choices.byte().is_multiple_of(4) {
            take_media(&mut self.decoder, &packet);
        }
        for (encoder, parse) in &mut self.encoders {
            let decoder = &mut self.decoder;
            let pushed = encoder.push(header, &[body], &mut |parity| {
                let mut bytes = [parity.header, parity.payload].concat();
                choices.damage(&mut bytes);
                take_parity(decoder, parse(&bytes));
            });
            assert_eq!(pushed, Ok(()));
        }
    }

    fn packet(&mut self, choices: &mut Choices<'_>) -> Vec<u8> {
        let [s0, s1] = self.sequence.to_be_bytes();
        let [i0, i1, i2, i3] = SSRC.to_be_bytes();
        let kind = choices.byte();
        let mut packet = vec![0x80, kind, s0, s1, kind, s0, s1, 7, i0, i1, i2, i3];
        let length = usize::from(choices.byte() % 64);
        packet.extend_from_slice(choices.bytes(length));
        packet
    }

    /// The same bytes as everything they might be.
    fn anything(&mut self, bytes: &[u8]) {
        take_media(&mut self.decoder, bytes);
        take_parity(&mut self.decoder, smpte2022::parse(bytes));
        take_parity(&mut self.decoder, ulpfec::parse(bytes));
        let _ = Method::Plain.packet(bytes);
        self.restore(bytes.to_vec());
        self.ask(bytes);
    }

    fn retransmission(&mut self, choices: &mut Choices<'_>) {
        let packet = self.packet(choices);
        let Some(resent) = self.rtx.packet(&packet) else {
            return;
        };
        assert_eq!(resent.len(), packet.len() + 2);
        let mut bytes = resent.slices().concat();
        choices.damage(&mut bytes);
        self.restore(bytes);
    }

    fn restore(&mut self, mut bytes: Vec<u8>) {
        let received = bytes.len();
        if let Ok(repaired) = RECEIVER.restore(&mut bytes, |number| number % 8 != 0) {
            assert!(repaired.bytes.len() + 2 <= received);
            check_packet(&repaired);
            take_media(&mut self.decoder, repaired.bytes);
        }
    }

    /// A request for numbers around those that were sent.
    fn request(&mut self, choices: &mut Choices<'_>) {
        let count = choices.byte() % 8;
        let mut rtcp = vec![0x81, 205, 0, 2 + count, 1, 1, 1, 1];
        rtcp.extend_from_slice(&SSRC.to_be_bytes());
        for _ in 0..count {
            let number = self.sequence.wrapping_sub(choices.byte().into());
            rtcp.extend_from_slice(&number.to_be_bytes());
            rtcp.extend_from_slice(&[choices.byte(), choices.byte()]);
        }
        choices.damage(&mut rtcp);
        self.ask(&rtcp);
    }

    fn ask(&mut self, rtcp: &[u8]) {
        let (history, resent) = (&self.history, &mut self.resent_bytes);
        self.resender
            .take(rtcp, HOST, self.now_ns, history, &mut |packet| {
                assert_eq!(history.find(packet.sequence), Ok(packet));
                *resent += u64::from(packet.bytes);
            });
        let share = STREAM_BYTES_PER_SECOND * u64::from(LIMITS.share_per_mille) / 1000;
        let gained = u128::from(self.now_ns) * u128::from(share) / 1_000_000_000;
        assert!(u128::from(self.resent_bytes) <= u128::from(LIMITS.burst_bytes) + gained);
    }

    fn check(&self) {
        let counts = self.decoder.counts();
        assert!(counts.repaired <= counts.parities, "{counts:?}");
        assert_eq!(self.resender.counts().bytes, self.resent_bytes);
    }
}

fn take_media(decoder: &mut Decoder, packet: &[u8]) {
    decoder.take_media(packet, &mut check_computed);
}

fn take_parity(decoder: &mut Decoder, parity: Result<Parity<'_>, BadParity>) {
    if let Ok(parity) = parity {
        decoder.take_parity(&parity, &mut check_computed);
    }
}

fn check_computed(repaired: Repaired<'_>) {
    assert!(repaired.bytes.len() <= usize::from(PACKET_BYTES_MAX));
    check_packet(&repaired);
}

fn check_packet(repaired: &Repaired<'_>) {
    let packet = RtpPacket::parse(repaired.bytes).expect("an RTP packet");
    assert_eq!(packet.sequence_number(), repaired.sequence);
}
