//! A sound device, to which samples are queued.

use std::fmt;
use std::ptr::{null, null_mut};
use std::time::Duration;

use crate::bounded::within;
use crate::error::ScreenError;
use crate::sdl::{AudioSpec, INIT_AUDIO, Sdl};

/// How long a sound server may take to answer.
const OPEN: Duration = Duration::from_secs(5);
/// How long a device may take to close, with what it still plays.
const CLOSE: Duration = Duration::from_secs(2);
/// `AUDIO_S16MSB`: as L16 is sent, and as cores write it.
const S16_BIG_ENDIAN: u16 = 0x9010;
/// Samples of each channel that the device takes at once.
const BLOCK_SAMPLES: u16 = 1024;
const SAMPLE_BYTES: u32 = 2;

/// A sound device that plays what is queued, and silence where nothing is.
pub struct Speaker {
    sdl: &'static Sdl,
    /// Always there, until it is dropped.
    device: Option<Device>,
    number: u32,
    bytes_per_second: u64,
    block_ns: u64,
}

impl fmt::Debug for Speaker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        let mut speaker = formatter.debug_struct("Speaker");
        speaker.field("number", &number).finish_non_exhaustive()
    }
}

impl Speaker {
    /// Opens the machine's default device for 16-bit samples, most significant byte first. It
    /// converts what the device does not take.
    ///
    /// # Errors
    ///
    /// [`ScreenError::NoLibrary`], [`ScreenError::NoFunction`]; [`ScreenError::NoSound`], also
    /// where a sound server did not answer for five seconds.
    pub fn open(samples_per_second: u32, channels: u8) -> Result<Self, ScreenError> {
        let sdl = Sdl::load()?;
        let opened = within(OPEN, move || open_device(sdl, samples_per_second, channels));
        let device = opened.unwrap_or_else(|| Err(format!("no answer for {OPEN:?}")));
        let device = device.map_err(|reason| ScreenError::NoSound { reason })?;
        let rate = u64::from(samples_per_second);
        Ok(Self {
            sdl,
            number: device.number,
            device: Some(device),
            bytes_per_second: rate * u64::from(SAMPLE_BYTES) * u64::from(channels),
            block_ns: u64::from(BLOCK_SAMPLES) * 1_000_000_000 / rate.max(1),
        })
    }

    /// Plays these samples behind those that wait. Copies them; never blocks.
    ///
    /// # Errors
    ///
    /// [`ScreenError::SoundStopped`]: no memory.
    pub fn queue(&self, samples: &[u8]) -> Result<(), ScreenError> {
        let bytes = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        // SAFETY: SDL copies as many bytes as the slice has, under a lock of the device's own.
        match unsafe { (self.sdl.queue_audio)(self.number, samples.as_ptr().cast(), bytes) } {
            0 => Ok(()),
            _ => Err(ScreenError::SoundStopped {
                reason: self.sdl.message(),
            }),
        }
    }

    /// How long it takes until what was queued last has been heard, in nanoseconds: what waits,
    /// and about half of what the device took at once, which it plays meanwhile.
    #[must_use]
    pub fn left_ns(&self) -> u64 {
        // SAFETY: takes a number.
        let queued = unsafe { (self.sdl.queued_audio)(self.number) };
        let waits_ns = u64::from(queued) * 1_000_000_000 / self.bytes_per_second.max(1);
        waits_ns + self.block_ns / 2
    }

    /// Has the device taken everything?
    #[must_use]
    pub fn is_drained(&self) -> bool {
        // SAFETY: takes a number.
        unsafe { (self.sdl.queued_audio)(self.number) == 0 }
    }

    /// Stands, or goes on.
    pub fn pause(&self, is_paused: bool) {
        // SAFETY: takes two numbers.
        unsafe { (self.sdl.pause_audio)(self.number, is_paused.into()) };
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        // SDL joins the thread of the device, which may stand still in a call of a sound server.
        let device = self.device.take();
        within(CLOSE, move || drop(device));
    }
}

/// A device that is closed when it goes.
struct Device {
    sdl: &'static Sdl,
    number: u32,
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: takes a number; nobody uses it any more.
        unsafe { (self.sdl.close_audio)(self.number) };
        self.sdl.end(INIT_AUDIO);
    }
}

/// Opens the default device. `Err`: what SDL said.
fn open_device(sdl: &'static Sdl, samples_per_second: u32, channels: u8) -> Result<Device, String> {
    sdl.begin(INIT_AUDIO)?;
    let wanted = AudioSpec {
        samples_per_second: i32::try_from(samples_per_second).unwrap_or(i32::MAX),
        format: S16_BIG_ENDIAN,
        channels,
        silence: 0,
        samples: BLOCK_SAMPLES,
        padding: 0,
        bytes: 0,
        callback: None,
        userdata: null_mut(),
    };
    // SAFETY: null is the default device; `wanted` is a whole structure, of which SDL makes a copy;
    // null, and no change allowed: SDL converts what the device does not take.
    let number = unsafe { (sdl.open_audio)(null(), 0, &raw const wanted, null_mut(), 0) };
    if number == 0 {
        let message = sdl.message();
        sdl.end(INIT_AUDIO);
        return Err(message);
    }
    // SAFETY: takes two numbers. It begins with silence.
    unsafe { (sdl.pause_audio)(number, 0) };
    Ok(Device { sdl, number })
}
