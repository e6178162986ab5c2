//! Which [`Method`] a destination uses, and what it has learnt about the way there.
//!
//! One per [`Destination`](super::destination::Destination), which asks before each call and tells
//! what a call taught. What holds between calls: a method that was refused is not tried again, and
//! neither is segmentation of packets larger than the path's MTU, until [`PROBE_AGAIN`] has passed
//! or the way was interrupted, when another device may be in use. Never calls the kernel.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::method::Method;
use super::packets::Packets;

/// How long what a way refused is remembered. Routes and devices change without telling; a call per
/// minute does not show.
pub const PROBE_AGAIN: Duration = Duration::from_secs(60);

/// Why a destination does not use the best method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodReason {
    /// Nothing better is known to be refused.
    Best,
    /// It was asked for.
    Forced,
    /// The way refused a better one.
    Refused {
        /// Which.
        method: Method,
        /// What the kernel said to it.
        errno: Errno,
    },
}

impl std::fmt::Display for MethodReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Best => formatter.write_str("the best there is"),
            Self::Forced => formatter.write_str("asked for"),
            Self::Refused { method, errno } => write!(formatter, "{method} was refused: {errno}"),
        }
    }
}

/// The choice of one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodFallback {
    method: Method,
    reason: MethodReason,
    /// Most bytes of a packet that can be segmented, once a larger one was refused.
    segment_bytes_max: Option<u16>,
    /// When the oldest of what is remembered was learnt.
    learnt_at: Option<Instant>,
}

impl MethodFallback {
    /// Begins at the best method, or stays at `forced`.
    pub(crate) fn new(forced: Option<Method>) -> Self {
        Self {
            method: forced.unwrap_or(Method::SendfileGso),
            reason: forced.map_or(MethodReason::Best, |_| MethodReason::Forced),
            segment_bytes_max: None,
            learnt_at: None,
        }
    }

    /// The method in use for packets that allow every method, and why.
    pub(crate) fn method(&self) -> (Method, MethodReason) {
        (self.method, self.reason)
    }

    /// The method for the first of `packets`.
    pub(crate) fn choose(&mut self, packets: &Packets<'_>, now: Instant) -> Method {
        let is_old = |learnt| now.saturating_duration_since(learnt) >= PROBE_AGAIN;
        if self.learnt_at.is_some_and(is_old) {
            self.forget();
        }
        let bytes = packets.places().first().map_or(0, |first| first.bytes);
        let is_too_large = self.segment_bytes_max.is_some_and(|max| bytes > max);
        if is_too_large && self.method.segments() {
            return Method::Sendmmsg;
        }
        match self.method {
            Method::SendfileGso if !packets.may_be_referenced() => Method::MappedGso,
            method => method,
        }
    }

    /// The method to try where `method` is refused.
    pub(crate) fn lower(&self, method: Method) -> Option<Method> {
        match self.reason {
            MethodReason::Forced => None,
            _ => method.lower(),
        }
    }

    /// `method` did what `refused`, a better one, did not.
    pub(crate) fn fall_back(
        &mut self,
        method: Method,
        refused: Method,
        errno: Errno,
        now: Instant,
    ) {
        self.method = method;
        self.reason = MethodReason::Refused {
            method: refused,
            errno,
        };
        self.learnt_at.get_or_insert(now);
    }

    /// Packets of more than `bytes` are not segmented on this way. Whether that helps: not where a
    /// method is forced.
    pub(crate) fn limit_segments(&mut self, bytes: u16, now: Instant) -> bool {
        self.segment_bytes_max = Some(bytes);
        self.learnt_at.get_or_insert(now);
        self.reason != MethodReason::Forced
    }

    /// Tries everything again.
    pub(crate) fn forget(&mut self) {
        let forced = (self.reason == MethodReason::Forced).then_some(self.method);
        *self = Self::new(forced);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PacketMemory;
    use crate::wire::run::PacketPlace;
    use std::os::fd::AsFd;

    const PLACE: PacketPlace = PacketPlace {
        offset: 0,
        bytes: 1400,
        sequence: 0,
        due_ns: 0,
    };

    fn with_packets(test: impl FnOnce(Packets<'_>, Packets<'_>)) {
        let input = std::io::stdin();
        let memory = PacketMemory {
            file: Some(input.as_fd()),
            file_offset: 0,
            bytes: &[0; 1400],
        };
        let lasting = Packets::lasting(memory, &[PLACE]).unwrap();
        let passing = Packets::passing(memory, &[PLACE]).unwrap();
        test(lasting, passing);
    }

    #[test]
    fn pages_that_are_written_again_are_not_sent_by_reference() {
        with_packets(|lasting, passing| {
            let mut fallback = MethodFallback::new(None);
            let now = Instant::now();
            assert_eq!(fallback.choose(&lasting, now), Method::SendfileGso);
            assert_eq!(fallback.choose(&passing, now), Method::MappedGso);
            let headers = [[0; 12]];
            let headed = lasting.with_headers(&headers).unwrap();
            assert_eq!(fallback.choose(&headed, now), Method::MappedGso);
        });
    }

    #[test]
    fn what_was_refused_is_remembered_and_tried_again_after_a_while() {
        with_packets(|lasting, _| {
            let mut fallback = MethodFallback::new(None);
            let now = Instant::now();
            fallback.fall_back(Method::Sendmmsg, Method::SendfileGso, Errno::IO, now);
            let soon = now + PROBE_AGAIN - Duration::from_millis(1);
            assert_eq!(fallback.choose(&lasting, soon), Method::Sendmmsg);
            assert_eq!(
                fallback.choose(&lasting, now + PROBE_AGAIN),
                Method::SendfileGso
            );
        });
    }

    #[test]
    fn only_packets_that_are_too_large_are_sent_singly() {
        with_packets(|lasting, _| {
            let mut fallback = MethodFallback::new(None);
            let now = Instant::now();
            assert!(fallback.limit_segments(1399, now));
            assert_eq!(fallback.choose(&lasting, now), Method::Sendmmsg);
            assert!(fallback.limit_segments(1400, now));
            assert_eq!(fallback.choose(&lasting, now), Method::SendfileGso);
        });
    }

    #[test]
    fn forced_method_stays() {
        let mut fallback = MethodFallback::new(Some(Method::MappedGso));
        assert_eq!(fallback.lower(Method::MappedGso), None);
        assert!(!fallback.limit_segments(100, Instant::now()));
        fallback.forget();
        assert_eq!(fallback.method(), (Method::MappedGso, MethodReason::Forced));
    }
}
