//! Placeholder header, replaced within this session.
