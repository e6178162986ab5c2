//! Streams from a channel to destinations over the loopback interface, sent from the slots that
//! their publisher wrote.

mod hold;
mod same;
mod scribbler;
mod stage;
