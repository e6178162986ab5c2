//! What is done about packets that get lost on their way: options of sending and serving, and what
//! came of it.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hythe::media::send::repair::{Parity, Repair, Resend};
use hythe::rtp::format::Encoding;
use hythe::rtp::loss::fec::encoder::Format;
use hythe::rtp::loss::fec::{Encoder, Protection, Shape};
use hythe::rtp::loss::history::PACKETS_MAX;
use hythe::rtp::sdp::{self, StreamDescription};
use hythe_command::error::CliError;
use hythe_terminal::escaped;

/// Packets are kept so much longer than receivers wait for them: until a loss shows, and for the
/// way of the request.
const REPAIR_WINDOW_MARGIN: Duration = Duration::from_millis(500);
/// Packets kept for each second: 45 Mbit/s of packets as long as ours.
const KEPT_PER_SECOND: u128 = 4096;
/// Payload type of parity beside media (RFC 5109). Media has 96 or 97, packets sent again 98.
const ULPFEC_PAYLOAD_TYPE: u8 = 100;
/// Longer packets would not fit Ethernet with what repair adds (18 bytes, 30 with parity's own
/// header), and no receiver of ours takes them.
const PACKET_BYTES_MAX: u16 = 1440;
/// SMPTE ST 2022-1 takes the port of the media, of its RTCP, and those two and four above.
const PARITY_PORTS: u16 = 6;

/// Sending again.
#[derive(Args, Debug)]
pub(super) struct ResendArgs {
    /// Retransmit lost packets: receivers request them (RFC 4585), wait this many milliseconds
    /// for them, and get them again in a stream of their own (RFC 4588)
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u16).range(20..=10_000), conflicts_with_all = ["resend", "keep"])]
    repair_window: Option<u16>,
    /// Retransmit packets that receivers request (RFC 4585): rtx, in a stream of its own (RFC
    /// 4588), or plain, the same packet again in the same stream
    #[arg(long, value_name = "HOW", value_enum)]
    resend: Option<How>,
    /// For how many milliseconds sent packets are kept for retransmission [default: 1000]
    #[arg(long, value_name = "MS", requires = "resend", value_parser = clap::value_parser!(u16).range(10..=60_000))]
    keep: Option<u16>,
}

/// Parity.
#[derive(Args, Debug)]
pub(super) struct ParityArgs {
    /// Send parity packets, from which receivers recover lost packets without a request: packets in
    /// a row x packets in a column, such as 8x5
    #[arg(long, value_name = "COLUMNSxROWS")]
    parity: Option<Matrix>,
    /// What is protected: columns recover a burst as long as a row, rows recover single losses,
    /// both recover most
    #[arg(
        long,
        value_name = "WHICH",
        value_enum,
        requires = "parity",
        default_value = "both"
    )]
    protect: Protect,
    /// How parity is sent: smpte2022-1, on the ports two and four above, or ulpfec (RFC 5109),
    /// beside the media [default: smpte2022-1 for MPEG-TS, ulpfec for all else]
    #[arg(long, value_name = "FORMAT", value_enum, requires = "parity")]
    parity_format: Option<ParityFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// As a stream of its own (RFC 4588)
    Rtx,
    /// The same packet once more, for receivers that know nothing of RFC 4588
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protect {
    /// A packet of parity for each column
    Columns,
    /// A packet of parity for each row
    Rows,
    /// Both
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ParityFormat {
    /// SMPTE ST 2022-1, which receivers of MPEG-TS know
    #[value(name = "smpte2022-1")]
    Smpte2022,
    /// RFC 5109
    Ulpfec,
}

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrix(Shape);

impl FromStr for Matrix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once(['x', 'X']).and_then(|(columns, rows)| {
            let columns = columns.parse().ok()?;
            Some((columns, rows.parse().ok()?))
        });
        let (columns, rows) =
            numbers.ok_or_else(|| format!("{} is not COLUMNSxROWS, such as 8x5", escaped(text)))?;
        let shape = Shape::new(columns, rows).map_err(|refused| refused.to_string());
        shape.map(Self)
    }
}

impl ResendArgs {
    /// What the library is to do.
    pub(super) fn resend(&self) -> Option<Resend> {
        let mut resend = Resend::default();
        match (self.repair_window, self.resend) {
            (Some(delay), _) => {
                let wait = Duration::from_millis(delay.into());
                (resend.wait, resend.keep) = (Some(wait), wait + REPAIR_WINDOW_MARGIN);
            }
            (None, Some(how)) => {
                let keep = self.keep.map(|ms| Duration::from_millis(ms.into()));
                resend.keep = keep.unwrap_or(resend.keep);
                resend.payload_type = resend.payload_type.filter(|_| how == How::Rtx);
            }
            (None, None) => return None,
        }
        let packets = KEPT_PER_SECOND * resend.keep.as_millis() / 1000;
        let packets = usize::try_from(packets).unwrap_or(PACKETS_MAX);
        resend.packets_max = packets.clamp(resend.packets_max, PACKETS_MAX);
        Some(resend)
    }
}

impl ParityArgs {
    /// What the library is to do for a stream of this kind.
    fn parity(&self, encoding: Encoding) -> Option<Parity> {
        let Matrix(shape) = self.parity?;
        let usual = match encoding {
            Encoding::MpegTs => ParityFormat::Smpte2022,
            _ => ParityFormat::Ulpfec,
        };
        let format = self.parity_format.unwrap_or(usual);
        Some(Parity {
            shape,
            protection: match self.protect {
                Protect::Columns => Protection::Columns,
                Protect::Rows => Protection::Rows,
                Protect::Both => Protection::Both,
            },
            payload_type: (format == ParityFormat::Ulpfec).then_some(ULPFEC_PAYLOAD_TYPE),
        })
    }
}

/// What the options say for a stream of this kind with packets of so many bytes.
pub(super) fn repair(
    resend: &ResendArgs,
    parity: &ParityArgs,
    encoding: Encoding,
    packet_bytes: u16,
) -> Result<Repair, CliError> {
    let repair = Repair {
        resend: resend.resend(),
        parity: parity.parity(encoding),
    };
    if let Some(parity) = &repair.parity {
        check(parity)?;
    }
    let is_asked = repair.resend.is_some() || repair.parity.is_some();
    if is_asked && packet_bytes > PACKET_BYTES_MAX {
        return Err(CliError::WrongUse(format!(
            "--packet-bytes {packet_bytes}: packets that can be repaired have at most {PACKET_BYTES_MAX}, so that what repair adds fits a packet of Ethernet"
        )));
    }
    Ok(repair)
}

/// Refuses a matrix that the format does not have.
fn check(parity: &Parity) -> Result<(), CliError> {
    let format = match parity.payload_type {
        None => Format::Smpte2022,
        Some(payload_type) => Format::Ulpfec {
            payload_type,
            ssrc: 0,
        },
    };
    let made = Encoder::new(format, parity.shape, parity.protection, PACKET_BYTES_MAX, 0);
    made.map(|_| ())
        .map_err(|refused| CliError::WrongUse(format!("--parity: {refused}")))
}

/// Why a destination cannot be sent parity beside `others`, if it cannot.
pub(super) fn collision(
    parity: Option<Parity>,
    address: SocketAddr,
    others: impl IntoIterator<Item = SocketAddr>,
) -> Option<String> {
    let smpte2022 = parity.filter(|parity| parity.payload_type.is_none());
    smpte2022?;
    if address.port().checked_add(PARITY_PORTS - 1).is_none() {
        return Some(format!(
            "{address}: parity goes to the ports two and four above, which there are not"
        ));
    }
    let is_near = |other: &SocketAddr| {
        other.ip() == address.ip() && other.port().abs_diff(address.port()) < PARITY_PORTS
    };
    let other = others.into_iter().find(is_near)?;
    Some(format!(
        "{address}: parity goes to the ports two and four above, where {other} would get it or send its own: ports of one host are {PARITY_PORTS} apart then, or --parity-format ulpfec"
    ))
}

/// How long a receiver waits for a missing packet of such a stream, unless it was told.
pub(super) fn waited_for(stream: &StreamDescription) -> Duration {
    /// For what has been overtaken only.
    const WITHOUT_REPAIR: Duration = Duration::from_millis(50);
    /// Where nothing says how long: some round trips, or a matrix of usual streams.
    const WITH_REPAIR: Duration = Duration::from_millis(200);
    /// Whatever a description says.
    const MOST: Duration = Duration::from_secs(10);
    let said = stream.retransmission.and_then(|resent| resent.time_ms);
    let said = said.filter(|_| stream.takes_nack);
    match said {
        Some(ms) => Duration::from_millis(ms.into()).clamp(WITHOUT_REPAIR, MOST),
        None if stream.takes_nack || stream.parity.is_some() => WITH_REPAIR,
        None => WITHOUT_REPAIR,
    }
}

/// Leaves nothing of repair in a description.
pub(super) fn without(stream: &mut StreamDescription) {
    stream.has_avpf |= stream.takes_nack; // a server that offers that profile may have no other
    stream.takes_nack = false;
    stream.retransmission = None;
    stream.parity = None;
}

/// Does parity of this stream come to ports of its own?
pub(super) fn has_parity_ports(stream: &StreamDescription) -> bool {
    matches!(stream.parity, Some(sdp::Parity::Smpte2022(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_read_or_refused_with_an_example_or_the_limit() {
        let Matrix(shape) = "8x5".parse().unwrap();
        assert_eq!((shape.columns(), shape.rows()), (8, 5));
        for (text, said) in [
            ("10", "8x5"),
            ("x5", "8x5"),
            ("300x5", "8x5"),
            ("0x5", "1 to 20 columns"),
            ("20x20", "100 packets"),
        ] {
            let refused = text.parse::<Matrix>().unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }

    #[test]
    fn parity_on_ports_of_its_own_keeps_destinations_apart() {
        let parity = |payload_type| {
            Some(Parity {
                shape: Shape::new(8, 5).unwrap(),
                protection: Protection::Both,
                payload_type,
            })
        };
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let own = at("192.0.2.1:5004");
        for (other, collides) in [
            ("192.0.2.1:5006", true),
            ("192.0.2.1:5000", true),
            ("192.0.2.1:5010", false),
            ("192.0.2.2:5004", false),
        ] {
            let found = collision(parity(None), own, [at(other)]);
            assert_eq!(found.is_some(), collides, "{other}: {found:?}");
            assert_eq!(collision(parity(Some(100)), own, [at(other)]), None);
        }
        assert!(collision(parity(None), at("192.0.2.1:65532"), []).is_some());
        assert_eq!(collision(None, at("192.0.2.1:65532"), []), None);
    }

    #[test]
    fn receiver_waits_as_long_as_it_is_told_within_bounds() {
        let mut stream = sdp::parse(
            b"v=0\r\no=- 1 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 5004 RTP/AVP 0\r\n",
        )
        .unwrap()
        .remove(0);
        let ms = |stream: &StreamDescription| waited_for(stream).as_millis();
        assert_eq!(ms(&stream), 50);
        stream.takes_nack = true;
        assert_eq!(ms(&stream), 200);
        for (said, waited) in [(300, 300), (1, 50), (u32::MAX, 10_000)] {
            stream.retransmission = Some(sdp::Retransmission {
                payload_type: 98,
                time_ms: Some(said),
            });
            assert_eq!(ms(&stream), waited);
        }
        without(&mut stream);
        assert_eq!(ms(&stream), 50);
    }
}
