//! The kernel's read-ahead, switched off: what is in memory afterwards is what somebody needed.
//!
//! Called before anything is recorded, and again when a file system was mounted. Covers every
//! device that the kernel reads ahead from; file systems on bare flash have none. The guard puts
//! the values back. Never changes a value before the guard knows it.

use std::fs;
use std::path::{Path, PathBuf};

use super::guard::{Guard, Undo};
use crate::PreloadError;

/// One directory for each device, file system or server that pages come from.
const DEVICES: &str = "/sys/class/bdi";

/// What was found and changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Switched {
    /// Devices whose read-ahead was switched off.
    pub(super) off: u64,
    /// Files of those whose read-ahead could not be switched off.
    pub(super) left_on: Vec<PathBuf>,
}

impl Switched {
    /// Switches off what is on. Twice does no harm.
    pub(super) fn off(&mut self, guard: &mut Guard) -> Result<(), PreloadError> {
        let Ok(devices) = fs::read_dir(DEVICES) else {
            let nowhere = PathBuf::from(DEVICES);
            if !self.left_on.contains(&nowhere) {
                self.left_on.push(nowhere);
            }
            return Ok(());
        };
        self.left_on.retain(|path| path != Path::new(DEVICES));
        for device in devices.flatten() {
            let path = device.path().join("read_ahead_kb");
            let Ok(value) = fs::read_to_string(&path) else {
                continue;
            };
            let value = value.trim();
            if value == "0" || self.left_on.contains(&path) {
                continue;
            }
            guard.before(Undo::Write {
                path: path.clone(),
                value: value.to_owned(),
            })?;
            match fs::write(&path, "0") {
                Ok(()) => self.off += 1,
                Err(_) => self.left_on.push(path),
            }
        }
        Ok(())
    }
}
