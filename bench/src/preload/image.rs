//! What the board's flash holds, and the image made of it: the file that the test program reads, or
//! the root of a real program, and the pack that names what is needed.
//!
//! Made once, with the tools that firmware is made with. Lives in a directory of the run's own;
//! never touches a device.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use hythe_preload::pack::{Extent, PAGE_BYTES, Pack, PackFile};

use super::case::FileSystem;
use crate::error::BootError;

/// Where the flash is mounted on the board.
pub(crate) const MOUNT: &str = "/flash";
/// As the board sees them.
pub(crate) const FILE: &str = "/flash/file";
pub(crate) const PACK: &str = "/flash/pack";
/// Whole seconds: JFFS2 keeps no fractions.
const MODIFIED_S: u64 = 1_700_000_000;
/// Pages and blocks of the simulated chip (64 MiB, SLC, named in init.sh).
const NAND_PAGE: &str = "2048";
const NAND_BLOCK: &str = "128KiB";
/// What UBI leaves of a block: its two headers are on sub-pages of 512 bytes, together on the first
/// page.
const UBI_BLOCK: &str = "129024";
const UBI_BLOCK_KIB: u32 = 126;
const UBI_SUB_PAGE: &str = "512";

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file of so many bytes.
    File(usize),
    /// A real program.
    Application,
}

impl Content {
    /// Blocks of the simulated chip that are the board's flash: what it holds at most twice (the
    /// largest file has 4 MiB, the program 13 MiB when compressed), and what UBI keeps back. Few,
    /// since they are looked at in each boot.
    pub(crate) const fn blocks(self) -> u32 {
        match self {
            Self::File(_) => 128,
            Self::Application => 256,
        }
    }

    /// The virtual disk with ext4: what it holds, uncompressed, inodes, journal.
    const fn disk(self) -> &'static str {
        match self {
            Self::File(_) => "16M",
            Self::Application => "64M",
        }
    }
}

/// An image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) file_system: FileSystem,
    pub(crate) content: Content,
}

impl Image {
    /// Makes one with a file of this size, and a pack that names all of it.
    pub(crate) fn of_file(
        folder: &Path,
        file_system: FileSystem,
        bytes: usize,
    ) -> Result<Self, BootError> {
        let root = folder.join("root");
        fs::create_dir(&root).map_err(BootError::host(root.display().to_string()))?;
        write_file(&root.join("file"), bytes)?;
        pack_of(FILE, bytes).write(&root.join("pack"))?;
        let name = format!("{file_system}-{bytes}.image");
        let made = Self::of(folder, &root, &name, file_system, Content::File(bytes))?;
        fs::remove_dir_all(&root).map_err(BootError::host(root.display().to_string()))?;
        Ok(made)
    }

    /// Makes one of a directory with all that is in it.
    pub(crate) fn of(
        folder: &Path,
        root: &Path,
        name: &str,
        file_system: FileSystem,
        content: Content,
    ) -> Result<Self, BootError> {
        let path = folder.join(name);
        match file_system {
            FileSystem::Ubifs => make_ubi(folder, root, &path, content.blocks())?,
            FileSystem::Jffs2 => make_jffs2(root, &path)?,
            FileSystem::Ext4 => make_ext4(root, &path, content.disk())?,
        }
        Ok(Self {
            path,
            file_system,
            content,
        })
    }
}

/// Bytes that no file system can compress, the same each time.
fn write_file(path: &Path, bytes: usize) -> Result<(), BootError> {
    let failed = || BootError::host(path.display().to_string());
    // xorshift64 (Marsaglia, 2003).
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(bytes)
    .collect();
    let mut file = File::create(path).map_err(failed())?;
    file.write_all(&content).map_err(failed())?;
    file.set_modified(UNIX_EPOCH + Duration::from_secs(MODIFIED_S))
        .map_err(failed())
}

/// The whole file. It names no inode, since the tools choose those.
fn pack_of(path: &str, bytes: usize) -> Pack {
    let size = bytes as u64;
    Pack {
        any_inode: true,
        files: vec![PackFile {
            path: PathBuf::from(path),
            size,
            mtime_ns: MODIFIED_S as i64 * 1_000_000_000,
            inode: 0,
        }],
        extents: vec![Extent {
            file: 0,
            first_page: 0,
            pages: size.div_ceil(PAGE_BYTES) as u32,
        }],
    }
}

fn make_ubi(folder: &Path, root: &Path, image: &Path, blocks: u32) -> Result<(), BootError> {
    // UBI keeps some back for blocks that go bad.
    let blocks = blocks * 3 / 4;
    let volume = folder.join("volume.ubifs");
    run(Command::new("mkfs.ubifs")
        .args(["-m", NAND_PAGE, "-e", UBI_BLOCK])
        .args(["-c", &blocks.to_string(), "-r"])
        .arg(root)
        .arg("-o")
        .arg(&volume))?;
    let settings = folder.join("ubinize.ini");
    // Static volumes are checked whole when they are opened; UBIFS takes dynamic ones only.
    let text = format!(
        "[flash]\nmode=ubi\nimage={}\nvol_id=0\nvol_type=dynamic\nvol_name=flash\nvol_size={}KiB\n",
        volume.display(),
        blocks * UBI_BLOCK_KIB
    );
    fs::write(&settings, text).map_err(BootError::host(settings.display().to_string()))?;
    run(Command::new("ubinize")
        .args(["-m", NAND_PAGE, "-p", NAND_BLOCK, "-s", UBI_SUB_PAGE, "-o"])
        .arg(image)
        .arg(&settings))
}

/// Clean markers are in the spare area of NAND, where JFFS2 puts them itself.
fn make_jffs2(root: &Path, image: &Path) -> Result<(), BootError> {
    run(Command::new("mkfs.jffs2")
        .args(["--little-endian", "--no-cleanmarkers", "--pad"])
        .args(["--pagesize", NAND_PAGE, "--eraseblock", NAND_BLOCK])
        .arg("--root")
        .arg(root)
        .arg("--output")
        .arg(image))
}

fn make_ext4(root: &Path, image: &Path, size: &str) -> Result<(), BootError> {
    run(Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-b", "4096", "-d"])
        .arg(root)
        .arg(image)
        .arg(size))
}

/// Runs a tool to its end. It reads and writes files of ours only, so it ends by itself.
pub(super) fn run(command: &mut Command) -> Result<(), BootError> {
    let program = command.get_program().to_string_lossy().into_owned();
    // Where Debian keeps them; not everybody's PATH has it.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = command.env("PATH", path).output();
    let output = output.map_err(|why| match why.kind() {
        std::io::ErrorKind::NotFound => BootError::Missing {
            what: "a tool that makes images",
            path: PathBuf::from(&program),
        },
        _ => BootError::host(program.clone())(why),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BootError::Tool { program, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_names_every_page_of_the_file_as_it_is() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("file");
        write_file(&path, 10_000).expect("written");
        let pack = pack_of(path.to_str().expect("UTF-8"), 10_000);
        assert_eq!(pack.pages(), 3);
        pack.write(&folder.path().join("pack"))
            .expect("a sound pack");

        use std::os::unix::fs::MetadataExt;
        let status = fs::metadata(&path).expect("there");
        assert_eq!(status.size(), pack.files[0].size);
        let mtime_ns = status.mtime() * 1_000_000_000 + status.mtime_nsec();
        assert_eq!(mtime_ns, pack.files[0].mtime_ns);
    }

    #[test]
    fn tool_that_is_not_there_is_named() {
        let error = run(&mut Command::new("mkfs.of-nothing")).expect_err("not there");
        assert!(error.to_string().contains("mkfs.of-nothing"), "{error}");
        assert!(error.to_string().contains("make setup"), "{error}");
    }
}
