//! Sending several datagrams of one size by one call (`UDP_SEGMENT` as a control message).
//!
//! The flows between hosts call it; rustix does not know this control message. What holds between
//! calls: nothing. A call never blocks and never allocates.

#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io::{self, IoSlice};
use std::mem::{self, size_of};
use std::os::fd::{AsFd, AsRawFd};

/// Most datagrams of one call, and the most bytes of all together: what all kernels that know
/// `UDP_SEGMENT` take.
pub const SEGMENTS_MAX: usize = 64;
/// An IPv4 packet, less its headers.
pub const SEGMENTED_BYTES_MAX: usize = 65_535 - 20 - 8;

/// Header and value, aligned as `struct cmsghdr`, in words of 8 bytes.
const CONTROL_WORDS: usize = 3;

/// Sends `pieces` to where `socket` is connected to, cut into datagrams of `segment_bytes`; the
/// last may be shorter.
///
/// # Errors
///
/// What `sendmsg` says: `EMSGSIZE` or `EINVAL` if a datagram is longer than the path's MTU.
pub fn send_segmented(
    socket: impl AsFd,
    pieces: &[IoSlice<'_>],
    segment_bytes: u16,
) -> io::Result<()> {
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: all bytes zero are a valid value: null pointers and lengths of zero.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the control buffer is as long as the header says, and aligned for it.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    // SAFETY: there is space for a header: `CONTROL_WORDS` words.
    let message = unsafe { &mut *first };
    message.cmsg_level = libc::SOL_UDP;
    message.cmsg_type = libc::UDP_SEGMENT;
    // SAFETY: pure arithmetic.
    message.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u16>() as u32) } as _;
    // SAFETY: the message has `CMSG_LEN` bytes, of which the data are the last.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: two bytes of data fit the buffer, and any alignment serves.
    unsafe { data.cast::<u16>().write_unaligned(segment_bytes) };
    // SAFETY: as above; pure arithmetic.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `IoSlice` has the layout of `struct iovec`; vectors, what they point to and the
    // control buffer live through the call, which only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const header, flags) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn control_buffer_is_long_enough() {
        // SAFETY: pure arithmetic.
        let needed = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) };
        assert!(needed as usize <= CONTROL_WORDS * size_of::<u64>());
        assert!(mem::align_of::<libc::cmsghdr>() <= mem::align_of::<u64>());
    }

    #[test]
    fn pieces_arrive_as_datagrams_of_the_size_that_was_asked_for() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let pieces = [[1; 10].as_slice(), &[2; 990], &[3; 1000], &[4; 17]].map(IoSlice::new);
        match send_segmented(&sender, &pieces, 1000) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                return println!("skipped: no UDP_SEGMENT here: {error}");
            }
            sent => sent.unwrap(),
        }
        let mut buffer = [0; 2000];
        let lengths = [1000, 1000, 17].map(|_| receiver.recv(&mut buffer).unwrap());
        assert_eq!(lengths, [1000, 1000, 17]);
        assert_eq!(buffer[16], 4);
        let too_long = vec![0; 70_000];
        let pieces = [IoSlice::new(&too_long)];
        send_segmented(&sender, &pieces, 1000).unwrap_err();
    }
}
