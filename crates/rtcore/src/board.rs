//! Boards: where they are, and whether they can run here.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hythe_sys::regular_file::read_regular_text;
use hythe_terminal::escaped;

use crate::CoreError;
use crate::manifest::{
    BoardKind, DoorbellKind, LinkPlan, Manifest, Repeatable, Requirement, Shared, SlotPlan,
};

const MANIFEST: &str = "board.toml";
/// A hundred times as much as any has.
const MANIFEST_MAX_BYTES: u64 = 1 << 20;

/// A board that was built: its folder holds `board.toml` and one image per application.
#[derive(Clone, Debug)]
pub struct Board {
    pub(crate) folder: PathBuf,
    pub(crate) manifest: Manifest,
}

/// A folder where a board may be.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The folder's name.
    pub name: String,
    /// The board, or why it cannot be read.
    pub board: Result<Board, String>,
    /// Why it cannot run here; empty: it can.
    pub missing: Vec<String>,
}

/// Where boards are looked for: `HYTHE_BOARDS`, else beside this program, as built or as installed.
#[must_use]
pub fn search_path() -> Vec<PathBuf> {
    if let Some(chosen) = hythe_sys::environment::variable("HYTHE_BOARDS") {
        return vec![PathBuf::from(chosen)];
    }
    let program = std::env::current_exe().unwrap_or_default();
    let Some(folder) = program.parent() else {
        return Vec::new();
    };
    // `target/debug/hythe`, a folder unpacked as it is, `bin/hythe` installed,
    // `target/debug/deps/some-test`.
    let places = [
        "../boards",
        "boards",
        "../share/hythe/boards",
        "../../boards",
    ];
    places.iter().map(|place| folder.join(place)).collect()
}

/// Every board that can be found, by name.
#[must_use]
pub fn list() -> Vec<Listed> {
    let mut found: Vec<Listed> = Vec::new();
    for place in search_path() {
        for name in folders(&place) {
            if found.iter().all(|known| known.name != name) {
                found.push(look(&place.join(&name), name));
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn folders(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let boards = entries.filter(|entry| entry.path().join(MANIFEST).is_file());
    boards
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn look(folder: &Path, name: String) -> Listed {
    match Board::read(folder) {
        Ok(board) => {
            let missing = board.missing(board.default_app());
            Listed {
                name,
                board: Ok(board),
                missing,
            }
        }
        Err(error) => Listed {
            name,
            board: Err(error.to_string()),
            missing: vec![error.to_string()],
        },
    }
}

impl Board {
    /// The board of that name.
    ///
    /// # Errors
    /// [`CoreError::UnknownBoard`] with the boards there are; [`CoreError::BadBoard`].
    pub fn find(name: &str) -> Result<Self, CoreError> {
        let is_name = !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
        let folder = search_path()
            .into_iter()
            .map(|place| place.join(name))
            .find(|folder| is_name && folder.join(MANIFEST).is_file());
        match folder {
            Some(folder) => Self::read(&folder),
            None => Err(CoreError::UnknownBoard {
                name: name.to_owned(),
                known: list().into_iter().map(|board| board.name).collect(),
                searched: search_path(),
            }),
        }
    }

    /// Reads the board in a folder.
    ///
    /// # Errors
    /// [`CoreError::BadBoard`] saying what is wrong with its `board.toml`.
    pub fn read(folder: &Path) -> Result<Self, CoreError> {
        let path = folder.join(MANIFEST);
        let bad = |reason| CoreError::BadBoard {
            path: path.clone(),
            reason,
        };
        let text =
            read_regular_text(&path, MANIFEST_MAX_BYTES).map_err(|error| bad(error.to_string()))?;
        let manifest = Manifest::parse(&text).map_err(bad)?;
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// One line for people.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.manifest.summary
    }

    /// Times measured on it are no claim about hardware.
    #[must_use]
    pub const fn is_emulated(&self) -> bool {
        self.manifest.emulated
    }

    /// What its process is.
    #[must_use]
    pub const fn kind(&self) -> BoardKind {
        self.manifest.run.kind
    }

    /// Programs that it needs.
    #[must_use]
    pub fn requires(&self) -> &[Requirement] {
        &self.manifest.requires
    }

    /// The applications that are built for it.
    #[must_use]
    pub fn apps(&self) -> &[String] {
        &self.manifest.build.apps
    }

    /// The first of them.
    #[must_use]
    pub fn default_app(&self) -> &str {
        self.apps().first().map_or("", String::as_str)
    }

    /// The image of an application.
    #[must_use]
    pub fn image(&self, app: &str) -> PathBuf {
        self.folder.join(format!("{app}.elf"))
    }

    /// The flat image of an application for a guest of a hypervisor on this board; it may not be
    /// there.
    #[must_use]
    pub fn guest_image(&self, app: &str) -> PathBuf {
        self.folder.join(format!("{app}-guest.bin"))
    }

    /// What comes behind an option of its command, such as `-cpu`; none: it has no such option.
    #[must_use]
    pub fn argument(&self, option: &str) -> Option<&str> {
        let arguments = &self.manifest.run.args;
        let place = arguments.iter().position(|argument| argument == option)?;
        arguments.get(place + 1).map(String::as_str)
    }

    /// Its link. None: it shares no memory with Linux.
    #[must_use]
    pub fn link(&self) -> Option<&LinkPlan> {
        self.manifest.shared.as_ref().map(|shared| &shared.link)
    }

    /// Do processes and the core ring each other by eventfds, without the agent?
    #[must_use]
    pub fn has_eventfds(&self) -> bool {
        let shared = self.manifest.shared.as_ref();
        shared.is_some_and(|shared| shared.doorbell == DoorbellKind::Ivshmem)
    }

    /// The slots of its region.
    #[must_use]
    pub fn slots(&self) -> &[SlotPlan] {
        let shared = self.manifest.shared.as_ref();
        shared.map_or(&[], |shared| &shared.classes)
    }

    /// Does this application run without an agent, on a core that shares no memory with Linux?
    #[must_use]
    pub fn runs_alone(&self, app: &str) -> bool {
        let alone = self.manifest.run.alone.as_ref();
        self.link().is_none()
            || alone.is_some_and(|alone| alone.apps.iter().any(|name| name == app))
    }

    /// The memory that it shares with Linux.
    pub(crate) fn shared(&self) -> Result<&Shared, CoreError> {
        let shared = self.manifest.shared.as_ref();
        shared.ok_or_else(|| self.only_measured())
    }

    /// An agent cannot run it, or not this application.
    pub(crate) fn only_measured(&self) -> CoreError {
        CoreError::NotRunnable {
            board: self.name().to_owned(),
            missing: vec!["it shares no memory with Linux, and can only be measured".to_owned()],
        }
    }

    /// How it is run so that instructions are counted; none: it cannot.
    #[must_use]
    pub const fn repeatable(&self) -> Option<&Repeatable> {
        self.manifest.run.repeatable.as_ref()
    }

    /// Why this application cannot run here; empty: it can.
    #[must_use]
    pub fn missing(&self, app: &str) -> Vec<String> {
        let programs = self
            .requires()
            .iter()
            .filter(|needed| which(&needed.program).is_none());
        let mut missing: Vec<String> = programs
            .map(|needed| {
                let Requirement { program, package } = needed;
                format!("{program} is not installed: sudo apt-get install {package}")
            })
            .collect();
        let image = self.image(app);
        if !image.is_file() {
            missing.push(format!(
                "its image {} is not built: cargo xtask boards {}",
                escaped(&image),
                self.name()
            ));
        }
        missing
    }
}

/// The program of that name on `PATH`.
fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|folder| folder.join(OsStr::new(program)));
    found.into_iter().find(|file| {
        fs::metadata(file)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}
