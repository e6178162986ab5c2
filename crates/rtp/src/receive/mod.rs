//! What a receiver knows of one stream: which packets are its own, what is missing, what to ask for
//! and to report.
//!
//! [`head`] reads the header of a packet, [`sources`] says which packets are the stream's and
//! [`source`] what is missing of it, by RFC 3550; [`reorder`] puts them in order and waits for what
//! is missing, within bounds; [`feedback`] reports, and asks for what [`requests`] lists;
//! [`parsed_rtcp`] reads what the sender reports.
//!
//! Nothing here allocates on the way of a packet, and nothing believes one: whoever knows a
//! receiver's port may send to it.

pub mod feedback;
pub mod gaps;
pub mod head;
pub mod parsed_rtcp;
pub mod reorder;
pub mod requests;
pub mod source;
pub mod sources;
pub mod timeline;
