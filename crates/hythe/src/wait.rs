//! Waits for many channels and file descriptors at once. Idle ones cost nothing.
//!
//! ```
//! use std::time::Duration;
//! use hythe::prelude::*;
//! use hythe::wait::Interest;
//! use rustix::time::{
//!     Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
//!     timerfd_settime,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "loop")?;
//! let mut subscriber = node.subscriber("data", &SubscriberOptions::default())?;
//! let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
//! let once = Itimerspec {
//!     it_interval: Timespec::default(),
//!     it_value: Timespec { tv_sec: 0, tv_nsec: 1_000_000 },
//! };
//! timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
//!
//! let mut wait_set = node.wait_set()?;
//! let data = wait_set.attach(&mut subscriber)?;
//! let tick = wait_set.attach_fd(&timer, Interest::Readable)?;
//! let events = wait_set.wait(Duration::from_secs(10))?;
//! assert!(events.iter().any(|event| event.token() == tick));
//! assert!(events.iter().all(|event| event.token() != data), "nothing was published");
//! # Ok(())
//! # }
//! ```

pub use hythe_node::{Event, Interest, Token, WaitSet, Waitable};
