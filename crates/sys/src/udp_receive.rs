//! Receiving datagrams: many per call, or many in one buffer (`UDP_GRO`), each with its source and
//! its instant.
//!
//! The receiving socket of the media hop calls it; rustix knows neither `recvmmsg` nor these
//! control messages. What holds between calls: nothing. A call never blocks, never allocates, and
//! never believes a length that it did not get from the kernel itself.

#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::mem::{self, MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};

use crate::socket_option::{SocketOption, set_raw, set_socket_option};

/// Most messages of one call.
pub const MESSAGES_MAX: usize = 32;

/// A buffer of this size holds whatever the kernel joins: a UDP datagram, or a batch of them, has
/// less than 64 KiB.
pub const BATCH_BYTES: usize = 1 << 16;

/// `struct sockaddr_in6`, which is the larger one.
const NAME_BYTES: usize = 28;
/// Two control messages: segment size (header of 16, 4 bytes, padding) and time (header, 16 bytes),
/// and room for a third.
const CONTROL_WORDS: usize = 16;
/// `struct cmsghdr`: a length as wide as a pointer, level, type.
const CONTROL_HEADER_BYTES: usize = size_of::<usize>() + 8;

/// A datagram, or several joined by the kernel, as it lies in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Length of all.
    pub bytes: usize,
    /// Length of each datagram in it; the last one may be shorter. As [`Self::bytes`] where nothing
    /// was joined.
    pub segment_bytes: usize,
    /// Who sent it.
    pub source: SocketAddr,
    /// When it arrived, in nanoseconds since 1970; `None` without [`enable_timestamps`].
    pub arrived_unix_ns: Option<u64>,
    /// It was longer than its part of the buffer, and the rest is gone.
    pub is_truncated: bool,
}

impl Message {
    /// No message: what an array is filled with.
    pub const NONE: Self = Self {
        bytes: 0,
        segment_bytes: 0,
        source: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        arrived_unix_ns: None,
        is_truncated: false,
    };
}

/// Lets the kernel hand over datagrams that came together, from one source and of one size, as one
/// message. From then on a buffer of less than [`BATCH_BYTES`] may truncate.
///
/// # Errors
///
/// Protocol not available before Linux 5.0.
pub fn enable_gro(socket: impl AsFd) -> io::Result<()> {
    set_socket_option(socket, SocketOption::UdpGro, 1)
}

/// Has the kernel note when each datagram arrived. It begins a little later, if no socket had it do
/// so: those that come before are given the time at which they are read.
///
/// # Errors
///
/// What `setsockopt` says.
pub fn enable_timestamps(socket: impl AsFd) -> io::Result<()> {
    set_raw(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
}

/// How many datagrams (joined ones count once) this socket lost since it was made because its
/// buffer was full, modulo 2^32. Unlike the control message `SO_RXQ_OVFL` it knows of those that
/// were lost behind the last one received.
///
/// # Errors
///
/// What `getsockopt` says.
pub fn drops(socket: impl AsFd) -> io::Result<u32> {
    let mut figures = [0_u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut length = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: `figures` is valid for writes of `length` bytes, and any bytes are a valid value of
    // it; `length` is valid for reads and writes. The kernel keeps neither pointer.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok(figures[libc::SK_MEMINFO_DROPS as usize])
}

/// Joins a multicast group, for packets of one source only. `interface` by its index, 0: where the
/// way to the group leads.
///
/// # Errors
///
/// What `setsockopt` says; invalid input if group and source are not of one family.
pub fn join_source(
    socket: impl AsFd,
    group: IpAddr,
    source: IpAddr,
    interface: u32,
) -> io::Result<()> {
    if group.is_ipv4() != source.is_ipv4() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // `struct group_source_req`: the index, then two `struct sockaddr_storage`, each aligned as a
    // pointer.
    const STORAGE_BYTES: usize = size_of::<libc::sockaddr_storage>();
    const GROUP_AT: usize = mem::offset_of!(libc::group_source_req, gsr_group);
    const SOURCE_AT: usize = mem::offset_of!(libc::group_source_req, gsr_source);
    let mut request = [0; SOURCE_AT + STORAGE_BYTES];
    request[..4].copy_from_slice(&interface.to_ne_bytes());
    request[GROUP_AT..][..NAME_BYTES].copy_from_slice(&name_of(group));
    request[SOURCE_AT..][..NAME_BYTES].copy_from_slice(&name_of(source));
    let level = if group.is_ipv4() {
        libc::SOL_IP
    } else {
        libc::SOL_IPV6
    };
    set_raw(socket, level, libc::MCAST_JOIN_SOURCE_GROUP, &request)
}

/// Takes what waits in `socket`, at most `messages.len()`, [`MESSAGES_MAX`], and as many as
/// `buffer` has parts of `part` bytes; message `n` lies at `n * part`. Returns how many; 0 if none
/// waits.
///
/// # Errors
///
/// What `recvmmsg` says; invalid input if `buffer` has no whole part.
pub fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    part: NonZeroUsize,
    messages: &mut [Message],
) -> io::Result<usize> {
    let count = messages.len().min(buffer.len() / part).min(MESSAGES_MAX);
    if count == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut names = [[0_u32; NAME_BYTES / 4]; MESSAGES_MAX];
    let mut controls = [[0_u64; CONTROL_WORDS]; MESSAGES_MAX];
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; MESSAGES_MAX];
    // SAFETY: all bytes zero are a valid value of these structures: null pointers and lengths of
    // zero.
    let mut headers: [libc::mmsghdr; MESSAGES_MAX] = unsafe { mem::zeroed() };
    for (index, bytes) in buffer.chunks_exact_mut(part.get()).take(count).enumerate() {
        let vector = vectors[index].write(libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        });
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        header.msg_name = names[index].as_mut_ptr().cast();
        header.msg_namelen = NAME_BYTES as libc::socklen_t;
        header.msg_control = controls[index].as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&controls[index]) as _;
    }
    // SAFETY: the first `count` headers point to a vector, a name and control words of their own,
    // each valid for writes of the length that stands beside it, which live through the call;
    // vectors point to distinct parts of `buffer`. Nothing is kept.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let received = match check(received) {
        Ok(received) => received,
        Err(error) if is_nothing(&error) => return Ok(0),
        Err(error) => return Err(error),
    };
    for index in 0..received {
        let header = &headers[index];
        let mut message = Message {
            bytes: (header.msg_len as usize).min(part.get()),
            source: address_in(&names[index]),
            is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            ..Message::NONE
        };
        message.segment_bytes = message.bytes;
        let used = header.msg_hdr.msg_controllen as usize;
        read_controls(&controls[index], used, &mut message);
        messages[index] = message;
    }
    Ok(received)
}

fn is_nothing(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::WouldBlock || kind == io::ErrorKind::Interrupted
}

/// Reads the control messages in the first `used` bytes of `words`.
fn read_controls(words: &[u64; CONTROL_WORDS], used: usize, message: &mut Message) {
    let mut bytes = [0; 8 * CONTROL_WORDS];
    for (into, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *into = word.to_ne_bytes();
    }
    let mut rest = &bytes[..used.min(bytes.len())];
    while let Some((header, behind)) = rest.split_at_checked(CONTROL_HEADER_BYTES) {
        let (length, kind) = header.split_at(size_of::<usize>());
        let length = word(length, 0);
        let Some(data) = length
            .checked_sub(CONTROL_HEADER_BYTES)
            .and_then(|length| behind.get(..length))
        else {
            return;
        };
        match (int(kind, 0), int(kind, 4)) {
            (libc::SOL_UDP, libc::UDP_GRO) if data.len() >= 4 => {
                let segment = int(data, 0);
                // A size of 0 would not end; more than all is one.
                if segment > 0 && (segment as usize) < message.bytes {
                    message.segment_bytes = segment as usize;
                }
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => message.arrived_unix_ns = time(data),
            _ => {}
        }
        rest = rest
            .get(length.next_multiple_of(size_of::<usize>())..)
            .unwrap_or_default();
    }
}

/// Seconds and nanoseconds, each as wide as a `long` of the kernel.
fn time(data: &[u8]) -> Option<u64> {
    let half = size_of::<usize>();
    let (seconds, nanoseconds) = (data.get(..half)?, data.get(half..2 * half)?);
    let seconds = word(seconds, 0) as u64;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(word(nanoseconds, 0) as u64)
}

fn word(bytes: &[u8], at: usize) -> usize {
    let mut word = [0; size_of::<usize>()];
    word.copy_from_slice(&bytes[at..][..size_of::<usize>()]);
    usize::from_ne_bytes(word)
}

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The address that the kernel wrote; unspecified if it is of another family.
fn address_in(words: &[u32; NAME_BYTES / 4]) -> SocketAddr {
    let [first, second, a, b, c, d, scope] = *words;
    let [family, more_family, port, more_port] = first.to_ne_bytes();
    let port = u16::from_be_bytes([port, more_port]);
    match i32::from(u16::from_ne_bytes([family, more_family])) {
        libc::AF_INET => SocketAddrV4::new(second.to_ne_bytes().into(), port).into(),
        libc::AF_INET6 => {
            let mut octets = [0; 16];
            for (into, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip([a, b, c, d]) {
                *into = word.to_ne_bytes();
            }
            // The flow label is the sender's; two packets of one stream may differ in it.
            SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into()
        }
        _ => Message::NONE.source,
    }
}

/// `struct sockaddr_in` or `sockaddr_in6` without a port.
fn name_of(address: IpAddr) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    let family = match address {
        IpAddr::V4(address) => {
            name[4..8].copy_from_slice(&address.octets());
            libc::AF_INET
        }
        IpAddr::V6(address) => {
            name[8..24].copy_from_slice(&address.octets());
            libc::AF_INET6
        }
    };
    name[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
    name
}

fn check(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_negative| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const PART: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

    fn pair(host: &str) -> Option<(UdpSocket, UdpSocket)> {
        let receiver = UdpSocket::bind((host, 0)).ok()?;
        let sender = UdpSocket::bind((host, 0)).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        Some((sender, receiver))
    }

    #[test]
    fn datagrams_come_with_source_and_time_and_keep_their_bounds() {
        for host in ["127.0.0.1", "::1"] {
            let Some((sender, receiver)) = pair(host) else {
                println!("skipped: no {host} here");
                continue;
            };
            enable_timestamps(&receiver).unwrap();
            for length in [0, 1, 2048, 2049] {
                sender.send(&vec![length as u8; length]).unwrap();
            }
            let mut buffer = vec![0; 8 * PART.get()];
            let mut messages = [Message::NONE; MESSAGES_MAX];
            let count = receive(&receiver, &mut buffer, PART, &mut messages).unwrap();
            assert_eq!(count, 4);
            let lengths = messages[..4].iter().map(|message| message.bytes);
            assert_eq!(lengths.collect::<Vec<_>>(), [0, 1, 2048, 2048]);
            assert_eq!(buffer[PART.get()], 1);
            assert_eq!(buffer[3 * PART.get()], 2049_u16 as u8);
            for (index, message) in messages[..4].iter().enumerate() {
                assert_eq!(message.source, sender.local_addr().unwrap());
                assert_eq!(message.segment_bytes, message.bytes);
                assert_eq!(message.is_truncated, index == 3);
                let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
                let age = (now.as_nanos() as u64).abs_diff(message.arrived_unix_ns.unwrap());
                assert!(age < 3_600_000_000_000, "{age}");
            }
            let none = receive(&receiver, &mut buffer, PART, &mut messages).unwrap();
            assert_eq!(none, 0);
        }
    }

    #[test]
    fn joined_datagrams_come_as_one_message_with_their_size() {
        let (sender, receiver) = pair("127.0.0.1").unwrap();
        if let Err(error) = enable_gro(&receiver) {
            return println!("skipped: no UDP_GRO here: {error}");
        }
        set_socket_option(&sender, SocketOption::UdpSegment, 1000).unwrap();
        let sent: Vec<u8> = (0..3100_u32).map(|byte| (byte / 7) as u8).collect();
        sender.send(&sent).unwrap();
        let mut buffer = vec![0; BATCH_BYTES];
        let mut messages = [Message::NONE];
        let part = NonZeroUsize::new(BATCH_BYTES).unwrap();
        assert_eq!(
            receive(&receiver, &mut buffer, part, &mut messages).unwrap(),
            1
        );
        assert_eq!((messages[0].bytes, messages[0].segment_bytes), (3100, 1000));
        assert_eq!(buffer[..3100], sent);
        assert!(!messages[0].is_truncated);
    }

    #[test]
    fn full_buffer_is_counted_and_a_buffer_without_a_part_refused() {
        let (sender, receiver) = pair("127.0.0.1").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 4096).unwrap();
        assert_eq!(drops(&receiver).unwrap(), 0);
        for _ in 0..100 {
            sender.send(&[0; 1000]).unwrap();
        }
        let mut buffer = vec![0; 64 * PART.get()];
        let mut messages = [Message::NONE; 64];
        let mut received = 0;
        while let Ok(count @ 1..) = receive(&receiver, &mut buffer, PART, &mut messages) {
            assert!(count <= MESSAGES_MAX);
            received += count as u32;
        }
        assert_eq!(received + drops(&receiver).unwrap(), 100);
        assert!(received < 100);
        let error = receive(&receiver, &mut buffer[..10], PART, &mut messages).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn groups_are_joined_for_one_source() {
        let receiver = UdpSocket::bind("0.0.0.0:0").unwrap();
        let group = "232.1.2.3".parse().unwrap();
        let source = "127.0.0.1".parse().unwrap();
        let loopback = 1;
        join_source(&receiver, group, source, loopback).unwrap();
        // The same again: the kernel knows it already.
        join_source(&receiver, group, source, loopback).unwrap_err();
        let error = join_source(&receiver, group, "::1".parse().unwrap(), loopback).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let Ok(receiver) = UdpSocket::bind("[::]:0") else {
            return println!("skipped: no IPv6 here");
        };
        let group = "ff31::8000:1".parse().unwrap();
        join_source(&receiver, group, "::1".parse().unwrap(), loopback).unwrap();
    }

    #[test]
    fn control_messages_of_any_shape_are_read_without_harm() {
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let mut words = [0; CONTROL_WORDS];
            for word in &mut words {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *word = match seed >> 62 {
                    0 => seed >> 33,
                    1 => (seed >> 33) % 64,
                    2 => u64::MAX,
                    _ => (17 | 104 << 32) + (seed >> 60),
                };
            }
            let mut message = Message {
                bytes: 100,
                segment_bytes: 100,
                ..Message::NONE
            };
            read_controls(&words, (seed >> 40) as usize % 200, &mut message);
            assert!((1..=100).contains(&message.segment_bytes));
        }
    }
}
