//! The layout of the file of semaphores and message queues against `spec/vectors/objects.txt`,
//! which was written from the page and not by this crate.

use hythe_abi::objects::{
    FILE_BYTES, HEADER_BYTES, HOLDERS_MAX, MAGIC, MESSAGES_MAX, OBJECT_BYTES, OBJECTS_MAX,
    OPENERS_MAX, UNDO_MAX, header, object,
};

/// The value of a key in a group.
fn vector(group: &str, key: &str) -> u64 {
    let text = include_str!("../../../../spec/vectors/objects.txt");
    let start = format!("[{group}]");
    let mut lines = text.lines().skip_while(|line| *line != start).skip(1);
    let found = lines
        .by_ref()
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    found.expect(key).parse().expect("a number")
}

#[test]
fn sizes_are_those_of_the_page() {
    for (key, found) in [
        ("header", HEADER_BYTES),
        ("object", OBJECT_BYTES),
        ("objects", OBJECTS_MAX),
        ("file", FILE_BYTES),
        ("undo", UNDO_MAX),
        ("holders", HOLDERS_MAX),
        ("messages", MESSAGES_MAX),
        ("openers", OPENERS_MAX),
    ] {
        assert_eq!(vector("sizes", key), found as u64, "{key}");
    }
    assert_eq!(vector("sizes", "magic"), MAGIC);
}

#[test]
fn offsets_are_those_of_the_page() {
    for (key, found) in [
        ("magic", header::MAGIC),
        ("lock", header::LOCK),
        ("changes", header::CHANGES),
        ("watchers", header::WATCHERS),
        ("generation", header::NEXT_GENERATION),
    ] {
        assert_eq!(vector("header", key), found as u64, "{key}");
    }
    for (key, found) in [
        ("state", object::STATE),
        ("kind", object::KIND),
        ("generation", object::GENERATION),
        ("flags", object::FLAGS),
        ("lock", object::LOCK),
        ("mode", object::MODE),
        ("changed", object::CHANGED),
        ("sleepers", object::SLEEPERS),
        ("undo_count", object::UNDO_COUNT),
        ("name", object::NAME),
        ("value", object::VALUE),
        ("next_order", object::NEXT_ORDER),
        ("abandoned", object::ABANDONED),
        ("owner_dead", object::OWNER_DEAD),
        ("accepted", object::ACCEPTED),
        ("messages_limit", object::MESSAGES_LIMIT),
        ("notify_row", object::NOTIFY_ROW),
        ("notified", object::NOTIFIED),
        ("moving", object::MOVING),
        ("moving_descriptor", object::MOVING_DESCRIPTOR),
        ("undo", object::UNDO),
        ("holders", object::HOLDERS),
        ("entries", object::ENTRIES),
        ("openers", object::OPENERS),
    ] {
        assert_eq!(vector("object", key), found as u64, "{key}");
    }
}
