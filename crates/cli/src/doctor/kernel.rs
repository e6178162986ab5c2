//! What the running kernel says about itself: configuration, capabilities, one-line files.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

/// Capabilities by their bit (`linux/capability.h`).
#[derive(Clone, Copy)]
pub(super) enum Capability {
    NetAdmin = 12,
    NetRaw = 13,
    IpcLock = 14,
    SysNice = 23,
}

/// Whether this process has `capability`.
pub(super) fn has(capability: Capability) -> bool {
    let status = read("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    bits.unwrap_or(0) >> capability as u32 & 1 == 1
}

/// A small file of the kernel's, trimmed.
pub(super) fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// How an option was chosen when the kernel was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Built {
    /// Compiled in.
    In,
    /// As a module.
    Module,
    /// Not at all.
    Out,
}

/// How `option` (with `CONFIG_`) was chosen; `None` if the kernel does not tell.
pub(super) fn config(option: &str) -> Option<Built> {
    static CONFIG: OnceLock<Option<String>> = OnceLock::new();
    let text = CONFIG.get_or_init(load_config).as_ref()?;
    Some(find(text, option))
}

fn find(config: &str, option: &str) -> Built {
    let value = config
        .lines()
        .find_map(|line| line.strip_prefix(option)?.strip_prefix('='));
    match value {
        Some("y") => Built::In,
        Some("m") => Built::Module,
        _ => Built::Out,
    }
}

fn load_config() -> Option<String> {
    let release = read("/proc/sys/kernel/osrelease")?;
    if let Some(text) = read(&format!("/boot/config-{release}")) {
        return Some(text);
    }
    // The kernel's own copy is compressed; every Debian has gzip.
    let output = Command::new("gzip")
        .args(["-dc", "/proc/config.gz"])
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `bytes` for people, in binary units.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_whole() {
        let config = "CONFIG_A=y\nCONFIG_AB=m\n# CONFIG_C is not set\n";
        assert_eq!(find(config, "CONFIG_A"), Built::In);
        assert_eq!(find(config, "CONFIG_AB"), Built::Module);
        assert_eq!(find(config, "CONFIG_C"), Built::Out);
        assert_eq!(find(config, "CONFIG_"), Built::Out);
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(2048), "2.0 KiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
    }
}
