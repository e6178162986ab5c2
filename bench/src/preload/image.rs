//! What the board's flash holds: the file that the test program reads, the pack that names it, and the image made of both.
//!
//! Made once per size, with the tools that firmware is made with. Lives in a directory of the run's own; never touches a device.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use hythe_preload::pack::{Extent, PAGE_BYTES, Pack, PackFile};

use super::case::FileSystem;
use super::error::BootError;

/// Where the flash is mounted on the board.
const MOUNT: &str = "/flash";
/// Whole seconds: JFFS2 keeps no fractions.
const MODIFIED_S: u64 = 1_700_000_000;
/// Pages and blocks of the simulated chip (64 MiB, SLC, named in init.sh).
const NAND_PAGE: &str = "2048";
const NAND_BLOCK: &str = "128KiB";
/// What UBI leaves of a block: its two headers are on sub-pages of 512 bytes, together on the first page.
const UBI_BLOCK: &str = "129024";
const UBI_SUB_PAGE: &str = "512";
/// Blocks of the simulated chip that are the board's flash: the largest file twice, and what UBI keeps back.
pub(crate) const BLOCKS: u32 = 128;
/// Of them, what UBI may give to the volume.
const VOLUME_BLOCKS: u32 = 96;
/// The virtual disk with ext4: the largest file, inodes, journal.
const DISK: &str = "16M";

/// An image, and where on the board its parts are.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) file_system: FileSystem,
    /// As the board sees it.
    pub(crate) file: String,
    /// As the board sees it.
    pub(crate) pack: String,
    pub(crate) file_bytes: usize,
}

impl Image {
    /// Makes one with a file of this size.
    pub(crate) fn make(
        folder: &Path,
        file_system: FileSystem,
        file_bytes: usize,
    ) -> Result<Self, BootError> {
        let root = folder.join(format!("root-{file_bytes}"));
        let image = Self {
            path: folder.join(format!("{file_system}-{file_bytes}.image")),
            file_system,
            file: format!("{MOUNT}/file"),
            pack: format!("{MOUNT}/pack"),
            file_bytes,
        };
        fs::create_dir(&root).map_err(BootError::host(root.display().to_string()))?;
        write_file(&root.join("file"), file_bytes)?;
        pack_of(&image.file, file_bytes).write(&root.join("pack"))?;
        match file_system {
            FileSystem::Ubifs => make_ubi(folder, &root, &image.path)?,
            FileSystem::Jffs2 => make_jffs2(&root, &image.path)?,
            FileSystem::Ext4 => make_ext4(&root, &image.path)?,
        }
        fs::remove_dir_all(&root).map_err(BootError::host(root.display().to_string()))?;
        Ok(image)
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

fn make_ubi(folder: &Path, root: &Path, image: &Path) -> Result<(), BootError> {
    let volume = folder.join("volume.ubifs");
    let blocks = VOLUME_BLOCKS.to_string();
    run(Command::new("mkfs.ubifs")
        .args(["-m", NAND_PAGE, "-e", UBI_BLOCK, "-c", &blocks, "-r"])
        .arg(root)
        .arg("-o")
        .arg(&volume))?;
    let settings = folder.join("ubinize.ini");
    // Static volumes are checked whole when they are opened; UBIFS takes dynamic ones only.
    let text = format!(
        "[flash]\nmode=ubi\nimage={}\nvol_id=0\nvol_type=dynamic\nvol_name=flash\nvol_size={}KiB\n",
        volume.display(),
        VOLUME_BLOCKS * 126
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

fn make_ext4(root: &Path, image: &Path) -> Result<(), BootError> {
    run(Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-b", "4096", "-d"])
        .arg(root)
        .arg(image)
        .arg(DISK))
}

/// Runs a tool to its end. It reads and writes files of ours only, so it ends by itself.
fn run(command: &mut Command) -> Result<(), BootError> {
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
    fn the_pack_names_every_page_of_the_file_as_it_is() {
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
    fn a_tool_that_is_not_there_is_named() {
        let error = run(&mut Command::new("mkfs.of-nothing")).expect_err("not there");
        assert!(error.to_string().contains("mkfs.of-nothing"), "{error}");
        assert!(error.to_string().contains("make setup"), "{error}");
    }
}
