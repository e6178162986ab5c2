//! The player: an RTOS core decodes sound and picture of a movie, and Linux keeps them in step.
//!
//! ```text
//! file --feed--> h264, mp3 --> decoders --> picture, pcm --sound, show--> WAV or sound card,
//!                                                                        Y4M, window
//! ```
//!
//! `hythe play` calls it. [`Player::prepare`] reads the movie's index and chooses a board.
//! [`Player::run`] starts what decodes (`decoders`): a core with its program `player`, or, to
//! compare with, processes on Linux. It reads each sample of the movie into memory of the chosen
//! `method`, which is a slot where nothing is to be copied, and sends it (`feed`), takes samples
//! and pictures, writes sound when it is heard (`sound`), which is what the `clock` follows, and
//! pictures when that clock says so (`show`). Each of the four has a thread of one process, and so
//! has each stream of `rtp`.
//!
//! Every wait ends within the stall limit, when what decodes ends, or when the caller asks to stop.
//! Where sound or picture stay away longer, the other goes on. The pool
//! belongs to the caller. But for [`command`], it never reads arguments, and never prints.

mod clock;
pub mod command;
mod decoders;
mod error;
mod feed;
mod method;
mod order;
mod pair;
mod player;
mod ports;
mod report;
mod rtp;
mod show;
mod sound;
mod stage;
mod summary;
mod viewer;
mod y4m;

pub use error::PlayError;
pub use method::Method;
pub use player::{Caller, PlayOptions, Player};
pub use report::{Frame, Hop, Percentiles, Played, RtpStream, Sound};
pub use rtp::RtpOptions;
pub use y4m::Written;
