//! Our RTSP client as servers meet it: the exchange, and servers that mean harm.

mod exchange;
mod harm;
mod hostile_answers;
mod keeping;
mod script;
mod seeds;
