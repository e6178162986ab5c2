//! The emulated board: made ready, run until the core has told, and ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::device_tree::{self, DEVICES_AT, IMAGE_AT, INITRAMFS_AT, KERNEL_AT};
use super::programs::{COMPILER, QEMU, STARTER, finish, start};
use super::watch::{self, Watched, watch};
use super::{Exits, Files, GuestCpuInstructions, Load, Setup, bytes_of, guest_cpu_instructions};
use crate::LatencyError;

/// The core's last word.
const TOLD: &[u8] = b"rhealstone: told";
/// How often is looked whether it has come.
const LOOK: Duration = Duration::from_millis(100);
/// What QEMU may take to write its record to the end.
const END: Duration = Duration::from_secs(20);
/// Linux reads this, over and over.
const DISK_BYTES: u64 = 64 << 20;

/// Whose time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Instructions are counted, each taking two to this power of nanoseconds: every run is the
    /// same.
    Instructions {
        /// The power.
        shift: u32,
    },
    /// The host's, with a thread of its own for each CPU of the board.
    Host,
}

/// What a run left in its folder.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What came over the UART.
    pub serial: PathBuf,
    /// By the emulator's count; none by the host's clock.
    pub record: Option<Record>,
}

/// By the emulator's count; samples by the letter that begins them.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which instruction each byte was at, for [`crate::outside::edges`]; none with several CPUs,
    /// which QEMU cannot record.
    pub log: Option<PathBuf>,
    /// How often the core was left for the hypervisor.
    pub exits: BTreeMap<u8, Exits>,
    /// What its own CPU executed, of as many samples as
    /// [`Setup::guest_cpu_instruction_samples`] says.
    pub guest_cpu_instructions: BTreeMap<u8, GuestCpuInstructions>,
}

/// Boots it, and waits until the core has told everything. `give_up` is asked now and then.
///
/// # Errors
/// [`LatencyError::Tools`], [`LatencyError::Program`], [`LatencyError::Silent`]; nothing runs any
/// more then.
pub fn run(
    setup: &Setup,
    clock: Clock,
    folder: &Path,
    bound: Duration,
    give_up: impl Fn() -> bool,
) -> Result<Ended, LatencyError> {
    let files = setup.files()?;
    let tree = trees(setup, &files, folder)?;
    let serial = folder.join("serial");
    let log = (setup.partition.cpus() == 1).then(|| folder.join("record"));
    let mut command = machine(setup);
    command.arg("-no-reboot");
    command.arg("-dtb").arg(&tree);
    command.arg("-kernel").arg(&files.hypervisor);
    let modules = [
        (&files.kernel, KERNEL_AT),
        (&files.initramfs, INITRAMFS_AT),
        (&setup.image, IMAGE_AT),
        (&folder.join("devices.dtb"), DEVICES_AT),
    ];
    for (file, at) in modules {
        let file = plain(file)?;
        command.args([
            "-device",
            &format!("loader,file={file},addr={at:#x},force-raw=on"),
        ]);
    }
    command.args(["-serial", &format!("file:{}", plain(&serial)?)]);
    if setup.load == Load::Io {
        add_disk(&mut command, folder)?;
    }
    let mut wanted = 0;
    if let Clock::Instructions { shift } = clock {
        wanted = setup.guest_cpu_instruction_samples;
        let mut counting = format!("shift={shift},sleep=off");
        if let Some(log) = &log {
            counting += &format!(",rr=record,rrfile={}", plain(log)?);
        }
        command.args(["-icount", &counting]);
        command.args(["-seed", "1", "-rtc", "clock=vm,base=2024-01-01"]);
        command.args([
            "-d",
            watch::ALWAYS,
            "-dfilter",
            &guest_cpu_instructions::filter(),
        ]);
        // Without a file it would take several calls for a line.
        command.args(["-D", "/dev/stderr"]);
    }
    command
        .args(["-monitor", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = start(&mut command, &STARTER)?;
    let watched = wait(child, &serial, wanted, bound, give_up)?;
    Ok(Ended {
        serial,
        record: matches!(clock, Clock::Instructions { .. }).then_some(Record {
            log,
            exits: watched.exits,
            guest_cpu_instructions: watched.guest_cpu_instructions,
        }),
    })
}

/// The board without what is booted on it.
fn machine(setup: &Setup) -> Command {
    let mut command = Command::new(STARTER.program);
    command.args(["--pdeathsig", "KILL", QEMU.program]);
    command.args([
        "-machine",
        "virt,virtualization=on,gic-version=3,dtb-randomness=off",
    ]);
    command.args([
        "-cpu",
        &setup.cpu,
        "-m",
        "1024",
        "-smp",
        &setup.partition.cpus().to_string(),
    ]);
    command.args(["-nodefaults", "-display", "none", "-nic", "none"]);
    command
}

/// The board's tree with what Xen is to start, and the part for the RTOS, both compiled. Returns
/// the first.
fn trees(setup: &Setup, files: &Files, folder: &Path) -> Result<PathBuf, LatencyError> {
    let path = |name: &str| folder.join(name);
    let write = |name: &str, text: &str| {
        fs::write(path(name), text).map_err(LatencyError::file("write", path(name)))
    };
    write("devices.dts", &device_tree::devices())?;
    compile("dts", &path("devices.dts"), "dtb", &path("devices.dtb"))?;
    let own = path("board.dtb");
    let mut dump = machine(setup);
    dump.args(["-machine", &format!("dumpdtb={}", plain(&own)?)]);
    finish(&mut dump, &STARTER, &QEMU)?;
    compile("dtb", &own, "dts", &path("board.dts"))?;
    let board = fs::read_to_string(path("board.dts"))
        .map_err(LatencyError::file("read", path("board.dts")))?;
    let additions = device_tree::additions(setup, files, bytes_of(&path("devices.dtb"))?)?;
    // A later part of a source adds to the nodes of an earlier one.
    write("xen.dts", &(board + &additions))?;
    compile("dts", &path("xen.dts"), "dtb", &path("xen.dtb"))?;
    Ok(path("xen.dtb"))
}

fn compile(from: &str, source: &Path, to: &str, output: &Path) -> Result<(), LatencyError> {
    let mut command = Command::new(COMPILER.program);
    command
        .args(["-q", "-I", from, "-O", to, "-o"])
        .arg(output)
        .arg(source);
    finish(&mut command, &COMPILER, &COMPILER)
}

fn add_disk(command: &mut Command, folder: &Path) -> Result<(), LatencyError> {
    let path = folder.join("disk");
    let disk = File::create(&path).and_then(|disk| disk.set_len(DISK_BYTES));
    disk.map_err(LatencyError::file("make", &path))?;
    let drive = format!(
        "file={},format=raw,if=none,id=disk,read-only=on",
        plain(&path)?
    );
    command.args(["-drive", &drive, "-device", "virtio-blk-device,drive=disk"]);
    Ok(())
}

/// QEMU's options are separated by commas.
fn plain(path: &Path) -> Result<&str, LatencyError> {
    let text = path.to_str().filter(|text| !text.contains(','));
    text.ok_or_else(|| LatencyError::Path {
        path: path.to_owned(),
    })
}

/// Waits for the core's last word, and ends QEMU in order, so that its record is whole. Its log is
/// read meanwhile.
fn wait(
    mut child: Child,
    serial: &Path,
    wanted: u64,
    bound: Duration,
    give_up: impl Fn() -> bool,
) -> Result<Watched, LatencyError> {
    let (Some(log), Some(monitor)) = (child.stderr.take(), child.stdin.take()) else {
        // They were asked for when it was started.
        end(&mut child);
        return Err(QEMU.failed("it has no pipes"));
    };
    let mut said = String::new();
    let (why, watched) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(log, monitor, wanted, &mut said));
        let why = look(&mut child, serial, bound, give_up);
        // Its log ends with it.
        end(&mut child);
        let watched = watching.join();
        (
            why,
            watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    let why = match why {
        Why::Complete => return watched,
        Why::Gone(status) => format!("QEMU ended first ({status}): {}", said.trim()),
        Why::Other(why) => why,
    };
    Err(LatencyError::Silent {
        bytes: bytes_of(serial).unwrap_or(0),
        why,
    })
}

/// Why it is waited no longer.
enum Why {
    Complete,
    Gone(ExitStatus),
    Other(String),
}

fn look(child: &mut Child, serial: &Path, bound: Duration, give_up: impl Fn() -> bool) -> Why {
    let deadline = Instant::now() + bound;
    loop {
        std::thread::sleep(LOOK);
        if is_complete(serial) {
            return Why::Complete;
        }
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Why::Gone(status),
            Err(error) => return Why::Other(format!("cannot wait for QEMU: {error}")),
        }
        if give_up() {
            return Why::Other("interrupted".to_owned());
        }
        if Instant::now() > deadline {
            return Why::Other(format!("nothing more came within {bound:?}"));
        }
    }
}

/// Only the end is looked at: edges come first, many of them.
fn is_complete(serial: &Path) -> bool {
    let look = || {
        let mut file = File::open(serial)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(TOLD.len() as u64 + 2)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        Ok::<_, std::io::Error>(end)
    };
    look().is_ok_and(|end| end.windows(TOLD.len()).any(|window| window == TOLD))
}

fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        // It may have ended already.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let deadline = Instant::now() + END;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(LOOK);
    }
}
