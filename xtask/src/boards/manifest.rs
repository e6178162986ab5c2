//! The part of `board.toml` that building needs (schema: `rtos/boards/README.md`). The rest is the
//! agent's.

use serde::Deserialize;
use std::path::Path;

/// The schema this program understands.
const SCHEMA: u32 = 1;

/// One board.
#[derive(Deserialize)]
pub(super) struct Board {
    schema: u32,
    pub(super) name: String,
    pub(super) build: Build,
}

/// `[build]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Build {
    /// Of the compiler, such as `arm-none-eabi-`.
    pub(super) prefix: String,
    /// The Debian package that has the compiler.
    pub(super) package: String,
    pub(super) flags: Vec<String>,
    pub(super) link_flags: Vec<String>,
    pub(super) sources: Vec<String>,
    /// Folders with headers that boards share.
    #[serde(default)]
    pub(super) include: Vec<String>,
    pub(super) linker_script: Option<String>,
    pub(super) freestanding: bool,
    pub(super) apps: Vec<String>,
    pub(super) freertos: Freertos,
    /// Programs that run on a core that shares no memory with Linux, on a board that can.
    pub(super) alone: Option<Alone>,
    /// Programs once more, for a guest of a hypervisor on this board.
    pub(super) guest: Option<Guest>,
}

/// `[build.alone]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alone {
    /// Which of the board's.
    pub(super) apps: Vec<String>,
    /// Behind those of the board.
    pub(super) flags: Vec<String>,
}

/// `[build.guest]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Guest {
    /// Which of the board's.
    pub(super) apps: Vec<String>,
    /// Behind those of the program on the board itself.
    pub(super) flags: Vec<String>,
}

/// `[build.freertos]`: the port, below the kernel's folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Freertos {
    pub(super) sources: Vec<String>,
    pub(super) include: Vec<String>,
}

impl Build {
    /// Flags that only this program has, behind those of the board.
    pub(super) fn flags_of(&self, app: &str) -> &[String] {
        let alone = self.alone.as_ref();
        alone
            .filter(|alone| alone.apps.iter().any(|name| name == app))
            .map_or(&[], |alone| &alone.flags)
    }

    /// Flags of this program as a guest; none: it is not built as one.
    pub(super) fn guest_flags_of(&self, app: &str) -> Option<Vec<String>> {
        let guest = self.guest.as_ref()?;
        guest
            .apps
            .iter()
            .any(|name| name == app)
            .then(|| [self.flags_of(app), &guest.flags].concat())
    }
}

impl Board {
    /// Reads and checks one file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let board: Self =
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if board.schema != SCHEMA {
            return Err(format!(
                "{}: schema is {}, not {SCHEMA}",
                path.display(),
                board.schema
            ));
        }
        Ok(board)
    }
}
