//! Status codes of replies (RFC 2326, section 7.1.1), and refusals that carry one with the reason.
//!
//! Every part that judges a request returns a [`Refusal`]; the service makes a reply of it.

use std::borrow::Cow;

/// The codes that are sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 200,
    BadRequest = 400,
    NotFound = 404,
    MethodNotAllowed = 405,
    NotAcceptable = 406,
    TooLarge = 413,
    ParameterNotUnderstood = 451,
    SessionNotFound = 454,
    NotValidInThisState = 455,
    InvalidRange = 457,
    AggregateNotAllowed = 459,
    UnsupportedTransport = 461,
    InternalError = 500,
    NotImplemented = 501,
    Unavailable = 503,
    VersionNotSupported = 505,
    OptionNotSupported = 551,
}

impl Status {
    pub(crate) fn code(self) -> u16 {
        self as u16
    }

    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::NotAcceptable => "Not Acceptable",
            Self::TooLarge => "Request Entity Too Large",
            Self::ParameterNotUnderstood => "Parameter Not Understood",
            Self::SessionNotFound => "Session Not Found",
            Self::NotValidInThisState => "Method Not Valid in This State",
            Self::InvalidRange => "Invalid Range",
            Self::AggregateNotAllowed => "Aggregate Operation Not Allowed",
            Self::UnsupportedTransport => "Unsupported Transport",
            Self::InternalError => "Internal Server Error",
            Self::NotImplemented => "Not Implemented",
            Self::Unavailable => "Service Unavailable",
            Self::VersionNotSupported => "RTSP Version Not Supported",
            Self::OptionNotSupported => "Option Not Supported",
        }
    }
}

/// Why a request is not followed. `why` is sent behind the standard phrase: players show that line
/// to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// One line, without line breaks.
    pub(crate) why: Cow<'static, str>,
    /// What the status demands beside it (Allow, Unsupported).
    pub(crate) header: Option<(&'static str, String)>,
}

impl Refusal {
    pub(crate) fn new(status: Status, why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            why: why.into(),
            header: None,
        }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.header = Some((name, value.into()));
        self
    }
}
