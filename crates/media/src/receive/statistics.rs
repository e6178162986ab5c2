//! What a receiver counted.

/// What arrived, what did not, and what was made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// RTP packets of the stream that arrived, repeated and late ones included.
    pub packets: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Packets that were given up: [`Stream::gaps`](super::stream::Stream::gaps) names the last of
    /// them. Those of [`Self::late`] are among them.
    pub lost: u64,
    /// Packets that were missing and came by repair, in time: those of
    /// [`Self::recovered_by_parity`], and others that were sent again.
    pub recovered: u64,
    /// Those of them that parity repaired.
    pub recovered_by_parity: u64,
    /// Packets that were missing and came by themselves, in time.
    pub reordered: u64,
    /// Packets that came after they were given up.
    pub late: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Most packets given up in a row.
    pub largest_gap: u64,
    /// Datagrams on the RTP port that are no RTP, and on either port no RTCP, or that did not fit.
    pub malformed: u64,
    /// Payloads that do not follow their RFC.
    pub malformed_payloads: u64,
    /// Packets of another payload type.
    pub other_payload_type: u64,
    /// Packets of sources that are not the stream.
    pub foreign: u64,
    /// How often the stream began anew.
    pub restarts: u64,
    /// How often another source took the place of the stream; each is one of [`Self::restarts`].
    pub source_changes: u64,
    /// Packets with our own SSRC.
    pub collisions: u64,
    /// Interarrival jitter (RFC 3550, 6.4.1), in ticks of the stream's clock. Packets that the
    /// sender sent in one batch arrive at one instant, which counts.
    pub jitter_ticks: u32,
    /// Datagrams that the kernel dropped because nobody took them, batches counting once.
    pub kernel_drops: u32,
    /// RTCP packets that were sent.
    pub reports: u64,
    /// RTCP packets that could not be sent.
    pub reports_failed: u64,
    /// Packets that were asked for; one asked for twice counts twice.
    pub requested: u64,
    /// Sender reports that were believed.
    pub sender_reports: u64,
}
