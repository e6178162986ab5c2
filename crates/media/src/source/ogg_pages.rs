//! Pages of an Ogg file (RFC 3533), found and bounded here, checked and taken apart by the crate
//! `ogg`.
//!
//! The crate's own file reader needs to seek, keeps a page of every stream that a file claims to
//! have, and joins packets without a limit. So pages are found here, those of other streams are
//! left out, and a packet that grows beyond [`PACKET_BYTES_MAX`] is dropped; the crate checks the
//! sum of each page and joins what continues from page to page.

use ogg::reading::{BasePacketReader, OggPage, OggReadError, PageParser};

use super::Input;
use crate::MediaError;

/// What every page begins with.
pub(super) const CAPTURE: &[u8; 4] = b"OggS";
/// Bytes of a page's header, in front of the table of segments.
const HEADER_BYTES: usize = 27;
/// The longest packet joined: RFC 7845, section 6 wants 61,440 bytes of audio; tags with a picture
/// are longer.
const PACKET_BYTES_MAX: usize = 4 << 20;
/// Granule position of a page on which no packet ends.
const NO_GRANULE: u64 = u64::MAX;
const FLAG_CONTINUED: u8 = 1;
const FLAG_FIRST: u8 = 2;
const FLAG_LAST: u8 = 4;

/// The packets that end on one page.
#[derive(Debug)]
pub(super) struct Page {
    /// The first of its stream.
    pub(super) is_first: bool,
    /// The last of its stream: its granule position may cut the last packet short.
    pub(super) is_last: bool,
    /// Pages in front of it are missing.
    pub(super) after_gap: bool,
    /// Where the last of its packets ends, as the codec counts.
    pub(super) granule: Option<u64>,
    /// Whole packets.
    pub(super) packets: Vec<Vec<u8>>,
}

/// A page's header, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Header {
    bytes: [u8; HEADER_BYTES],
}

impl Header {
    fn has(&self, flag: u8) -> bool {
        self.bytes[5] & flag != 0
    }

    fn granule(&self) -> u64 {
        let bytes = &self.bytes;
        u64::from_le_bytes([
            bytes[6], bytes[7], bytes[8], bytes[9], bytes[10], bytes[11], bytes[12], bytes[13],
        ])
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = &self.bytes;
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn serial(&self) -> u32 {
        self.word(14)
    }

    fn sequence(&self) -> u32 {
        self.word(18)
    }
}

/// Reads the pages of one stream after the other.
pub(super) struct OggPages {
    input: Input,
    /// First bytes of the first packet of streams that are read; others are left out.
    magic: &'static [u8],
    reader: BasePacketReader,
    serial: Option<u32>,
    /// Number of the next page.
    sequence: u32,
    /// Only pages that begin a stream were read so far: another one of our kind lies beside ours,
    /// not behind it.
    is_beginning: bool,
    /// Of a packet that goes on on the next page.
    joined_bytes: usize,
    damaged: u64,
}

impl std::fmt::Debug for OggPages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OggPages")
            .field("input", &self.input)
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

impl OggPages {
    /// Reads streams whose first packet begins with `magic`.
    pub(super) fn new(input: Input, magic: &'static [u8]) -> Self {
        Self {
            input,
            magic,
            reader: BasePacketReader::new(),
            serial: None,
            sequence: 0,
            is_beginning: true,
            joined_bytes: 0,
            damaged: 0,
        }
    }

    pub(super) fn damaged(&self) -> u64 {
        self.damaged
    }

    pub(super) fn error(&self, reason: &str) -> MediaError {
        self.input.error(reason)
    }

    /// The next page of a stream that is read; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<Page>, MediaError> {
        while let Some((header, body)) = self.read_page()? {
            let Ok(page) = parse(&header, &body) else {
                // Not a page, or a damaged one: the next may begin inside it.
                self.damaged += 1;
                self.input.consume(CAPTURE.len());
                continue;
            };
            self.input.consume(header.bytes.len() + body.len());
            if self.is_ours(&header, &body) {
                return self.take(&header, &body, page).map(Some);
            }
        }
        Ok(None)
    }

    /// Finds the next page; returns its header, then its table of segments and its packets. It is
    /// not passed over yet.
    fn read_page(&mut self) -> Result<Option<(Header, Vec<u8>)>, MediaError> {
        loop {
            if !self.find_capture()? {
                return Ok(None);
            }
            let window = self.input.fill(HEADER_BYTES + 255)?;
            let Some(bytes) = window.first_chunk::<HEADER_BYTES>().copied() else {
                self.damaged += 1;
                self.input.consume(HEADER_BYTES);
                return Ok(None);
            };
            let segments = &window[HEADER_BYTES..];
            let segments = &segments[..segments.len().min(usize::from(bytes[HEADER_BYTES - 1]))];
            let body = usize::from(bytes[HEADER_BYTES - 1])
                + segments
                    .iter()
                    .map(|segment| usize::from(*segment))
                    .sum::<usize>();
            if let Some(body) = self
                .input
                .fill(HEADER_BYTES + body)?
                .get(HEADER_BYTES..HEADER_BYTES + body)
            {
                return Ok(Some((Header { bytes }, body.to_vec())));
            }
            // Cut short at the end of the file; another page may begin inside.
            self.damaged += 1;
            self.input.consume(CAPTURE.len());
        }
    }

    /// Passes over what is no page; `false` at the end.
    fn find_capture(&mut self) -> Result<bool, MediaError> {
        let mut is_damaged = false;
        loop {
            let window = self.input.fill(CAPTURE.len())?;
            let found = window
                .windows(CAPTURE.len())
                .position(|bytes| bytes == CAPTURE);
            let passed = found.unwrap_or(window.len().saturating_sub(CAPTURE.len() - 1));
            if passed > 0 && !is_damaged {
                is_damaged = true;
                self.damaged += 1;
            }
            self.input.consume(passed);
            if found.is_some() {
                return Ok(true);
            }
            if self.input.is_ended() {
                return Ok(false);
            }
        }
    }

    /// Does the page belong to the stream that is read, or begin the next one?
    fn is_ours(&mut self, header: &Header, body: &[u8]) -> bool {
        if !header.has(FLAG_FIRST) {
            self.is_beginning = false;
            return self.serial == Some(header.serial());
        }
        let packets = &body[usize::from(header.bytes[HEADER_BYTES - 1])..];
        let is_next = self.serial.is_none() || !self.is_beginning;
        if !is_next || !packets.starts_with(self.magic) {
            return false;
        }
        self.serial = Some(header.serial());
        self.sequence = header.sequence();
        self.is_beginning = true;
        self.joined_bytes = 0;
        self.reader = BasePacketReader::new();
        true
    }

    fn take(&mut self, header: &Header, body: &[u8], page: OggPage) -> Result<Page, MediaError> {
        let after_gap = header.sequence() != self.sequence;
        self.sequence = header.sequence().wrapping_add(1);
        let segments = &body[..usize::from(header.bytes[HEADER_BYTES - 1])];
        let goes_on = segments
            .iter()
            .rev()
            .take_while(|segment| **segment == 255)
            .count();
        self.joined_bytes = match goes_on {
            all if all == segments.len() && header.has(FLAG_CONTINUED) => {
                self.joined_bytes + all * 255
            }
            some => some * 255,
        };
        if after_gap || self.joined_bytes > PACKET_BYTES_MAX {
            // What continues a page that is missing, or goes on too long, is dropped by the crate
            // then.
            self.damaged += 1;
            self.joined_bytes = 0;
            self.reader.update_after_seek();
        }
        let mut packets = Vec::new();
        if self.reader.push_page(page).is_ok() {
            while let Some(packet) = self.reader.read_packet() {
                packets.push(packet.data);
            }
        } else {
            // It contradicts the page before.
            self.damaged += 1;
            self.reader.update_after_seek();
        }
        let granule = header.granule();
        Ok(Page {
            is_first: header.has(FLAG_FIRST),
            is_last: header.has(FLAG_LAST),
            after_gap,
            granule: (granule != NO_GRANULE).then_some(granule),
            packets,
        })
    }
}

/// Lets the crate check the page.
fn parse(header: &Header, body: &[u8]) -> Result<OggPage, OggReadError> {
    let (mut parser, segments) = PageParser::new(header.bytes)?;
    let (segments, packets) = body.split_at(segments.min(body.len()));
    parser.parse_segments(segments.to_vec());
    parser.parse_packet_data(packets.to_vec())
}
