//! The little of rtnetlink that is asked here: which interface leads to an address, and which
//! packet schedulers interfaces have.
//!
//! Requests and answers are bytes (rtnetlink(7), netlink(7)), in the byte order of this machine;
//! nothing here calls the kernel. An answer is read as far as it is sound: lengths are checked,
//! what is not known is passed over.

use std::net::IpAddr;

/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct rtmsg`, `struct tcmsg`, `struct rtattr`.
const ROUTE_BYTES: usize = 12;
const SCHEDULER_BYTES: usize = 20;
const ATTRIBUTE_BYTES: usize = 4;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// Bits of an attribute's type that are not its number.
const ATTRIBUTE_FLAGS: u16 = 0xc000;

/// Changes of interfaces, schedulers and routes, as a mask for the address of a netlink socket
/// (`RTMGRP_LINK` and its like).
pub(super) const CHANGES: u32 = 1 << 0 | 1 << 3 | 1 << 6 | 1 << 10;

/// A scheduler of an interface, or of a class of another scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Qdisc {
    pub(super) interface: u32,
    /// Its own number, `MAJOR:0` in 32 bits.
    pub(super) handle: u32,
    /// The class that it serves, or [`ROOT`].
    pub(super) parent: u32,
    pub(super) kind: String,
    /// As its kind defines them.
    pub(super) options: Vec<u8>,
}

/// The parent of an interface's own scheduler (`TC_H_ROOT`).
pub(super) const ROOT: u32 = u32::MAX;

/// What an answer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The interface that the route leaves by.
    Interface(u32),
    Qdisc(Qdisc),
    /// The end of a list.
    Done,
    /// A refusal, as an `errno`; 0 is an acknowledgement.
    Error(i32),
}

/// Asks for the way to `to`.
pub(super) fn route_request(to: IpAddr) -> Vec<u8> {
    let (family, address) = match to {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    };
    let mut body = vec![0; ROUTE_BYTES];
    body[0] = family;
    body[1] = (address.len() * 8) as u8;
    body.extend(((ATTRIBUTE_BYTES + address.len()) as u16).to_ne_bytes());
    body.extend(RTA_DST.to_ne_bytes());
    body.extend(address);
    request(RTM_GETROUTE, NLM_F_REQUEST, &body)
}

/// Asks for all schedulers of all interfaces: the kernel does not choose among them.
pub(super) fn qdiscs_request() -> Vec<u8> {
    request(
        RTM_GETQDISC,
        NLM_F_REQUEST | NLM_F_DUMP,
        &[0; SCHEDULER_BYTES],
    )
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence and port: each question has a socket of its own.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// The answers in one datagram.
pub(super) fn answers(datagram: &[u8]) -> impl Iterator<Item = Answer> {
    parts(datagram, HEADER_BYTES, |header| {
        let length = u32::from_ne_bytes(*header.first_chunk()?) as usize;
        Some((length, u16::from_ne_bytes(*header.get(4..)?.first_chunk()?)))
    })
    .filter_map(|(kind, body)| answer(kind, body))
}

fn answer(kind: u16, body: &[u8]) -> Option<Answer> {
    match kind {
        NLMSG_DONE => Some(Answer::Done),
        // The kernel's errors are negative.
        NLMSG_ERROR => {
            let error = i32::from_ne_bytes(*body.first_chunk()?);
            Some(Answer::Error(error.saturating_neg()))
        }
        RTM_NEWROUTE => attributes(body.get(ROUTE_BYTES..)?).find_map(|(kind, value)| {
            let interface = || Some(u32::from_ne_bytes(*value.first_chunk()?));
            (kind == RTA_OIF)
                .then(interface)
                .flatten()
                .map(Answer::Interface)
        }),
        RTM_NEWQDISC => qdisc(body).map(Answer::Qdisc),
        _ => None,
    }
}

fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let word = |at: usize| Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?));
    let mut found = Qdisc {
        interface: word(4)?,
        handle: word(8)?,
        parent: word(12)?,
        kind: String::new(),
        options: Vec::new(),
    };
    for (kind, value) in attributes(body.get(SCHEDULER_BYTES..)?) {
        match kind {
            TCA_KIND => {
                let name = value.split(|byte| *byte == 0).next()?;
                found.kind = String::from_utf8_lossy(name).into_owned();
            }
            TCA_OPTIONS => found.options = value.to_vec(),
            _ => {}
        }
    }
    (!found.kind.is_empty()).then_some(found)
}

/// Attributes one behind the other: number and value.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    parts(bytes, ATTRIBUTE_BYTES, |header| {
        let length = u16::from_ne_bytes(*header.first_chunk()?);
        let kind = u16::from_ne_bytes(*header.get(2..)?.first_chunk()?);
        Some((length.into(), kind & !ATTRIBUTE_FLAGS))
    })
}

/// Parts with a header that gives their length, header included, and kind; each begins at a
/// multiple of four bytes. Ends at the first that is not sound.
fn parts(
    bytes: &[u8],
    header_bytes: usize,
    read: impl Fn(&[u8]) -> Option<(usize, u16)>,
) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, kind) = read(rest.get(..header_bytes)?)?;
        let body = rest.get(header_bytes..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message as the kernel writes it.
    pub(crate) fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = request(kind, 2, body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = (ATTRIBUTE_BYTES + value.len()) as u16;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn scheduler(numbers: [u32; 3], kind: &str, options: &[u8]) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        body.extend([9; 4]);
        body.extend(attribute(TCA_KIND, &[kind.as_bytes(), &[0]].concat()));
        body.extend(attribute(TCA_OPTIONS | 0x8000, options));
        // Statistics, which nobody asked for.
        body.extend(attribute(3, &[7; 21]));
        message(RTM_NEWQDISC, &body)
    }

    #[test]
    fn requests_are_what_the_kernel_reads() {
        let route = route_request("192.0.2.7".parse().unwrap());
        assert_eq!(route.len(), 16 + 12 + 8);
        assert_eq!(route[..4], 36_u32.to_ne_bytes());
        assert_eq!(route[4..8], [26_u16, 1].map(u16::to_ne_bytes).concat());
        assert_eq!(route[16..18], [2, 32]);
        assert_eq!(route[28..32], [8_u16, 1].map(u16::to_ne_bytes).concat());
        assert_eq!(route[32..], [192, 0, 2, 7]);
        let route = route_request("::1".parse().unwrap());
        assert_eq!(
            (route.len(), &route[16..18]),
            (16 + 12 + 20, &[10, 128][..])
        );
        let qdiscs = qdiscs_request();
        assert_eq!(qdiscs[4..8], [38_u16, 0x301].map(u16::to_ne_bytes).concat());
        assert_eq!(qdiscs.len(), 36);
    }

    #[test]
    fn parser_reads_schedulers_options_and_list_end() {
        let mut datagram = scheduler([3, 0x8001_0000, ROOT], "fq", &[1, 2, 3]);
        datagram.extend(scheduler([4, 0x10_0000, 0x1_0010], "etf", &[5; 16]));
        datagram.extend(message(NLMSG_DONE, &[0; 4]));
        let found: Vec<Answer> = answers(&datagram).collect();
        let [Answer::Qdisc(fq), Answer::Qdisc(etf), Answer::Done] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((fq.interface, fq.handle, fq.parent), (3, 0x8001_0000, ROOT));
        assert_eq!((&fq.kind[..], &fq.options[..]), ("fq", &[1, 2, 3][..]));
        assert_eq!((etf.interface, etf.parent), (4, 0x1_0010));
        assert_eq!((&etf.kind[..], etf.options.len()), ("etf", 16));
    }

    #[test]
    fn route_names_its_interface_and_a_refusal_its_reason() {
        let mut body = vec![0; ROUTE_BYTES];
        body.extend(attribute(RTA_DST, &[127, 0, 0, 1]));
        body.extend(attribute(RTA_OIF, &7_u32.to_ne_bytes()));
        let datagram = message(RTM_NEWROUTE, &body);
        assert_eq!(
            answers(&datagram).collect::<Vec<_>>(),
            [Answer::Interface(7)]
        );
        let refused = message(NLMSG_ERROR, &(-101_i32).to_ne_bytes());
        assert_eq!(answers(&refused).collect::<Vec<_>>(), [Answer::Error(101)]);
    }

    #[test]
    fn parser_reads_sound_part_of_damaged_answers() {
        let whole = scheduler([3, 0x8001_0000, ROOT], "fq", &[1, 2, 3]);
        for end in 0..whole.len() {
            assert_eq!(answers(&whole[..end]).count(), 0, "{end} bytes");
        }
        for length in [0, 1, 15, u32::MAX] {
            let mut false_one = whole.clone();
            false_one[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(answers(&false_one).count(), 0, "{length}");
        }
        // Every value of every byte: no panic, no endless list.
        for at in 0..whole.len() {
            for value in 0..=255 {
                let mut damaged = whole.clone();
                damaged[at] = value;
                assert!(answers(&damaged).count() <= 1);
            }
        }
    }
}
