//! MP3: from a stream of bytes to frames, without copying a byte.
//!
//! The demuxer of the media hop calls [`FrameSplitter`] on each buffer that the storage hop
//! filled and hands every [`Frame`] on as a part of that buffer's slot. Nothing here reads a file,
//! allocates or knows a pool.
//!
//! # How a frame comes to lie whole in one buffer
//!
//! A frame may straddle two buffers, and a descriptor names one slot only. So buffers overlap: the
//! splitter names the offset at which the next one has to start ([`Step::ReadFrom`]), which is
//! where the first frame that it could not yet decide begins. The storage hop reads again from
//! there. In the middle of a stream the overlap is less than one frame and a header (at most
//! [`Header::LONGEST_BYTES`] + 4); while synchronisation is being sought it can be up to
//! [`MIN_WINDOW_BYTES`].
//!
//! The splitter is a pure function of the bytes and of how they were cut. A storage stage in
//! another process therefore needs no answer from the demuxer: it runs a second splitter over what
//! it read (this touches the header and side information of each frame, nothing else) and stops
//! at its `ReadFrom`; the demuxer's own splitter arrives at the same offset. A buffer may also
//! start earlier than asked, say at a page boundary.
//!
//! # Which frames
//!
//! Exactly those that minimp3 finds, in the same order, when `mp3dec_decode_frame` is called over
//! the whole stream in one buffer: the rules of its `mp3d_find_frame` are followed to the letter,
//! and `tests/minimp3.rs` compares the two on intact and on damaged streams. Worth knowing:
//!
//! - The stream is the file without its tags, as minimp3's own loader sees it. The splitter skips
//!   ID3v2 in front; the caller ends the stream where [`audio_end`] says.
//! - A frame counts only if a consistent header follows it or the stream ends with its last byte.
//!   So a truncated last frame is dropped, and so is a last frame with a tag or garbage behind it
//!   if the caller did not cut that off: [`FrameSplitter::last_frame_end`] says where.
//! - Xing, Info and VBRI frames are frames like any other, unless [`FrameSplitter::without_info`]
//!   leaves them out, as players do.
//! - Free format and layers I and II are refused with an error, where minimp3 would decode them;
//!   [`FrameSplitter::for_all_layers`] takes layers I and II, for those who only send. That one
//!   knows tags between the frames of joined files, too, which cost no frame.
//!
//! # What a decoder that gets single frames has to know
//!
//! minimp3 forgets its state when it loses synchronisation. A decoder that is given one frame at a
//! time never sees the bytes in between, so each [`Gap`] must reach it as well: forwarding the
//! first [`Gap::RESET_BYTES`] bytes of a gap (or any four bytes) to `mp3dec_decode_frame` makes it
//! forget, and yields no samples. [`Frame::reset`] says the same about the frame behind.

mod info;
mod side_info;
mod splitter;
mod sync;
mod tags;

pub use hythe_rtp::mpeg_audio::{Header, Layer, Version};
pub use splitter::{Frame, FrameSplitter, Gap, Step, Window};
pub use sync::MIN_WINDOW_BYTES;
pub use tags::{TAIL_BYTES, audio_end};
