//! `board.toml`, schema 1 (`rtos/boards/README.md`): what the agent reads of it, checked.

use serde::Deserialize;

/// A board as its file describes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Manifest {
    schema: u32,
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) emulated: bool,
    #[serde(default)]
    pub(crate) requires: Vec<Requirement>,
    pub(crate) build: Build,
    pub(crate) run: Run,
    /// From `run`, when that was checked. None: the core shares no memory with Linux.
    #[serde(skip)]
    pub(crate) shared: Option<Shared>,
}

/// The memory that Linux and the core share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) files: Vec<SharedFile>,
    pub(crate) region: Span,
    pub(crate) link: LinkPlan,
    /// Where segments are that both sides see.
    pub(crate) segments: Option<Span>,
    pub(crate) classes: Vec<SlotPlan>,
    pub(crate) doorbell: DoorbellKind,
}

/// How either side wakes the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorbellKind {
    /// Bytes over the socket to which the core's process connects.
    Connect,
    /// Events, which that socket hands over by the protocol of QEMU's ivshmem.
    Ivshmem,
}

/// What the agent needs to know of how the board is built.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Build {
    pub(crate) apps: Vec<String>,
}

/// How the board is run.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Run {
    pub(crate) kind: BoardKind,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    console: Option<String>,
    doorbell: Option<String>,
    #[serde(rename = "file", default)]
    files: Vec<SharedFile>,
    region: Option<Span>,
    link: Option<LinkPlan>,
    segments: Option<Span>,
    #[serde(rename = "class", default)]
    classes: Vec<SlotPlan>,
    pub(crate) alone: Option<Alone>,
    pub(crate) repeatable: Option<Repeatable>,
}

/// Programs of a board with a link that run without it, and how they are started.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Alone {
    pub(crate) apps: Vec<String>,
    pub(crate) args: Vec<String>,
}

/// How the board is run so that instructions are counted, and each edge on its pin recorded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Repeatable {
    /// More arguments; `{record}` is a folder.
    pub(crate) args: Vec<String>,
    /// What one instruction takes of the board's time.
    pub instruction_ns: u32,
    /// What the emulator writes into the folder: its record.
    pub log: String,
    /// What came out of the pin.
    pub edges: String,
}

/// A program that must be on `PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "(String, String)")]
pub struct Requirement {
    /// Its name.
    pub program: String,
    /// The Debian package that has it.
    pub package: String,
}

impl From<(String, String)> for Requirement {
    fn from((program, package): (String, String)) -> Self {
        Self { program, package }
    }
}

/// What the core's process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoardKind {
    /// The RTOS itself, as a Linux process.
    Process,
    /// An emulator.
    Qemu,
}

/// A file that Linux and the core map.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SharedFile {
    /// Its name in the board's arguments.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Span {
    /// Which file.
    pub file: String,
    /// First byte.
    pub offset: u64,
    /// Size.
    pub bytes: u64,
}

/// Where the link is, and its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LinkPlan {
    /// Which file.
    pub file: String,
    /// First byte.
    pub offset: u64,
    /// Both sections.
    pub bytes: u32,
    /// The line size.
    pub line_bytes: u32,
    /// Space for endpoints.
    pub endpoints: u32,
    /// Participants at once on each endpoint; default: as many as there can be.
    #[serde(default = "ports_max")]
    pub ports: u32,
    /// Entries of each queue.
    pub capacity: u32,
}

/// Segments are mapped by page, and some kernels have pages of 64 KiB.
const SEGMENTS_ALIGN: u64 = 65536;

/// Is it 1 to 32 letters, digits, `-` and `_`?
pub(crate) fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=32).contains(&name.len()) && name.chars().all(plain)
}

const fn ports_max() -> u32 {
    hythe_abi::pool::CORE_PORTS_MAX as u32
}

/// Slots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SlotPlan {
    /// Size of a slot, headroom included.
    pub slot_bytes: u32,
    /// How many.
    pub count: u32,
}

impl Manifest {
    /// Reads and checks the text of a `board.toml`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut manifest: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        manifest.check_name()?;
        manifest.shared = manifest.run.shared()?;
        manifest.check_alone()?;
        Ok(manifest)
    }

    /// Programs that run alone are of this board, and tell by what the emulator records.
    fn check_alone(&self) -> Result<(), String> {
        let Some(alone) = &self.run.alone else {
            return Ok(());
        };
        if self.shared.is_none() || self.run.repeatable.is_none() {
            return Err(
                "[run.alone] belongs to a board with [run.link] and [run.repeatable]".into(),
            );
        }
        match alone.apps.iter().find(|app| !self.build.apps.contains(app)) {
            Some(app) => Err(format!("[run.alone] names `{app}`, which [build] does not")),
            None => Ok(()),
        }
    }

    fn check_name(&self) -> Result<(), String> {
        if self.schema != 1 {
            return Err(format!("schema {}, this program reads 1", self.schema));
        }
        if !is_plain_name(&self.name) {
            return Err(format!("`{}` is no name for a board", self.name));
        }
        Ok(())
    }
}

impl Run {
    fn shared(&self) -> Result<Option<Shared>, String> {
        let (region, link) = match (&self.region, &self.link) {
            (Some(region), Some(link)) => (region.clone(), link.clone()),
            (None, None)
                if self.files.is_empty() && self.classes.is_empty() && self.segments.is_none() =>
            {
                return self.check_alone().map(|()| None);
            }
            _ => {
                return Err(
                    "region and link belong together, with files, segments and classes".to_owned(),
                );
            }
        };
        let doorbell = match (self.console.as_deref(), self.doorbell.as_deref()) {
            (Some("stdout"), Some("connect")) => DoorbellKind::Connect,
            (Some("stdout"), Some("ivshmem")) => DoorbellKind::Ivshmem,
            (console, doorbell) => {
                return Err(format!(
                    "console {console:?}, doorbell {doorbell:?}: this program knows `stdout`, and \
                     `connect` and `ivshmem`"
                ));
            }
        };
        let shared = Shared {
            files: self.files.clone(),
            region,
            link,
            segments: self.segments.clone(),
            classes: self.classes.clone(),
            doorbell,
        };
        shared.check()?;
        Ok(Some(shared))
    }

    /// Without memory there is nothing to ring about, and the only way to tell is what the emulator
    /// records.
    fn check_alone(&self) -> Result<(), String> {
        match (&self.console, &self.doorbell, &self.repeatable) {
            (None, None, Some(_)) => Ok(()),
            _ => Err("a board that shares no memory has no console and no doorbell, and [run.repeatable]".to_owned()),
        }
    }
}

impl Shared {
    /// The region begins its file; the link is behind it or has a file of its own; no other files.
    fn check(&self) -> Result<(), String> {
        let Self {
            region,
            link,
            files,
            classes,
            segments: _,
            doorbell: _,
        } = self;
        if link.line_bytes as usize != hythe_abi::LINE_BYTES {
            let wanted = hythe_abi::LINE_BYTES;
            return Err(format!(
                "lines of {} bytes, Linux has {wanted}",
                link.line_bytes
            ));
        }
        if region.offset != 0 || region.bytes > self.size(&region.file)? {
            return Err(format!(
                "the region must begin file `{}` and fit it",
                region.file
            ));
        }
        let own = link.file != region.file;
        let fits = link.offset + u64::from(link.bytes) <= self.size(&link.file)?;
        let apart = if own {
            link.offset == 0
        } else {
            link.offset >= region.bytes
        };
        if !fits || !apart {
            return Err(format!(
                "the link does not fit file `{}` beside the region",
                link.file
            ));
        }
        if files.len() != 1 + usize::from(own) {
            return Err("files other than those of the region and the link".to_owned());
        }
        let slots = classes.iter();
        let slots: u64 = slots
            .map(|class| u64::from(class.slot_bytes) * u64::from(class.count))
            .sum();
        if slots > region.bytes {
            return Err(format!(
                "{slots} bytes of slots in a region of {}",
                region.bytes
            ));
        }
        self.segments
            .as_ref()
            .map_or(Ok(()), |area| self.check_segments(area))
    }

    /// Whole pages of the region's file, behind the slots and beside the link.
    fn check_segments(&self, area: &Span) -> Result<(), String> {
        let Span {
            file,
            offset,
            bytes,
        } = area;
        if *file != self.region.file {
            return Err(format!(
                "the segments are in file `{file}`, and belong into `{}`, behind the slots",
                self.region.file
            ));
        }
        let is_whole = |bytes: u64| bytes.is_multiple_of(SEGMENTS_ALIGN);
        if *bytes == 0 || !is_whole(*bytes) || !is_whole(*offset) {
            return Err(format!(
                "{bytes} bytes of segments at {offset}, and both must be multiples of \
                 {SEGMENTS_ALIGN}, the largest page of Linux"
            ));
        }
        let end = offset.checked_add(*bytes);
        let fits = end.is_some_and(|end| self.size(file).is_ok_and(|size| end <= size));
        let link = &self.link;
        let meets_link = link.file == *file
            && *offset < link.offset + u64::from(link.bytes)
            && end.is_some_and(|end| link.offset < end);
        if !fits || *offset < self.region.bytes || meets_link {
            return Err(format!(
                "{bytes} bytes of segments at {offset} do not fit file `{file}` beside slots and \
                 link"
            ));
        }
        Ok(())
    }

    /// Of a file.
    pub(crate) fn size(&self, name: &str) -> Result<u64, String> {
        let file = self.files.iter().find(|file| file.name == name);
        file.map(|file| file.bytes)
            .ok_or_else(|| format!("no file `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = include_str!("../../../rtos/boards/mps2-an386/board.toml");
    const ALONE: &str = include_str!("../../../rtos/boards/virt-a57/board.toml");
    const BOTH: &str = include_str!("../../../rtos/boards/virt-a53/board.toml");

    #[test]
    fn reads_the_boards_we_have() {
        let manifest = Manifest::parse(GOOD).expect("mps2-an386");
        assert_eq!(manifest.name, "mps2-an386");
        assert_eq!(manifest.run.kind, BoardKind::Qemu);
        let shared = manifest.shared.expect("a pool");
        assert_eq!(shared.region.bytes, 10_485_760);
        let segments = shared.segments.expect("an area of segments");
        assert_eq!((segments.offset, segments.bytes), (11_010_048, 5_767_168));
        let hosted = include_str!("../../../rtos/boards/hosted/board.toml");
        assert_eq!(
            Manifest::parse(hosted).expect("hosted").run.kind,
            BoardKind::Process
        );
        let alone = Manifest::parse(ALONE).expect("virt-a57");
        assert!(alone.shared.is_none());
        assert_eq!(alone.run.repeatable.expect("it is").instruction_ns, 8);
        let both = Manifest::parse(BOTH).expect("virt-a53");
        let shared = both.shared.expect("a pool, too");
        assert_eq!(shared.doorbell, DoorbellKind::Ivshmem);
        assert_eq!(both.run.alone.expect("for measuring").apps, ["rhealstone"]);
    }

    #[test]
    fn says_what_does_not_fit() {
        let refuse = |from: &str, to: &str| {
            assert!(GOOD.contains(from), "{from}");
            Manifest::parse(&GOOD.replace(from, to)).expect_err(to)
        };
        assert!(refuse("schema = 1", "schema = 2").contains("schema 2"));
        assert!(refuse("name = \"mps2-an386\"", "name = \"../x\"").contains("no name"));
        assert!(refuse("line_bytes = 64", "line_bytes = 128").contains("128"));
        assert!(refuse("offset = 10485760", "offset = 10485696").contains("does not fit"));
        assert!(refuse("count = 274", "count = 2740").contains("bytes of slots"));
        assert!(refuse("\"connect\"", "\"horn\"").contains("horn"));
        assert!(refuse("console = \"stdout\"", "console = \"tty\"").contains("tty"));
        assert!(refuse("[run.region]", "[run.regions]").contains("belong together"));
        for (to, reason) in [
            ("offset = 11010049", "multiples of 65536"),
            ("offset = 9223372036854710272", "do not fit"),
            ("offset = 10485760", "do not fit"),
            ("offset = 0", "do not fit"),
            ("offset = 11075584", "do not fit"),
        ] {
            let error = refuse("offset = 11010048", to);
            assert!(error.contains(reason), "{to}: {error}");
        }
        assert!(refuse("bytes = 5767168", "bytes = 0").contains("0 bytes of segments"));
        let other = "[run.segments]\nfile = \"ram\"";
        assert!(refuse(other, "[run.segments]\nfile = \"link\"").contains("`link`"));
        let alone = format!("{ALONE}\n{other}\noffset = 0\nbytes = 65536\n");
        let error = Manifest::parse(&alone).expect_err("no memory");
        assert!(error.contains("belong together"), "{error}");
        for board in [ALONE, BOTH] {
            let mute = board.replace("[run.repeatable]", "[run.repeated]");
            let error = Manifest::parse(&mute).expect_err("no way to tell");
            assert!(error.contains("[run.repeatable]"), "{error}");
        }
        let unknown = BOTH.replace("apps = [\"rhealstone\"]", "apps = [\"other\"]");
        let error = Manifest::parse(&unknown).expect_err("not built");
        assert!(error.contains("`other`"), "{error}");
    }
}
