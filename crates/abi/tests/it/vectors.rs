//! The golden bytes of `spec/vectors/`, built from their fields and read back into them.

use std::collections::BTreeMap;

use hythe_abi::link::{
    CORE_MAGIC, CoreState, Direction, ENDPOINT_BYTES, ENTRY_BYTES, Entry, Flow, LINUX_MAGIC,
    LinkLayout, NAME_BYTES, VERSION, bell_line, core_header, endpoint_record, flow_line,
    linux_header,
};
use hythe_abi::{
    Descriptor, DescriptorMark, Generation, HEADROOM_BYTES, LINE_BYTES, Place, RegionIndex,
    round_up,
};

/// One `[group]` with its statements, in order.
struct Group {
    name: String,
    statements: Vec<(String, String)>,
}

impl Group {
    fn text(&self, key: &str) -> &str {
        let found = self.statements.iter().find(|(name, _)| name == key);
        let group = &self.name;
        &found
            .unwrap_or_else(|| panic!("[{group}] has no `{key}`"))
            .1
    }

    fn number(&self, key: &str) -> u32 {
        number(self.text(key))
    }

    fn at(&self, key: &str) -> usize {
        self.number(key) as usize
    }
}

/// A file of vectors.
struct Vectors(Vec<Group>);

impl Vectors {
    fn parse(text: &str) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                assert!(
                    groups.iter().all(|group| group.name != name),
                    "[{name}] twice"
                );
                groups.push(Group {
                    name: name.to_owned(),
                    statements: Vec::new(),
                });
                continue;
            }
            let (key, value) = line.split_once(" = ").expect("a statement");
            let group = groups
                .last_mut()
                .expect("a group before the first statement");
            group.statements.push((key.to_owned(), value.to_owned()));
        }
        Self(groups)
    }

    fn group(&self, name: &str) -> &Group {
        let found = self.0.iter().find(|group| group.name == name);
        found.unwrap_or_else(|| panic!("no group [{name}]"))
    }

    /// Groups `prefix.N`, by what stands behind the prefix.
    fn numbered(&self, prefix: &str) -> BTreeMap<Vec<usize>, &Group> {
        let groups = self.0.iter().filter_map(|group| {
            let rest = group.name.strip_prefix(prefix)?.strip_prefix('.')?;
            Some((
                rest.split('.')
                    .map(|part| part.parse().expect("a number"))
                    .collect(),
                group,
            ))
        });
        groups.collect()
    }

    /// The group `[bytes]` as a section of this size.
    fn section(&self, bytes: usize) -> Vec<u8> {
        let mut section = vec![0; bytes];
        for (key, value) in &self.group("bytes").statements {
            let at: usize = key
                .strip_prefix("at ")
                .expect("at")
                .parse()
                .expect("an offset");
            let listed = hex(value);
            section[at..at + listed.len()].copy_from_slice(&listed);
        }
        section
    }
}

fn number(text: &str) -> u32 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("two digits"))
        .collect()
}

/// A section being built, word by word.
struct Section(Vec<u8>);

impl Section {
    fn put(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put_name(&mut self, at: usize, name: &str) {
        assert!(name.len() <= NAME_BYTES);
        self.0[at..at + name.len()].copy_from_slice(name.as_bytes());
    }

    fn put_entries(&mut self, vectors: &Vectors, entries: impl Fn(usize) -> usize) {
        for (place, group) in vectors.numbered("entry") {
            let bytes = hex(group.text("hex"));
            let words: [u32; Entry::WORDS] = std::array::from_fn(|index| word(&bytes, 4 * index));
            let entry = Entry::from_words(words);
            assert_eq!(entry.descriptor, descriptor(&bytes[..Descriptor::BYTES]));
            let at = entries(place[0]) + place[1] * ENTRY_BYTES;
            for (index, word) in entry.to_words().into_iter().enumerate() {
                self.put(at + 4 * index, word);
            }
        }
    }

    fn assert_is(&self, expected: &[u8]) {
        for at in (0..expected.len()).step_by(4) {
            assert_eq!(self.0[at..at + 4], expected[at..at + 4], "word at {at}");
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn name(bytes: &[u8], at: usize) -> &str {
    let padded = std::str::from_utf8(&bytes[at..at + NAME_BYTES]).expect("UTF-8");
    padded.trim_end_matches('\0')
}

fn descriptor(bytes: &[u8]) -> Descriptor {
    assert_eq!(bytes.len(), Descriptor::BYTES);
    Descriptor::from_words([
        word(bytes, 0),
        word(bytes, 4),
        word(bytes, 8),
        word(bytes, 12),
    ])
}

#[test]
fn descriptors() {
    let vectors = Vectors::parse(include_str!("../../../../spec/vectors/descriptor.txt"));
    assert!(vectors.0.len() >= 6, "all kinds are there");
    for group in &vectors.0 {
        let region = u8::try_from(group.number("region")).expect("a region");
        let expected = Descriptor {
            place: Place {
                region: RegionIndex(region),
                slot: group.number("slot"),
            },
            generation: Generation(group.number("generation")),
            offset: group.number("offset"),
            length: group.number("length"),
        };
        let mark = match group.text("kind") {
            "length" => None,
            "credit" => Some(DescriptorMark::Credit),
            "unused" => Some(DescriptorMark::Unused),
            other => panic!("kind {other}"),
        };
        let bytes: Vec<u8> = expected
            .to_words()
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        assert_eq!(bytes, hex(group.text("hex")), "{}", group.name);
        assert_eq!(descriptor(&bytes), expected, "{}", group.name);
        assert_eq!(expected.mark(), mark, "{}", group.name);
    }
}

#[test]
fn layouts() {
    let vectors = Vectors::parse(include_str!("../../../../spec/vectors/link_layout.txt"));
    // Linux has lines of 64 bytes; a core may need longer ones, which only the C library lays out.
    let ours = vectors
        .0
        .iter()
        .filter(|group| group.at("line_bytes") == LINE_BYTES);
    let mut checked = 0;
    for group in ours {
        let needed = group.at("needed_bytes");
        let section = round_up(needed, LINE_BYTES);
        let size = |key| group.number(key);
        let (endpoints, ports, capacity) = (size("endpoints"), size("ports"), size("capacity"));
        let layout = |section| LinkLayout::new(endpoints, ports, capacity, section);
        let is_too_small = layout(section - LINE_BYTES).is_none();
        let layout = layout(section).expect("it fits exactly");
        let flow = |endpoint| Flow { endpoint, port: 0 };
        let end = flow(endpoints as usize);
        let found = [
            ("linux_bell", layout.linux_bell()),
            ("linux_classes", layout.classes()),
            ("linux_flow", layout.linux_flow(flow(0))),
            ("linux_entries", layout.linux_entries(flow(0))),
            ("linux_bytes", layout.linux_entries(end)),
            ("core_bell", layout.core_bell() - section),
            ("core_records", layout.endpoint_record(0) - section),
            ("core_flow", layout.core_flow(flow(0)) - section),
            ("core_entries", layout.core_entries(flow(0)) - section),
            ("core_bytes", layout.core_entries(end) - section),
            ("needed_bytes", layout.needed_section_bytes()),
        ];
        for (key, at) in found {
            assert_eq!(at, group.at(key), "{key} of [{}]", group.name);
        }
        assert!(is_too_small, "[{}]", group.name);
        checked += 1;
    }
    assert!(checked >= 4, "only {checked} geometries");
}

#[test]
fn linux_section() {
    let vectors = Vectors::parse(include_str!("../../../../spec/vectors/link_linux.txt"));
    let header = vectors.group("header");
    assert_eq!(header.number("magic"), LINUX_MAGIC);
    assert_eq!(header.number("version"), VERSION);
    assert_eq!(header.number("headroom"), HEADROOM_BYTES);
    assert_eq!(header.at("line_bytes"), LINE_BYTES);
    let section = header.at("section_bytes");
    let layout = layout_of(header, section);
    let mut built = Section(vec![0; section]);
    let words = [
        (linux_header::MAGIC, "magic"),
        (linux_header::VERSION, "version"),
        (linux_header::LINE_BYTES, "line_bytes"),
        (linux_header::SECTION_BYTES, "section_bytes"),
        (linux_header::ENDPOINTS, "endpoints"),
        (linux_header::CAPACITY, "capacity"),
        (linux_header::REGION, "region"),
        (linux_header::REGION_BYTES, "region_bytes"),
        (linux_header::CLASSES, "classes"),
        (linux_header::HEADROOM, "headroom"),
        (linux_header::SESSION, "session"),
        (linux_header::PORTS, "ports"),
    ];
    let expected = vectors.section(section);
    for (at, key) in words {
        built.put(at, header.number(key));
        assert_eq!(word(&expected, at), header.number(key), "{key}");
    }
    let bell = vectors.group("bell");
    built.put(
        layout.linux_bell() + bell_line::COUNT,
        bell.number("bell_count"),
    );
    built.put(
        layout.linux_bell() + bell_line::CHANGES,
        bell.number("changes"),
    );
    for (index, class) in vectors.numbered("class") {
        let keys = ["slot_bytes", "slot_count", "first_slot", "region_offset"];
        for (part, key) in keys.into_iter().enumerate() {
            built.put(
                layout.classes() + 16 * index[0] + 4 * part,
                class.number(key),
            );
        }
    }
    for (index, flow) in vectors.numbered("flow") {
        let at = layout.linux_flow(numbered(&layout, index[0]));
        put_flow(&mut built, at, flow, "session");
        built.put(at + flow_line::WINDOW, flow.number("window"));
        built.put(at + flow_line::WANTED, flow.number("bell_wanted"));
        built.put(at + flow_line::DOORBELL, flow.number("doorbell"));
    }
    built.put_entries(&vectors, |flow| {
        layout.linux_entries(numbered(&layout, flow))
    });
    built.assert_is(&expected);
}

#[test]
fn core_section() {
    let vectors = Vectors::parse(include_str!("../../../../spec/vectors/link_core.txt"));
    let geometry = vectors.group("geometry");
    let section = geometry.at("section_bytes");
    let layout = layout_of(geometry, section);
    let from_core = |at: usize| at - layout.core_header();
    let header = vectors.group("header");
    assert_eq!(header.number("magic"), CORE_MAGIC);
    assert_eq!(header.number("version"), VERSION);
    let words = [
        (core_header::MAGIC, "magic"),
        (core_header::VERSION, "version"),
        (core_header::SESSION, "session"),
        (core_header::STATE, "state"),
        (core_header::REASON, "reason"),
        (core_header::ECHO, "echo"),
        (core_header::ENDPOINTS, "endpoints"),
        (core_header::LINE_BYTES, "line_bytes"),
    ];
    let mut built = Section(vec![0; section]);
    let expected = vectors.section(section);
    for (at, key) in words {
        built.put(at, header.number(key));
        assert_eq!(word(&expected, at), header.number(key), "{key}");
    }
    assert_eq!(
        CoreState::from_word(word(&expected, core_header::STATE)),
        CoreState::Up
    );
    built.put_name(core_header::NAME, header.text("name"));
    assert_eq!(name(&expected, core_header::NAME), header.text("name"));
    let bell = vectors.group("bell");
    let bell_at = from_core(layout.core_bell());
    built.put(bell_at + bell_line::COUNT, bell.number("bell_count"));
    built.put(bell_at + bell_line::WANTED, bell.number("bell_wanted"));
    for (index, record) in vectors.numbered("record") {
        let at = from_core(layout.endpoint_record(index[0]));
        assert_eq!(
            at,
            from_core(layout.endpoint_record(0)) + index[0] * ENDPOINT_BYTES
        );
        let direction = Direction::from_word(record.number("direction")).expect("a direction");
        built.put_name(at + endpoint_record::NAME, record.text("name"));
        built.put(at + endpoint_record::DIRECTION, direction.to_word());
        built.put(at + endpoint_record::MAX_BYTES, record.number("max_bytes"));
        built.put(at + endpoint_record::TYPE, record.number("type"));
        built.put(at + endpoint_record::KIND, record.number("kind"));
        for (counter, key) in [
            (endpoint_record::VIOLATIONS, "violations"),
            (endpoint_record::FULL, "full"),
            (endpoint_record::NO_SLOT, "no_slot"),
            (endpoint_record::DROPPED, "dropped"),
        ] {
            built.put(at + counter, record.number(key));
        }
        assert_eq!(name(&expected, at), record.text("name"));
    }
    for (index, flow) in vectors.numbered("flow") {
        let at = from_core(layout.core_flow(numbered(&layout, index[0])));
        put_flow(&mut built, at, flow, "echo");
        built.put(at + flow_line::DROPPED, flow.number("dropped"));
    }
    built.put_entries(&vectors, |flow| {
        from_core(layout.core_entries(numbered(&layout, flow)))
    });
    built.assert_is(&expected);
}

fn layout_of(sizes: &Group, section: usize) -> LinkLayout {
    let size = |key| sizes.number(key);
    LinkLayout::new(size("endpoints"), size("ports"), size("capacity"), section).expect("a layout")
}

/// The flow with this number.
const fn numbered(layout: &LinkLayout, number: usize) -> Flow {
    Flow {
        endpoint: number / layout.ports(),
        port: number % layout.ports(),
    }
}

fn put_flow(built: &mut Section, at: usize, flow: &Group, session: &str) {
    built.put(at + flow_line::SESSION, flow.number(session));
    built.put(at + flow_line::START, flow.number("start"));
    built.put(at + flow_line::TAIL, flow.number("tail"));
    built.put(at + flow_line::HEAD, flow.number("head"));
    built.put(at + flow_line::RAISED_LOW, flow.number("raised_low"));
    built.put(at + flow_line::RAISED_HIGH, flow.number("raised_high"));
    built.put(at + flow_line::SEEN_LOW, flow.number("seen_low"));
    built.put(at + flow_line::SEEN_HIGH, flow.number("seen_high"));
}
